"""orbit.kernels.gc: only what belongs to kernels is looked at, and nothing of it that is needed goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orbit.core.records import content_key
from orbit.core.store import RECORD_NAME, Store
from orbit.kernels.gc import collect


def work(folder: Path) -> dict[str, Any]:
    (folder / "x.whl").write_bytes(b"1234")
    return {}


def test_the_store_is_taken_stock_of_and_swept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, new = (store.obtain("wheel", {"n": number}, work).path for number in (1, 2))
    other = store.obtain("env", {"n": 1}, work).path
    unit = tmp_path / "units" / "ab" / "cdef"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(b"12")
    facts = tmp_path / "facts" / "x"
    facts.parent.mkdir()
    facts.write_bytes(b"12")
    for path in (old / RECORD_NAME, new / RECORD_NAME, other / RECORD_NAME, unit, facts):
        os.utime(path, (1, 1))
    pinned = {("wheel", content_key({"n": 2}))}
    trial = collect(store, pinned, keep_days=30, max_bytes=None, dry_run=True)
    assert {(each.kind, each.pinned) for each in (*trial.keep, *trial.remove)} == {
        ("wheel", False),
        ("wheel", True),
        ("units", False),
    }
    assert (old.exists(), unit.exists()) == (True, True)
    done = collect(store, pinned, keep_days=30, max_bytes=None, dry_run=False)
    assert done == trial
    assert sorted(each.name for each in done.remove) == sorted([old.name, "ab/cdef"])
    assert (old.exists(), unit.exists(), unit.parent.exists()) == (False, False, False)
    assert (new.exists(), other.exists(), facts.exists()) == (True, True, True)
    assert collect(store, pinned, keep_days=30, max_bytes=None, dry_run=False).remove == ()
