"""orbit.kernels.gc: what is needed stays, what is old goes, and a limit takes the least recently used first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orbit.core.records import content_key
from orbit.core.store import RECORD_NAME, Store
from orbit.kernels.gc import DAY_S, Item, choose, collect, inventory

NOW = 1_000_000_000.0


def item(name: str, *, size: int = 1, days: float = 0.0, pinned: bool = False) -> Item:
    return Item(kind="wheel", name=name, path=f"/{name}", size=size, used=NOW - days * DAY_S, pinned=pinned)


def names(items: tuple[Item, ...]) -> list[str]:
    return sorted(each.name for each in items)


def test_old_things_go_unless_they_are_needed() -> None:
    plan = choose(
        [item("new", days=1), item("old", days=40), item("needed", days=400, pinned=True)],
        now=NOW,
        keep_days=30,
        max_bytes=None,
    )
    assert names(plan.remove) == ["old"]
    assert names(plan.keep) == ["needed", "new"]


def test_a_limit_takes_the_least_recently_used_first() -> None:
    items = [item("a", size=4, days=1), item("b", size=4, days=3), item("c", size=4, days=2)]
    plan = choose(items, now=NOW, keep_days=30, max_bytes=8)
    assert names(plan.remove) == ["b"]
    assert plan.freed() == 4


@given(
    st.lists(
        st.builds(item, st.uuids().map(str), size=st.integers(0, 9), days=st.floats(0, 90), pinned=st.booleans()),
        max_size=12,
    ),
    st.floats(0, 60),
    st.none() | st.integers(0, 60),
)
def test_choosing_loses_nothing_and_keeps_its_word(items: list[Item], keep_days: float, limit: int | None) -> None:
    plan = choose(items, now=NOW, keep_days=keep_days, max_bytes=limit)
    assert names(plan.remove) + names(plan.keep) != [] or not items
    assert sorted(names(plan.remove) + names(plan.keep)) == names(tuple(items))
    assert not [each for each in plan.remove if each.pinned]
    if limit is not None and any(not each.pinned for each in plan.keep):
        assert sum(each.size for each in plan.keep) <= limit
    if limit is None:
        assert all(NOW - each.used > keep_days * DAY_S for each in plan.remove)


def work(folder: Path) -> dict[str, Any]:
    (folder / "x.whl").write_bytes(b"1234")
    return {}


def test_the_store_is_taken_stock_of_and_swept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, new = (store.obtain("wheel", {"n": number}, work).path for number in (1, 2))
    other = store.obtain("environment", {"n": 1}, work).path
    unit = tmp_path / "units" / "ab" / "cdef"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(b"12")
    for path in (old / RECORD_NAME, other / RECORD_NAME, unit):
        os.utime(path, (1, 1))
    pinned = {("wheel", content_key({"n": 2}))}
    assert {(each.kind, each.pinned) for each in inventory(store, pinned)} == {
        ("wheel", False),
        ("wheel", True),
        ("units", False),
    }
    trial = collect(store, pinned, keep_days=30, max_bytes=None, dry_run=True)
    assert (old.exists(), unit.exists()) == (True, True)
    done = collect(store, pinned, keep_days=30, max_bytes=None, dry_run=False)
    assert done == trial
    assert names(done.remove) == sorted([old.name, "ab/cdef"])
    assert (old.exists(), unit.exists(), unit.parent.exists()) == (False, False, False)
    assert new.exists()
    assert other.exists()
    assert collect(store, pinned, keep_days=30, max_bytes=None, dry_run=False).remove == ()
