"""Files as the user inside finds them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.smoke.kinds.tree import Entry, check_caches, check_tree, ends_in, entry_fault, walk
from orbit.smoke.model import CheckError, Context

SITE = "lib/python3.12/site-packages"
CACHES = {"folders": ["{prefix}", "/no-such-folder"], "caches": [".triton/cache", "torchinductor_*"]}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    for name, text in {
        "bin/tool": "#!/bin/sh\n",
        f"{SITE}/pack/__init__.py": "",
        f"{SITE}/pack-1.dist-info/RECORD": "pack/__init__.py,,\n../../../bin/tool,,\npack/gone.pyc,,\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin/tool").chmod(0o755)
    (tmp_path / "bin/link").symlink_to("tool")
    return tmp_path


def look(prefix: Path, **parameters: object) -> dict[str, object]:
    return check_tree({"folders": ["{prefix}"], **parameters}, Context(prefix=str(prefix)))


def test_a_whole_tree(prefix: Path) -> None:
    assert look(prefix)["files"] == 10


def test_what_is_missing_by_the_records(prefix: Path) -> None:
    (prefix / SITE / "pack/__init__.py").unlink()
    with pytest.raises(CheckError, match=r"pack-1: 1 of 2 files of its RECORD are missing: pack/__init__.py"):
        look(prefix)


@pytest.mark.parametrize(
    ("target", "says"),
    [("absent", "a link to nothing"), ("/absent/x", "a link to nothing"), ("../" * 30 + "etc", "climbs out")],
)
def test_links_that_lead_nowhere_or_out(prefix: Path, target: str, says: str) -> None:
    (prefix / "bad").symlink_to(target)
    with pytest.raises(CheckError, match=says):
        look(prefix)
    assert look(prefix, but=["{prefix}/ba?"])


def test_a_program_nobody_may_run(prefix: Path) -> None:
    (prefix / "bin/tool").chmod(0o644)
    with pytest.raises(CheckError, match="a program that nobody may run"):
        look(prefix)
    (prefix / SITE / "pack/bin").mkdir()
    (prefix / "bin/tool").chmod(0o755)
    (prefix / SITE / "pack/bin/tool.profile").write_text("")
    assert look(prefix)


def test_what_this_user_may_not_read(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: not path.endswith("tool"))
    entry = Entry(str(prefix / "bin/tool"), is_folder=False, is_link=False, mode=0o100700)
    assert "may not read it (mode 0700)" in entry_fault(entry, "/bin")


def test_nothing_to_look_at_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="no such folder; nothing was found"):
        look(tmp_path / "absent")
    assert list(walk(str(tmp_path / "absent"))) == []


def test_caches_without_release_or_device_in_their_path(prefix: Path) -> None:
    context = Context(prefix=str(prefix))
    (prefix / SITE / "pack/.triton/cache").mkdir(parents=True)
    assert check_caches(CACHES, context)  # nothing is in it
    (prefix / SITE / "pack/.triton/cache/k.cubin").write_text("")
    with pytest.raises(CheckError, match=r"\.triton/cache: compiled code without release or device"):
        check_caches(CACHES, context)
    (prefix / SITE / "pack").rename(prefix / SITE / "pack-cu130-sm_90")
    assert check_caches(CACHES, context)
    with pytest.raises(CheckError, match="nothing was looked for"):
        check_caches({"folders": [], "caches": []}, context)


def test_ends_of_paths() -> None:
    assert ends_in("/srv/.triton/cache", (".triton/cache",))
    assert ends_in("/tmp/torchinductor_ann", ("x", "torchinductor_*"))
    assert not ends_in("/srv/.triton/cache/ab", (".triton/cache",))
    assert not ends_in("/cache", (".triton/cache",))
