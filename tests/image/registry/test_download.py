"""Downloads under every fault: what is resumed, what begins anew, and that nothing wrong is ever kept."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, MissingError
from orbit.image.oci import Descriptor
from orbit.image.registry.download import fetch_blob
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.session import Registry
from orbit.image.registry.transfer import Meter
from tests.image.registry.conftest import QUICK
from tests.image.registry.fake import FakeRegistry

DATA = random.Random(7).randbytes(3_000_000)
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
BLOB = "/blobs/sha256"


def fetch(registry: FakeRegistry, folder: Path, *, size: int = len(DATA)) -> Path:
    registry.put_blob("a", DATA)
    item = Descriptor(media_type="x", digest=DIGEST, size=size)
    with Registry(parse_reference(f"{registry.host}/a:1"), patience=QUICK) as session:
        return fetch_blob(session, item, folder, Meter(Silent(), "pulling", size))


def ranges(registry: FakeRegistry) -> list[str]:
    return [headers.get("Range", "") for headers in registry.asked("GET", BLOB)]


def test_a_blob_comes_whole_and_read_only(registry: FakeRegistry, tmp_path: Path) -> None:
    path = fetch(registry, tmp_path)
    assert path.name == DIGEST[7:]
    assert path.read_bytes() == DATA
    assert path.stat().st_mode & 0o777 == 0o444
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert ranges(registry) == [""]


def test_after_a_drop_only_the_rest_is_asked_for(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.fault("GET", BLOB, "drop", at=1_000_000)
    registry.fault("GET", BLOB, "drop", at=500_000)
    assert fetch(registry, tmp_path).read_bytes() == DATA
    assert ranges(registry) == ["", "bytes=1000000-", "bytes=1500000-"]


def test_many_drops_with_progress_in_between_are_no_reason_to_give_up(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.fault("GET", BLOB, "drop", at=200_000, times=14)
    assert fetch(registry, tmp_path).read_bytes() == DATA


def test_a_later_run_goes_on_from_what_is_there(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.fault("GET", BLOB, "drop", at=1_000_000)
    registry.fault("GET", BLOB, "drop", at=0, times=1000)
    with pytest.raises(MissingError):
        fetch(registry, tmp_path)
    (partial,) = tmp_path.iterdir()
    assert partial.read_bytes() == DATA[:1_000_000]
    registry.faults.clear()
    registry.log.clear()
    assert fetch(registry, tmp_path).read_bytes() == DATA
    assert ranges(registry) == ["bytes=1000000-"]


@pytest.mark.parametrize("left", [DATA[:-1], DATA, b"", DATA + b"more", b"x" * 1000, b"x" * len(DATA)])
def test_whatever_an_earlier_run_left_the_result_is_right(registry: FakeRegistry, tmp_path: Path, left: bytes) -> None:
    (tmp_path / f"{DIGEST[7:]}.partial").write_bytes(left)
    assert fetch(registry, tmp_path).read_bytes() == DATA
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("fault", ["shift", "whole"])
def test_a_server_with_other_ideas_of_ranges_gives_the_whole(
    registry: FakeRegistry, tmp_path: Path, fault: str
) -> None:
    registry.fault("GET", BLOB, "drop", at=1_000_000)
    registry.fault("GET", BLOB, fault)
    assert fetch(registry, tmp_path).read_bytes() == DATA


def test_bytes_that_lie_are_never_kept(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.fault("GET", BLOB, "lie", times=1000)
    with pytest.raises(CheckFailed, match=f"what came for {DIGEST} is not that"):
        fetch(registry, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(ranges(registry)) == 1


def test_a_lie_pieced_together_is_asked_for_once_more_from_the_beginning(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    registry.fault("GET", BLOB, "drop", at=1_000_000)
    registry.fault("GET", BLOB, "lie")
    assert fetch(registry, tmp_path).read_bytes() == DATA
    assert ranges(registry) == ["", "bytes=1000000-", ""]


@pytest.mark.parametrize(("fault", "size"), [("longer", len(DATA)), ("", len(DATA) - 10)])
def test_more_bytes_than_the_manifest_says_are_not_read(
    registry: FakeRegistry, tmp_path: Path, fault: str, size: int
) -> None:
    if fault:
        registry.fault("GET", BLOB, fault)
    with pytest.raises(CheckFailed, match="has more than"):
        fetch(registry, tmp_path, size=size)
    assert list(tmp_path.iterdir()) == []


def test_fewer_bytes_than_the_manifest_says_end(registry: FakeRegistry, tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        fetch(registry, tmp_path, size=len(DATA) + 10)


def test_a_missing_blob_is_told(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.fault("GET", BLOB, "status", status=404)
    with pytest.raises(MissingError, match="404 FAULT"):
        fetch(registry, tmp_path)
