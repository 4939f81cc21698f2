"""A repository that can be built in a clean room in a second: its ``orbitw`` writes a miniature run.

What it does besides is in files of the commit: ``content`` (of the image), ``status`` (it fails with that), ``ask`` (an
address it fetches first), ``fill`` (it says that the disk is full).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orbit.core import proc
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from orbit.release.checkout import Checkout
from orbit.release.gate.candidate import read_candidate
from orbit.release.gate.cleanroom import Job, Options
from orbit.release.gate.model import CleanRoomPolicy
from tests.release.gate.made_run import ROOT, MadeRun
from tests.release.repositories import repository

ORBITW = f"""\
#!{sys.executable}
import json, os, subprocess, sys, urllib.request
from pathlib import Path
sys.path[:0] = [{str(ROOT)!r}]
from orbit.release.checkout import read_checkout
from tests.release.gate.made_run import MadeRun
here = Path(".").resolve()
room = Path(sys.argv[sys.argv.index("--dist") + 1]).parent
print("      0.0s  [lock] passed", file=sys.stderr, flush=True)
seen = {{"argv": sys.argv[1:], "cwd": str(here), "environment": dict(os.environ)}}
if Path("ask").exists():
    try:
        urllib.request.urlopen(Path("ask").read_text().strip(), timeout=20).read()
    except OSError as error:
        seen["answer"] = str(error)
(room / "seen.json").write_text(json.dumps(seen))
if Path("status").exists():
    print("orbit: error: source.tar.gz: cannot be had\\n  fix: put it there", file=sys.stderr)
    sys.exit(int(Path("status").read_text()))
MadeRun(room, checkout=read_checkout(here), room=None, prefix=None, content=Path("content").read_bytes()).write()
"""
POLICY = CleanRoomPolicy(
    environment=("PATH", "ORBIT_PYTHON"), files=("uv.lock",), hosts=(), host_apt=False, fences=("namespace", "proxy")
)


def checkout(root: Path, **files: str) -> str:
    """Such a repository; the name of its commit."""
    lock = '[[package]]\nurl = "http://declared.example/a.whl"\n# http://remark.example\n'
    given = {"orbitw": ORBITW, "uv.lock": lock, "content": "1", ".gitignore": "__pycache__/\n", **files}
    return repository(root, given)


def candidate_run(tmp: Path, commit: str, content: bytes = b"1") -> MadeRun:
    """The run whose image shall be had again."""
    return MadeRun(tmp, checkout=Checkout(commit=commit), room=None, prefix=None, content=content).write()


def job(tmp_path: Path, *, content: bytes = b"1", keep: bool = False, fence: str = "auto", **files: str) -> Job:
    """A clean room over such a repository."""
    root = tmp_path / "checkout"
    commit = checkout(root, **files)
    made = candidate_run(tmp_path / "candidate", commit, content)
    profile = load_profile("probe")
    return Job(
        candidate=read_candidate(made.folder, profile),
        profile=profile,
        root=root,
        policy=POLICY,
        options=Options(place=tmp_path / "room", keep=keep, fence=fence),
        progress=Silent(),
    )


def namespaces() -> None:
    """Skip where this process gets no network namespace."""
    done = proc.run(["unshare", "--net", "true"], doing="trying a network namespace", check=False)
    if done.returncode != 0:
        pytest.skip("no network namespace can be made here")
