"""What was kept answers like the file itself, and everything else is refused, never made up."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.binary.elf import MappedFile
from orbit.audit.binary.fatbin import CONTAINER_START
from orbit.audit.binary.sparse import FILLER, NotKept, Sparse, Window

DATA = bytes(range(1, 250)) * 8


def keep(*ranges: tuple[int, int]) -> list[tuple[int, bytes]]:
    return [(start, DATA[start:stop]) for start, stop in ranges]


@settings(max_examples=300)
@given(
    cuts=st.lists(st.integers(0, len(DATA)), min_size=2, max_size=12, unique=True),
    start=st.integers(-5, len(DATA) + 5),
    size=st.integers(0, 600),
    sub=st.integers(0, len(DATA) - 4),
)
def test_it_answers_like_the_file_or_refuses(cuts: list[int], start: int, size: int, sub: int) -> None:
    cuts.sort()
    ranges = list(zip(cuts[::2], cuts[1::2], strict=False))
    kept = {at for low, high in ranges for at in range(low, high)}
    sparse = Sparse(len(DATA), keep(*ranges))
    stop = start + size
    wanted = range(*slice(start, stop).indices(len(DATA)))
    if kept.issuperset(wanted):
        assert sparse[start:stop] == DATA[start:stop]
    else:
        with pytest.raises(NotKept):
            sparse[start:stop]
    text = DATA[sub : sub + 3]
    try:
        assert sparse.find(text, start, stop) == DATA.find(text, start, stop)
    except NotKept:
        assert not kept.issuperset(wanted)
    assert len(sparse) == len(DATA)
    assert sparse.kept_bytes == len(kept)


def test_adjacent_pieces_are_one() -> None:
    sparse = Sparse(len(DATA), keep((0, 100), (100, 200), (300, 400)))
    assert sparse[50:150] == DATA[50:150]
    assert sparse.find(DATA[95:105], 0, 200) == 95
    assert sparse[199] == DATA[199]
    with pytest.raises(NotKept):
        sparse[199:301]
    with pytest.raises(IndexError):
        sparse[len(DATA)]


def test_walking_reads_are_exact_for_headers_and_filled_for_searches() -> None:
    sparse = Sparse(4000, [(1000, b"k" * 100)])
    with pytest.raises(NotKept):
        sparse.read_at(64, 900)
    assert sparse.read_at(300, 900) == FILLER * 100 + b"k" * 100 + FILLER * 100
    assert sparse.read_at(300, 3900) == FILLER * 100
    assert sparse.read_at(300, 4000) == b""


def test_nobody_looks_into_a_payload_before_its_container() -> None:
    sparse = Sparse(4000, [(1000, CONTAINER_START.ljust(80, b"x"))], holes=[(1080, 3000)])
    assert sparse.read_at(2000, 900).find(CONTAINER_START) == 100
    for offset in (1008, 1080, 2000):
        with pytest.raises(NotKept):
            sparse.read_at(1500, offset)


def test_texts_that_were_looked_for_are_found_without_the_rest() -> None:
    sparse = Sparse(
        4_000_000, [(3_000_000, b"release 1.2" + bytes(50))], holes=[(3_900_000, 3_950_000)], anchors=[b"release "]
    )
    assert sparse.find(b"release ", 0, 3_500_000) == 3_000_000
    assert sparse.find(b"release ", 3_000_001, 3_500_000) == -1
    assert b"release 1.2" in sparse.searched(2_999_000, 3_001_000, b"release ")
    for start, end in ((3_100_000, 4_000_000), (3_920_000, 3_930_000)):
        with pytest.raises(NotKept):
            sparse.find(b"release ", start, end)
    with pytest.raises(NotKept):
        sparse.searched(0, 100, b"something else")


def test_not_kept_names_the_range() -> None:
    with pytest.raises(NotKept) as caught:
        Sparse(100, [])[10:20]
    assert caught.value.range == (10, 20)


def test_a_window_is_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(b"before" + DATA + b"after")
    with open(path, "rb") as file:
        mapped = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.handle = file.fileno()
        window = Window(mapped, 6, len(DATA))
        assert (len(window), window[0], window[-20:], window[:5]) == (len(DATA), DATA[0], DATA[-20:], DATA[:5])
        assert window[30:10] == b""
        assert window.read_at(100, len(DATA) - 10) == DATA[-10:]
        assert window.read_at(100, len(DATA) + 10) == b""
        assert (window.find(DATA[40:50]), window.find(b"after"), window.find(b"before")) == (40, -1, -1)
        with pytest.raises(IndexError):
            window[len(DATA)]
