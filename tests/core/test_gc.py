"""orbit.core.gc: what is needed stays, what is old goes, and a limit takes the least recently used first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orbit.core.gc import DAY_S, choose, plan_sweep, sweep
from orbit.core.stock import Item, closure, take_stock
from orbit.core.store import RECORD_NAME, Store

NOW = 1_000_000_000.0


def item(
    name: str,
    *,
    size: int = 1,
    days: float = 0.0,
    pinned: bool = False,
    kind: str = "wheel",
    needs: tuple[str, ...] = (),
) -> Item:
    return Item(
        kind=kind, name=name, path=f"/{name}", size=size, used=NOW - days * DAY_S, pinned=pinned, needs=needs
    )  # fmt: skip


def names(items: tuple[Item, ...]) -> list[str]:
    return sorted(each.name for each in items)


def test_old_things_go_unless_they_are_needed() -> None:
    items = [item("new", days=1), item("old", days=40), item("needed", days=400, pinned=True)]
    plan = choose(items, now=NOW, keep_days=30)
    assert names(plan.remove) == ["old"]
    assert names(plan.keep) == ["needed", "new"]


def test_what_a_kept_thing_needs_is_kept_in_any_number_of_steps() -> None:
    items = [
        item("env", kind="slim-env", days=1, needs=("env/plain",)),
        item("plain", kind="env", days=90, needs=("wheel/a",)),
        item("a", days=90),
        item("b", days=90),
    ]
    assert names(choose(items, now=NOW, keep_days=30).remove) == ["b"]
    assert names(choose(items, now=NOW, keep_days=0.5).remove) == ["a", "b", "env", "plain"]


def test_the_last_builds_stay_with_what_they_need() -> None:
    items = [
        item("one", kind="env", days=90, needs=("wheel/a",)),
        item("two", kind="env", days=80, needs=("wheel/b",)),
        item("a", days=90),
        item("b", days=90),
        item("layer", kind="layer", days=80),
    ]
    assert names(choose(items, now=NOW, keep_days=30, keep_last=1).keep) == ["b", "two"]
    assert names(choose(items, now=NOW, keep_days=30, keep_last=2).keep) == ["a", "b", "one", "two"]


def test_a_limit_takes_the_least_recently_used_first() -> None:
    items = [item("a", size=4, days=1), item("b", size=4, days=3), item("c", size=4, days=2)]
    assert names(choose(items, now=NOW, keep_days=30, max_bytes=8).remove) == ["b"]


def test_a_limit_takes_what_needs_before_what_is_needed() -> None:
    items = [item("env", kind="env", size=4, days=1, needs=("wheel/a",)), item("a", size=4, days=3)]
    assert names(choose(items, now=NOW, keep_days=30, max_bytes=4).remove) == ["env"]
    assert names(choose(items, now=NOW, keep_days=30, max_bytes=0).remove) == ["a", "env"]
    assert names(choose(items, now=NOW, keep_days=30, max_bytes=0, keep_last=1).remove) == []


NAMES = "abcdefgh"
ITEMS = st.lists(
    st.builds(
        item,
        st.sampled_from(NAMES),
        size=st.integers(0, 9),
        days=st.floats(0, 90),
        pinned=st.booleans(),
        needs=st.lists(st.sampled_from([f"wheel/{name}" for name in NAMES]), max_size=2).map(tuple),
    ),
    max_size=8,
    unique_by=lambda each: each.name,
)


@given(ITEMS, st.floats(0, 60), st.none() | st.integers(0, 60))
def test_choosing_loses_nothing_and_keeps_its_word(items: list[Item], keep_days: float, limit: int | None) -> None:
    plan = choose(items, now=NOW, keep_days=keep_days, max_bytes=limit)
    assert sorted(names(plan.remove) + names(plan.keep)) == names(tuple(items))
    kept = {each.id for each in plan.keep}
    assert closure(items, kept) & {each.id for each in items} == kept  # nothing that stays lacks what it needs
    assert not [each for each in plan.remove if each.pinned]
    if limit is None:
        assert all(NOW - each.used > keep_days * DAY_S for each in plan.remove)
    elif not any(each.pinned or each.needs for each in plan.keep):
        assert sum(each.size for each in plan.keep) <= limit


def work(folder: Path) -> dict[str, Any]:
    (folder / "x").write_bytes(b"1234" * 2000)
    return {}


def test_what_goes_is_gone_and_what_it_freed_is_what_no_other_name_has(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    one, two = (store.obtain("layer", {"n": number}, work).path for number in (1, 2))
    unit = store.root / "units" / "ab" / "cdef"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(b"12")
    os.link(one / "x", tmp_path / "blob-of-a-layout")
    for path in (one / RECORD_NAME, two / RECORD_NAME, unit):
        os.utime(path, (1, 1))
    stock = take_stock(store)
    plan = plan_sweep(stock, keep_days=30)
    assert names(plan.remove) == sorted([one.name, two.name, "ab/cdef"])
    assert plan.held == (one / "x").stat().st_blocks * 512
    assert plan.freed == sum(each.size for each in stock.items) - plan.held
    assert plan_sweep(stock, keep_days=30, kinds=["units"]).remove == tuple(x for x in plan.remove if x.kind == "units")
    sweep(store, plan)
    assert [one.exists(), two.exists(), unit.parent.exists()] == [False, False, False]
    assert (tmp_path / "blob-of-a-layout").read_bytes() == b"1234" * 2000
    assert take_stock(store).items == ()
