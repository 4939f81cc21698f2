"""Meeting in a folder: old files, other jobs' files, half of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.errors import RefusedError
from orbit.launch.node.meeting.folder import announced, announced_places, own_addresses, place_file

ONE, OTHER = bytes(32), bytes([1] * 32)


def test_what_is_written_is_found_and_removed(tmp_path: Path) -> None:
    assert announced_places(tmp_path, ONE) == []
    with announced(tmp_path, ONE, attempt="a", addresses=["10.0.0.1", "127.0.0.1"], port=7) as path:
        assert announced_places(tmp_path, ONE) == [("10.0.0.1", 7), ("127.0.0.1", 7)]
        assert path.stat().st_mode & 0o777 == 0o600
        assert announced_places(tmp_path, OTHER) == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_an_earlier_attempt_is_replaced_and_a_later_ones_stays(tmp_path: Path) -> None:
    with announced(tmp_path, ONE, attempt="first", addresses=["10.0.0.1"], port=1):
        with announced(tmp_path, ONE, attempt="second", addresses=["10.0.0.2"], port=2):
            assert announced_places(tmp_path, ONE) == [("10.0.0.2", 2)]
        with announced(tmp_path, ONE, attempt="third", addresses=["10.0.0.3"], port=3) as path:
            kept = path.read_bytes()
        path.write_bytes(kept)
    assert announced_places(tmp_path, ONE) == [("10.0.0.3", 3)]


def test_what_proves_nothing_is_not_believed(tmp_path: Path) -> None:
    path = place_file(tmp_path, ONE)
    with announced(tmp_path, ONE, attempt="a", addresses=["10.0.0.1"], port=7):
        good = json.loads(path.read_text())
    for bad in (
        b"",
        b"{",
        b"[]",
        b"\xff",
        json.dumps(good | {"port": 8}).encode(),
        json.dumps(good | {"x": 1}).encode(),
    ):
        path.write_bytes(bad)
        assert announced_places(tmp_path, ONE) == []
    path.unlink()
    path.mkdir()
    assert announced_places(tmp_path, ONE) == []
    with (
        pytest.raises(RefusedError, match="writable on every node"),
        announced(tmp_path, ONE, attempt="a", addresses=[], port=1),
    ):
        pass
    assert announced_places(tmp_path / "none", ONE) == []


def test_addresses_of_this_machine_end_with_localhost(tmp_path: Path) -> None:
    fib = tmp_path / "fib_trie"
    fib.write_text(
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.3.0.4\n"
        "        /32 host LOCAL\n     |-- 10.3.0.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n"
        "        /32 host LOCAL\n"
    )
    found = own_addresses(fib)
    assert found[-1] == "127.0.0.1"
    assert "10.3.0.4" in found
    assert "10.3.0.255" not in found
    assert own_addresses(tmp_path / "none")[-1] == "127.0.0.1"
