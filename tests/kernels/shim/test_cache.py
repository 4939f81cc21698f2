"""orbit.kernels.shim.cache: what is read is what was written, or nothing; a shared folder never stops anybody."""

from __future__ import annotations

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.shim.cache import UnitCache, key_of, pack, unpack
from tests.kernels.shim.farm import lines, settings

KEY = key_of("a step")
FILES = {"ptx": b".version 9.0\n" * 50, "stdout": b"", "stderr": b"warning\n"}


def cache(root: Path, **more: Any) -> UnitCache:
    root.mkdir(exist_ok=True)
    return UnitCache(settings(root, **more))


def entry_file(folder: Path, kind: str = "step") -> Path:
    return folder / kind / KEY[:2] / KEY


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_a_key_tells_where_each_part_ends(one: list[str], two: list[str]) -> None:
    assert (key_of(*one) == key_of(*two)) == (one == two)


@given(st.dictionaries(st.text(max_size=5), st.binary(max_size=300), max_size=4))
def test_what_is_packed_is_unpacked(files: dict[str, bytes]) -> None:
    entry = unpack(pack(files, {"cpu_s": 1.5}))
    assert entry is not None
    assert (entry.files, entry.meta) == (files, {"cpu_s": 1.5})


@given(st.data())
def test_damage_is_no_entry(data: st.DataObject) -> None:
    whole = pack(FILES, {})
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    assert unpack(bytes(changed)) is None
    assert unpack(whole[:at]) is None
    assert unpack(whole + b"x") is None


def test_an_entry_is_kept_and_a_damaged_one_is_removed_and_made_again(tmp_path: Path) -> None:
    units = tmp_path / "units"
    mine = cache(tmp_path / "build", units=str(units))
    assert mine.get("step", KEY) is None
    size = mine.put("step", KEY, FILES, {})
    found = mine.get("step", KEY)
    assert found is not None
    assert (found.files, found.size) == (FILES, size)
    assert mine.get("object", KEY) is None
    entry_file(units).write_bytes(entry_file(units).read_bytes()[:-1])
    assert mine.get("step", KEY) is None
    assert not entry_file(units).exists()
    assert "damaged" in lines(tmp_path / "build", "cache")[0]["error"]
    mine.put("step", KEY, FILES, {})
    assert mine.get("step", KEY) is not None
    assert sorted(path.name for path in units.rglob("*") if path.is_file()) == [KEY]


def test_no_folder_keeps_nothing(tmp_path: Path) -> None:
    none = cache(tmp_path / "build")
    assert not none
    none.put("step", KEY, FILES, {})
    assert none.get("step", KEY) is None


def test_the_shared_folder_is_read_and_written_through(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    cache(tmp_path / "one", units=str(tmp_path / "u1"), shared=shared).put("step", KEY, FILES, {"cpu_s": 3.0})
    second = cache(tmp_path / "two", units=str(tmp_path / "u2"), shared=shared)
    assert second.get("step", KEY) is not None
    assert entry_file(tmp_path / "u2").read_bytes() == entry_file(tmp_path / "shared").read_bytes()
    only_local = cache(tmp_path / "three", units=str(tmp_path / "u2"))
    assert only_local.get("step", KEY) is not None
    assert cache(tmp_path / "four", shared=shared).get("step", KEY) is not None


def test_a_shared_folder_that_fails_is_logged_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    mine = cache(tmp_path / "build", units=str(tmp_path / "units"), shared=str(tmp_path / "file" / "below"))
    assert mine.get("step", KEY) is None
    mine.put("step", KEY, FILES, {})
    assert mine.get("step", KEY) is not None
    failed = lines(tmp_path / "build", "cache")
    assert failed
    assert all("Not a directory" in line["error"] for line in failed)


def test_a_folder_without_renames_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "no renames here")

    monkeypatch.setattr(os, "rename", refuse)
    mine = cache(tmp_path / "build", shared=str(tmp_path / "shared"))
    mine.put("step", KEY, FILES, {})
    assert mine.get("step", KEY) is not None
    assert [path.name for path in (tmp_path / "shared").rglob("*") if path.is_file()] == [KEY]


def test_many_writers_of_one_entry(tmp_path: Path) -> None:
    mine = cache(tmp_path / "build", units=str(tmp_path / "units"))

    def write_and_read(_: int) -> bool:
        mine.put("step", KEY, FILES, {})
        found = mine.get("step", KEY)
        return found is not None and found.files == FILES

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_and_read, range(64)))
    assert [path.name for path in (tmp_path / "units").rglob("*") if path.is_file()] == [KEY]


def test_a_hit_renews_the_time_of_the_last_use(tmp_path: Path) -> None:
    units = tmp_path / "units"
    mine = cache(tmp_path / "build", units=str(units))
    mine.put("step", KEY, FILES, {})
    os.utime(entry_file(units), (1000.0, 1000.0))
    assert mine.get("step", KEY) is not None
    assert time.time() - entry_file(units).stat().st_mtime < 60
