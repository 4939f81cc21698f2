"""Both contents of every pair come together, whatever the order, and little waits."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from orbit.audit.images.opened import OpenImage, open_image
from orbit.core.console import Silent
from orbit.image.diff.fetch import Wanted, fetch
from tests.writers.images import docker_archive
from tests.writers.tiny_image import file, write_image

NAMES = [f"f{number:02}" for number in range(30)]


def opened(path: Path, order: list[str], *, salt: bytes, archive: bool = False) -> tuple[OpenImage, dict[str, int]]:
    """An image of files in that order; (it, the number of each file's member)."""
    layers = [[file("below", b"x")], [file(name, salt + name.encode() * 40) for name in order]]
    if archive:
        path.write_bytes(gzip.compress(docker_archive(layers)))
    else:
        write_image(path, layers)
    return open_image(str(path), Silent()), {name: place for place, name in enumerate(order)}


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("limit", [1 << 30, 500, 1])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_pair_comes_once(tmp_path: Path, archive: bool, limit: int, seed: int) -> None:
    shuffled = list(NAMES)
    if seed:
        random.Random(seed).shuffle(shuffled)
    left, ones = opened(tmp_path / "left", NAMES, salt=b"left")
    right, twos = opened(tmp_path / "right", shuffled, salt=b"right", archive=archive)
    wanted = {Wanted((1, ones[name]), (1, twos[name])): name for name in NAMES if name != "f07"}
    seen = []
    for pair, one, two in fetch(left, right, list(wanted), waiting_bytes=limit):
        name = wanted[pair]
        assert one.read_bytes() == b"left" + name.encode() * 40
        assert two.read_bytes() == b"right" + name.encode() * 40
        seen.append(name)
    assert len(seen) == len(set(seen))
    if limit > 500 or not seed:
        assert sorted(seen) == sorted(wanted.values())
    assert seen or limit == 1


def test_one_content_may_have_several_partners(tmp_path: Path) -> None:
    left, ones = opened(tmp_path / "left", ["a"], salt=b"l")
    right, twos = opened(tmp_path / "right", ["b", "c"], salt=b"r")
    wanted = [Wanted((1, ones["a"]), (1, twos[name])) for name in ("b", "c")]
    assert [pair for pair, _, _ in fetch(left, right, wanted)] == wanted


def test_nothing_wanted_reads_nothing(tmp_path: Path) -> None:
    left, _ = opened(tmp_path / "left", ["a"], salt=b"l")
    assert list(fetch(left, left, [])) == []


def test_nothing_is_left_when_the_reader_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    left, ones = opened(tmp_path / "left", NAMES, salt=b"l")
    right, twos = opened(tmp_path / "right", NAMES, salt=b"r")
    pairs = fetch(left, right, [Wanted((1, ones[name]), (1, twos[name])) for name in NAMES])
    next(pairs)
    assert list(place.iterdir())
    pairs.close()  # type: ignore[attr-defined]
    assert list(place.iterdir()) == []
