"""Taking stock: every file once, what needs what by the digests that entries mention, damaged entries as well."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from orbit.core.records import content_key
from orbit.core.stock import Item, closure, files, take_stock
from orbit.core.store import RECORD_NAME, Store

DIGEST = "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def put(store: Store, kind: str, inputs: dict[str, Any], outputs: dict[str, Any] | None = None) -> str:
    """An entry with one file; its id."""

    def work(folder: Path) -> dict[str, Any]:
        (folder / "data").mkdir()
        (folder / "data" / "file").write_bytes(b"x" * 10_000)
        return outputs or {}

    return f"{kind}/{store.obtain(kind, inputs, work).record.key}"


def of(store: Store, **more: Any) -> dict[str, Item]:
    return {item.id: item for item in take_stock(store, **more).items}


def test_what_an_entry_mentions_it_needs(store: Store) -> None:
    wheel = put(store, "wheel", {"recipe": "x"}, {"sha256": DIGEST})
    interpreter = put(store, "interpreter", {"version": "3.12"}, {"tree": "cd" * 32})
    env = put(store, "env", {"interpreter": "cd" * 32, "wheels": [["x", "1", DIGEST]]})
    slim = put(store, "slim-env", {"environment": env.partition("/")[2]})
    other = put(store, "env", {"interpreter": "ef" * 32})
    found = of(store)
    assert found[env].needs == tuple(sorted([wheel, interpreter]))
    assert found[slim].needs == (env,)
    assert found[other].needs == found[wheel].needs == ()
    assert closure(found.values(), [slim]) == {slim, env, wheel, interpreter}


def test_two_that_are_known_by_one_digest_do_not_need_each_other(store: Store) -> None:
    tree = put(store, "layer-tree", {"diff_id": f"sha256:{DIGEST}"})
    blob = put(store, "layer", {"members": "cd" * 32}, {"diff_id": f"sha256:{DIGEST}"})
    root = put(store, "rootfs", {"layers": [f"sha256:{DIGEST}"]})
    plan = put(store, "layer-plan", {"tree": "ef" * 32}, {"layers": [{"members": "cd" * 32}]})
    found = of(store)
    assert found[tree].needs == found[blob].needs == ()
    assert tree in found[root].needs
    assert found[plan].needs == (blob,)


def test_links_are_counted_once_and_freed_when_the_last_name_goes(store: Store, tmp_path: Path) -> None:
    env, slim = put(store, "env", {"n": 1}), put(store, "slim-env", {"n": 2})
    target = store.root / "entries" / slim / "data" / "shared"
    os.link(store.root / "entries" / env / "data" / "file", target)
    stock = take_stock(store)
    size = {item.id: item.size for item in stock.items}
    shared = target.stat().st_blocks * 512
    assert sum(size.values()) == sum(status.st_blocks * 512 for status in files(store.root)) - shared
    assert stock.freed([env]) == size[env] - shared
    assert stock.freed([slim]) == size[slim]
    assert stock.freed([env, slim]) == size[env] + size[slim]
    assert stock.outside([env]) == 0
    os.link(target, tmp_path / "elsewhere")
    stock = take_stock(store)
    assert stock.freed([env, slim]) == size[env] + size[slim] - shared
    assert stock.outside([env]) == stock.outside([slim]) == shared


def test_loose_files_are_things_of_their_own(store: Store) -> None:
    for folder, name in (("units", "step/ab/cd"), ("logs", "x.log"), ("facts", "layers/1/a.facts"), ("other", "kept")):
        path = store.root / folder / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"1")
        os.utime(path, (5, 5))
    found = of(store)
    assert set(found) == {"units/step/ab/cd", "logs/x.log", "facts/layers/1/a.facts"}
    assert {item.used for item in found.values()} == {5}
    assert set(of(store, loose=("units",))) == {"units/step/ab/cd"}


def test_what_is_pinned_and_what_is_shared(store: Store, tmp_path: Path) -> None:
    wheel = put(store, "wheel", {"n": 1})
    key = content_key({"n": 1})
    shared = tmp_path / "shared" / "wheel" / key[:2] / key
    shared.parent.mkdir(parents=True)
    shared.write_bytes(b"x")
    found = of(store, pinned={("wheel", key)}, shared=tmp_path / "shared")
    assert found[wheel].pinned
    assert found[f"shared/wheel/{key[:2]}/{key}"].pinned
    assert not of(store)[wheel].pinned
    assert set(of(store, kinds=("layer",))) == set()


def test_an_entry_without_a_record_is_one_that_was_never_used(store: Store) -> None:
    wheel = put(store, "wheel", {"n": 1})
    (store.root / "entries" / wheel / RECORD_NAME).unlink()
    assert (of(store)[wheel].used, of(store)[wheel].needs) == (0.0, ())
