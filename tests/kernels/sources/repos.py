"""Repositories, bundles and recipes written by test code."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from orbit.core.records import convert
from orbit.kernels.recipe import Recipe
from orbit.kernels.sources import Pin
from orbit.profile.lock import Lock, parse_lock

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
URL = "https://forge.invalid/owner/kernel"
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ann"), ("EMAIL", "ann@example.invalid"), ("DATE", "2020-01-01T00:00:00Z"))
}


def git(folder: Path, *args: str, stdin: bytes | None = None) -> str:
    """Run git in ``folder`` with no settings but its own; what it said."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", **IDENTITY}
    env["GIT_ALLOW_PROTOCOL"] = "file"
    done = subprocess.run(["git", *args], cwd=folder, env=env, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write ``files``; content that begins with ``->`` is the target of a link."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if data.startswith(b"->"):
            path.symlink_to(os.fsdecode(data[2:]))
        else:
            path.write_bytes(data)
            path.chmod(0o755 if name.endswith(".sh") else 0o644)


def commit_all(folder: Path) -> str:
    """Commit everything in a clone; the commit."""
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    return git(folder, "rev-parse", "HEAD")


def clone(folder: Path, files: dict[str, bytes]) -> str:
    """A new repository with ``files`` checked out in ``folder``; its commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    write(folder, files)
    return commit_all(folder)


def tree_of(folder: Path, commit: str = "HEAD") -> str:
    """The commit's tree."""
    return git(folder, "rev-parse", f"{commit}^{{tree}}")


def pin_of(folder: Path, url: str = URL, path: str = "") -> Pin:
    """The head of a repository as a pin."""
    return Pin(path=path, url=url, commit=git(folder, "rev-parse", "HEAD"), tree=tree_of(folder))


def raw_commit(folder: Path, rows: list[tuple[str, bytes, str]]) -> str:
    """A commit whose tree has exactly these (mode, name, object) rows, whatever git thinks of them."""
    data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in rows)
    tree = git(folder, "hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=data)
    commit = git(folder, "commit-tree", tree, "-m", "x")
    git(folder, "update-ref", "refs/heads/main", commit)
    return commit


def blob(folder: Path, data: bytes) -> str:
    """Name of a new blob."""
    return git(folder, "hash-object", "-w", "--stdin", stdin=data)


def recipe_of(kind: str = "git", *, name: str = "kernel", mode: str = "source", **rest: Any) -> Recipe:
    """A recipe; ``rest`` goes into its source, except ``patches``."""
    patches = [{"file": file, "reason": "why"} for file in rest.pop("patches", ())]
    return convert(
        {
            "schema": 1, "name": name, "dist": name, "mode": mode, "tier": "core", "group": "cuda", "memory_gib": 1,
            "core_hours": 1, "device_units": 0, "artifacts": ["x"], "patches": patches,
            "source": {"kind": kind, **({"version": "1"} if kind == "git" else {}), **rest},
        },
        Recipe,
        "recipe",
    )  # fmt: skip


def git_recipe(folder: Path, url: str = URL, **rest: Any) -> Recipe:
    """A recipe of the head of a repository."""
    pin = pin_of(folder, url)
    return recipe_of(url=url, commit=pin.commit, tree=pin.tree, **rest)


def lock_text(**files: bytes) -> str:
    """A lock whose package ``kernel`` has an ``sdist`` and a ``wheel`` of these bytes; its addresses lead nowhere."""
    lines = ['version = 1\nrequires-python = ">=3.12"', '[[package]]\nname = "orbit"\nversion = "1"']
    lines += ['source = { editable = "." }\n[[package]]\nname = "kernel"\nversion = "1"']
    lines += ['source = { registry = "https://index.invalid/simple" }']
    for key, data in files.items():
        name = "kernel-1.tar.gz" if key == "sdist" else "kernel-1-py3-none-any.whl"
        entry = f'{{ url = "https://index.invalid/{name}", hash = "sha256:{hashlib.sha256(data).hexdigest()}" }}'
        lines.append(f"sdist = {entry}" if key == "sdist" else f"wheels = [{entry}]")
    return "\n".join(lines)


def locked(root: Path, **files: bytes) -> Lock:
    """:func:`lock_text`, read."""
    return parse_lock(lock_text(**files).encode(), root / "uv.lock")


def sdist_of(files: dict[str, bytes]) -> bytes:
    """An sdist of kernel 1 with these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"kernel-1/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()
