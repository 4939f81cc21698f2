"""The store: whole or absent, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orbit.core import store as stores
from orbit.core.records import content_key
from orbit.core.store import RECORD_NAME, Store, cache_root
from orbit.errors import RefusedError

INPUTS: dict[str, Any] = {"format": 1, "of": ["a", "b"]}


def work(folder: Path) -> dict[str, Any]:
    (folder / "sub").mkdir()
    (folder / "sub" / "big").write_text("big")
    (folder / "small").write_text("small")
    return {"count": 2}


def never(_folder: Path) -> dict[str, Any]:
    raise AssertionError("the work was done again")


def tmp_names(store: Store) -> list[str]:
    tmp = store.root / "tmp"
    return sorted(p.name for p in tmp.iterdir()) if tmp.is_dir() else []


def test_work_is_done_once(store: Store) -> None:
    first = store.obtain("thing", INPUTS, work)
    second = store.obtain("thing", dict(reversed(INPUTS.items())), never)
    assert (first.reused, second.reused) == (False, True)
    assert second.path == first.path == store.entry_path("thing", content_key(INPUTS))
    assert second.record == first.record
    assert first.record.outputs == {"count": 2}
    assert set(first.record.files) == {"small"}
    assert (first.path / "sub" / "big").read_text() == "big"
    assert tmp_names(store) == []


def test_entries_are_the_sound_ones_of_a_kind_the_last_used_first(store: Store) -> None:
    made = [store.obtain("thing", {**INPUTS, "format": number}, work) for number in range(4)]
    store.obtain("other", INPUTS, work)
    for entry, used in zip(made, (30, 10, 20, 40), strict=True):
        os.utime(entry.path / RECORD_NAME, (used, used))
    (made[3].path / "small").write_text("SMALL")
    (store.root / "entries" / "thing" / "nothing").mkdir()
    assert [entry.record for entry in store.entries("thing")] == [made[0].record, made[2].record, made[1].record]
    assert made[3].path.is_dir()
    assert list(store.entries("none")) == []


def test_kind_and_inputs_both_make_the_key(store: Store) -> None:
    paths = {
        store.obtain(kind, inputs, work).path
        for kind in ("thing", "other")
        for inputs in (INPUTS, {**INPUTS, "format": 2})
    }
    assert len(paths) == 4


def test_work_that_raises_leaves_nothing(store: Store) -> None:
    def half(folder: Path) -> dict[str, Any]:
        work(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.obtain("thing", INPUTS, half)
    assert store.find("thing", INPUTS) is None
    assert tmp_names(store) == []
    assert not store.obtain("thing", INPUTS, work).reused


KILLED = """
import os, signal, subprocess, sys, time
from pathlib import Path
from orbit.core import store as module
from orbit.core.store import Store
store = Store(Path(sys.argv[1]))
moment = sys.argv[2]
def die(): os.kill(os.getpid(), signal.SIGKILL)
def work(folder):
    (folder / "small").write_text("small")
    if moment == "work": die()
    return {}
if moment == "record": module.dump_json = lambda *args: die()
if moment == "rename": module.os.rename = lambda *args: die()
if moment == "after": module.sync_folder = lambda *args: die()
with store.writer("test"):
    store.sweep()
    store.obtain("thing", {"format": 1}, work)
