"""A job's folder: private, short, and removed when its owner is dead and only then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orbit.core.records import compact_json
from orbit.errors import RefusedError
from orbit.launch.ray import folders
from orbit.launch.ray.folders import MOST_BYTES, OWNER_FILE, Owner, is_dead, myself, private_folder, remove_dead


@pytest.fixture
def tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short folder in the place of /tmp/orbit-<uid>, removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="ob"))
    monkeypatch.setattr(folders, "own_tmp", lambda: place / "t")
    yield place
    shutil.rmtree(place)


def test_the_first_place_that_is_named_is_used(tmp: Path) -> None:
    with private_folder({"RAY_TMPDIR": str(tmp / "a"), "ORBIT_STATE": str(tmp / "b")}) as folder:
        assert folder.real.parent == tmp / "a"
        assert folder.short == folder.real
        assert folder.real.stat().st_mode & 0o777 == 0o700
        assert not is_dead(myself())
    assert list((tmp / "a").iterdir()) == []


def test_a_long_name_gets_a_short_link(tmp: Path) -> None:
    long = tmp / ("x" * 60)
    with private_folder({"ORBIT_STATE": str(long)}) as folder:
        assert folder.real.parent == long
        assert folder.short.parent == tmp / "t"
        assert len(os.fsencode(folder.short)) <= MOST_BYTES
        (folder.short / "file").touch()
        assert (folder.real / "file").exists()
    assert list(long.iterdir()) == []
    assert list((tmp / "t").iterdir()) == []


def test_two_jobs_have_two_folders(tmp: Path) -> None:
    env = {"ORBIT_STATE": str(tmp / "a")}
    with private_folder(env) as one, private_folder(env) as two:
        assert one.real != two.real
        assert one.real.exists()


def test_a_full_disk_and_a_foreign_place_are_passed_over(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_to_all = tmp / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    full = tmp / "full"
    monkeypatch.setattr(folders, "free_bytes", lambda place: 5 if full in (place, *place.parents) else 1 << 40)
    env = {"RAY_TMPDIR": str(full), "ORBIT_STATE": str(open_to_all)}
    with private_folder(env) as folder:
        assert folder.real.parent == tmp / "t"
    monkeypatch.setattr(folders, "free_bytes", lambda place: 5)
    with pytest.raises(RefusedError) as caught, private_folder(env):
        pass
    assert "5 B are free" in caught.value.what
    assert "everybody may rename" in caught.value.what
    assert "107" in caught.value.what


def test_what_a_dead_owner_left_is_removed_and_nothing_else(tmp: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    me = myself()
    owners = {
        "o-dead": msgspec.structs.replace(me, pid=dead.pid),
        "o-again": msgspec.structs.replace(me, started=me.started + 1),
        "o-reboot": msgspec.structs.replace(me, boot="another"),
        "o-alive": me,
        "o-elsewhere": msgspec.structs.replace(me, pid=dead.pid, pid_space=1),
    }
    for name, owner in owners.items():
        (tmp / name).mkdir()
        (tmp / name / OWNER_FILE).write_bytes(compact_json(owner))
    for name in ("o-unknown", "other"):
        (tmp / name).mkdir()
    (tmp / "o-broken").mkdir()
    (tmp / "o-broken" / OWNER_FILE).write_text("{")
    (tmp / "o-link").symlink_to(tmp / "gone")
    (tmp / "o-live-link").symlink_to(tmp / "o-alive")
    removed = {path.name for path in remove_dead(tmp)}
    assert removed == {"o-dead", "o-again", "o-reboot", "o-link"}
    assert {path.name for path in tmp.iterdir()} == {
        "o-alive", "o-elsewhere", "o-unknown", "other", "o-broken", "o-live-link",
    }  # fmt: skip
    assert isinstance(me, Owner)
