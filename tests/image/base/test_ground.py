"""The folder a root file system is put together in: reachable, found again after a kill, deleted whoever owns it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from orbit.core.store import Store
from orbit.image.base import ground as module
from orbit.image.base.ground import PREFIX, everybody_enters, ground, sweep
from tests.core.processes import until


def test_it_is_open_to_enter_and_gone_afterwards(store: Store) -> None:
    with ground(store) as folder:
        assert folder.stat().st_mode & 0o777 == 0o755
        (folder / "x").write_text("x")
    assert not folder.exists()


def test_it_is_gone_after_a_failure(store: Store) -> None:
    seen: list[Path] = []

    def work() -> None:
        with ground(store) as folder:
            seen.append(folder)
            (folder / "deep" / "er").mkdir(parents=True)
            (folder / "deep").chmod(0o500)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert [folder.exists() for folder in seen] == [False]


def test_two_at_once_do_not_meet(store: Store) -> None:
    with ground(store) as one, ground(store) as other:
        assert one != other
        assert one.is_dir()


def test_what_killed_runs_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = tmp_path / f"{PREFIX}{os.getuid()}.{dead.stdout.decode().strip()}.0"
    (left / "tmp" / "root").mkdir(parents=True)
    alive = tmp_path / f"{PREFIX}{os.getuid()}.{os.getpid()}.9"
    others = tmp_path / f"{PREFIX}{os.getuid() + 1}.{dead.stdout.decode().strip()}.0"
    link = tmp_path / f"{PREFIX}{os.getuid()}.{dead.stdout.decode().strip()}.1"
    for path in (alive, others):
        path.mkdir()
    (tmp_path / "target").mkdir()
    link.symlink_to(tmp_path / "target")
    sweep(tmp_path)
    assert not left.exists()
    assert alive.is_dir()
    assert others.is_dir()
    assert (tmp_path / "target").is_dir()


def test_a_closed_folder_above_is_seen(tmp_path: Path) -> None:
    place = tmp_path / "home" / "store" / "base"
    place.parent.mkdir(parents=True)
    for folder in (place.parent, place.parent.parent):
        folder.chmod(0o755)
    base = everybody_enters(tmp_path)
    assert everybody_enters(place) == base
    place.parent.parent.chmod(0o700)
    assert not everybody_enters(place)


def test_without_root_a_closed_store_is_not_used(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(module, "everybody_enters", lambda _path: False)
    with ground(store) as folder:
        assert folder.parent == tmp_path / "temporary"
    monkeypatch.setattr(module, "everybody_enters", lambda _path: True)
    with ground(store) as folder:
        assert folder.parent == store.root / "base"


HOLDING = """
import sys, time
from pathlib import Path
from orbit.core.store import Store
from orbit.image.base.ground import ground
with ground(Store(Path(sys.argv[1]))) as folder:
    (folder / "tmp").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_killed_run_is_cleared_away_by_the_next(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(store.root)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        left = Path(child.stdout.readline().decode().strip())
        os.kill(child.pid, signal.SIGKILL)
    assert until(lambda: not os.path.exists(f"/proc/{child.pid}"))
    assert (left / "tmp").is_dir()
    with ground(store):
        assert not left.exists()