"""


@pytest.mark.parametrize(
    ("moment", "survives"), [("work", False), ("record", False), ("rename", False), ("after", True)]
)
def test_kill_9_leaves_whole_or_absent_and_the_next_run_works(store: Store, moment: str, survives: bool) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, store.root, moment], check=False)
    assert done.returncode == -signal.SIGKILL
    found = store.find("thing", {"format": 1})
    assert (found is not None) is survives
    assert len(tmp_names(store)) == (0 if survives else 1)
    again = subprocess.run([sys.executable, "-c", KILLED, store.root, "none"], check=False)
    assert again.returncode == 0
    entry = store.find("thing", {"format": 1})
    assert entry is not None
    assert (entry.path / "small").read_text() == "small"
    assert tmp_names(store) == []


def cut_record(path: Path) -> None:
    (path / RECORD_NAME).write_bytes((path / RECORD_NAME).read_bytes()[:50])


def no_record(path: Path) -> None:
    (path / RECORD_NAME).unlink()


def changed_file(path: Path) -> None:
    (path / "small").write_text("smalL")


def no_file(path: Path) -> None:
    (path / "small").unlink()


def foreign_record(path: Path) -> None:
    text = (path / RECORD_NAME).read_text()
    (path / RECORD_NAME).write_text(text.replace('"kind"', '"knid"'))


@pytest.mark.parametrize("damage", [cut_record, no_record, changed_file, no_file, foreign_record])
def test_a_damaged_entry_is_discarded_and_made_anew(store: Store, damage: Any) -> None:
    entry = store.obtain("thing", INPUTS, work)
    damage(entry.path)
    assert store.find("thing", INPUTS) is None
    assert not entry.path.exists()
    assert tmp_names(store) == []
    assert store.obtain("thing", INPUTS, work).record.files == entry.record.files


def test_scratch_folders_are_distinct_and_swept(store: Store) -> None:
    first, second = store.scratch("x"), store.scratch("x")
    assert first != second
    (first / "deep").mkdir()
    (first / "deep" / "file").touch()
    (store.root / "tmp" / "stray").touch()
    (store.root / "tmp" / "dangling").symlink_to("nowhere")
    with store.writer("test"):
        store.sweep()
    assert tmp_names(store) == []


def test_sweep_of_an_empty_store(store: Store) -> None:
    store.sweep()
    assert not store.root.exists()


def test_sweep_copes_with_an_orphan_that_still_writes(store: Store) -> None:
    folder = store.scratch("killed")
    program = (
        "import itertools, sys\n"
        "from pathlib import Path\n"
        "for n in itertools.count():\n"
        "    (Path(sys.argv[1]) / f'f{n}').write_text('x')\n"
        "    if n == 20: print('going', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as orphan:
        assert orphan.stdout is not None
        assert orphan.stdout.readline() == b"going\n"
        store.sweep()
        assert orphan.wait(10) == 1  # its folder is gone
    assert tmp_names(store) == []


def test_one_writer(store: Store) -> None:
    with store.writer("ship"), pytest.raises(RefusedError, match=f"ship: ship is running .process {os.getpid()}"):
        store.writer("ship").__enter__()
    with store.writer("ship"):
        assert (store.root / "lock").is_file()


def test_the_seconds_are_those_of_the_work(store: Store) -> None:
    def slow(_folder: Path) -> dict[str, Any]:
        time.sleep(0.05)
        return {}

    entry = store.obtain("thing", INPUTS, slow)
    assert 0.05 <= entry.record.seconds < 5
    assert store.obtain("thing", INPUTS, never).record.seconds == entry.record.seconds


def test_cache_root_by_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORBIT_CACHE", "relative")
    assert cache_root() == tmp_path / "relative"
    monkeypatch.delenv("ORBIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_root() == Path("/x/orbit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert cache_root() == Path("/h/.cache/orbit")


def test_a_file_that_was_not_touched_is_hashed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.obtain("thing", INPUTS, work)
    hashed: list[Path] = []
    real = stores.sha256_file
    monkeypatch.setattr(stores, "sha256_file", lambda path: hashed.append(path) or real(path))
    first = store.find("thing", INPUTS)
    assert first is not None
    assert [path.name for path in hashed] == ["small"]
    assert store.find("thing", INPUTS) is not None
    assert len(hashed) == 1
    (first.path / "small").write_text("SMALL")
    assert store.find("thing", INPUTS) is None


def test_use_is_seen_in_the_record_s_time(store: Store) -> None:
    path = store.obtain("thing", INPUTS, work).path / RECORD_NAME
    os.utime(path, (1, 1))
    store.find("thing", INPUTS)
    assert path.stat().st_mtime > 1


def test_the_store_that_the_variables_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ORBIT_SHARED", raising=False)
    assert (stores.open_store().root, stores.open_store().shared) == (tmp_path / "cache", None)
    monkeypatch.setenv("ORBIT_SHARED", str(tmp_path / "shared"))
    shared = stores.open_store().shared
    assert shared is not None
    assert shared.root == tmp_path / "shared"


def test_threads_that_need_the_same_thing_make_it_once(store: Store) -> None:
    made: list[int] = []

    def slow(folder: Path) -> dict[str, Any]:
        made.append(threading.get_ident())
        time.sleep(0.2)
        return work(folder)

    with ThreadPoolExecutor(8) as pool:
        entries = list(pool.map(lambda _n: store.obtain("thing", INPUTS, slow), range(8)))
    assert len(made) == 1
    assert sorted(entry.reused for entry in entries) == [False] + [True] * 7
    assert len({entry.path for entry in entries}) == 1


def test_different_things_are_made_at_the_same_time(store: Store) -> None:
    both = threading.Barrier(2, timeout=10)

    def meet(folder: Path) -> dict[str, Any]:
        both.wait()
        return work(folder)

    with ThreadPoolExecutor(2) as pool:
        entries = list(pool.map(lambda n: store.obtain("thing", {"n": n}, meet), range(2)))
    assert [entry.reused for entry in entries] == [False, False]


def test_a_damaged_entry_is_discarded_by_several_threads_at_once(store: Store) -> None:
    for _ in range(20):
        entry = store.obtain("thing", INPUTS, work)
        (entry.path / "small").write_text("damaged")
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _n: store.find("thing", INPUTS), range(8)))
        assert found == [None] * 8
        assert tmp_names(store) == []
