"""Uploads under every fault: what is resumed, what begins anew, and that nothing wrong ever gets a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, MissingError, RefusedError
from orbit.image.damage import DamagedImage
from orbit.image.oci import read_layout
from orbit.image.registry import upload as module
from orbit.image.registry.push import PushResult, push
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.session import Registry
from orbit.image.registry.transfer import Meter
from orbit.image.registry.upload import Outgoing, Upload, has_blob
from tests.image.registry.conftest import QUICK
from tests.image.registry.fake import FakeRegistry
from tests.image.test_oci import damage

CHUNK = 100_000
LARGE = r"/blobs/uploads/u"


def send(registry: FakeRegistry, layout: Path, chunk_bytes: int = CHUNK) -> PushResult:
    reference = parse_reference(f"{registry.host}/team/a:1")
    return push(layout, reference, progress=Silent(), patience=QUICK, chunk_bytes=chunk_bytes, jobs=1)


def check_pushed(registry: FakeRegistry, layout: Path) -> None:
    image = read_layout(layout)
    assert registry.manifests["team/a", "1"][1] == (layout / "blobs/sha256" / image.digest[7:]).read_bytes()
    for layer in image.layers:
        assert registry.blobs["team/a", layer.digest] == image.blob(layer).read_bytes()


def chunks(registry: FakeRegistry) -> list[str]:
    """Content-Range of every chunk of the large layer, which goes first."""
    first = registry.asked("PATCH")[0]
    name = next(path for method, path, headers in registry.log if method == "PATCH" and headers == first)
    return [headers["Content-Range"] for headers in registry.asked("PATCH", name.partition("?")[0])]


def test_a_blob_goes_in_chunks_that_follow_each_other(registry: FakeRegistry, layout: Path) -> None:
    result = send(registry, layout)
    check_pushed(registry, layout)
    size = result.blobs[0].size
    assert chunks(registry) == ["0-99999", "100000-199999", "200000-299999", f"300000-{size - 1}"]
    assert [blob.state for blob in result.blobs] == ["moved"] * 3
    assert result.moved_bytes == sum(blob.size for blob in result.blobs)


def test_after_a_drop_the_upload_goes_on_where_the_registry_is(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "drop", skip=1, at=30_000)
    size = send(registry, layout).blobs[0].size
    check_pushed(registry, layout)
    assert chunks(registry) == ["0-99999", "100000-199999", "130000-229999", f"230000-{size - 1}"]
    assert len(registry.asked("GET", LARGE)) == 1


def test_many_drops_with_progress_in_between_are_no_reason_to_give_up(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "drop", times=14, at=20_000)
    send(registry, layout)
    check_pushed(registry, layout)


def test_drops_without_progress_end_with_3_and_nothing_is_tagged(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "drop", times=1000)
    with pytest.raises(MissingError):
        send(registry, layout)
    assert registry.manifests == {}
    assert len(registry.asked("PATCH")) == QUICK.tries


def test_an_upload_the_registry_forgot_is_begun_anew(registry: FakeRegistry, layout: Path) -> None:
    registry.resumes = False
    registry.fault("PATCH", LARGE, "drop", skip=2, at=30_000)
    send(registry, layout)
    check_pushed(registry, layout)
    assert len(registry.asked("POST")) == 4


def test_a_restart_of_the_registry_between_chunks_loses_the_upload_and_not_the_push(
    registry: FakeRegistry, layout: Path
) -> None:
    registry.fault("PATCH", LARGE, "lose", skip=2)
    send(registry, layout)
    check_pushed(registry, layout)


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_busy_registry_is_asked_again(registry: FakeRegistry, layout: Path, status: int) -> None:
    for method in ("HEAD", "POST", "PATCH", "PUT", "GET"):
        registry.fault(method, "/blobs|/manifests", "status", status=status, times=2)
    send(registry, layout)
    check_pushed(registry, layout)


def test_an_answer_that_is_lost_after_the_bytes_arrived_costs_no_byte(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "late", skip=1)
    registry.fault("PUT", LARGE, "late")
    result = send(registry, layout)
    check_pushed(registry, layout)
    assert result.moved_bytes == sum(blob.size for blob in result.blobs)
    assert result.blobs[0].state == "moved"


def test_a_range_beyond_what_was_sent_is_not_believed(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "range", at=5_000_000)
    send(registry, layout)
    check_pushed(registry, layout)


def test_a_range_that_says_nothing_arrived_begins_anew_and_ends(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "range", at=0, times=1000)
    with pytest.raises(CheckFailed, match="took nothing"):
        send(registry, layout)
    assert registry.manifests == {}


def test_a_registry_that_takes_a_blob_in_one_piece_gets_it_so(registry: FakeRegistry, layout: Path) -> None:
    registry.one_chunk = True
    result = send(registry, layout)
    check_pushed(registry, layout)
    assert chunks(registry)[-1] != f"0-{result.blobs[0].size - 1}"
    assert f"0-{result.blobs[0].size - 1}" in [sent["Content-Range"] for sent in registry.asked("PATCH")]


def test_a_registry_says_how_small_a_chunk_may_be(registry: FakeRegistry, layout: Path) -> None:
    registry.least_chunk = "150000"
    size = send(registry, layout).blobs[0].size
    check_pushed(registry, layout)
    assert chunks(registry) == ["0-149999", "150000-299999", f"300000-{size - 1}"]


def test_a_proxy_that_takes_small_requests_only_gets_them(
    registry: FakeRegistry, layout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 1000)
    registry.fault("PATCH", LARGE, "status", status=413, times=2)
    send(registry, layout)
    check_pushed(registry, layout)
    assert "0-6249" in [sent["Content-Range"] for sent in registry.asked("PATCH")]


def test_bytes_changed_on_the_way_are_sent_once_more(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "lie")
    send(registry, layout)
    check_pushed(registry, layout)


def test_bytes_always_changed_on_the_way_end_with_1(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PATCH", LARGE, "lie", times=1000)
    with pytest.raises(CheckFailed, match="never arrived as what it is; nothing was tagged"):
        send(registry, layout)
    assert registry.manifests == {}


def test_a_registry_that_names_another_digest_is_not_believed(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PUT", LARGE, "digest")
    with pytest.raises(CheckFailed, match="arrived as sha256:000"):
        send(registry, layout)
    assert registry.manifests == {}


def test_a_registry_that_takes_a_blob_and_has_it_not_is_not_believed(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PUT", LARGE, "lie")
    with pytest.raises(CheckFailed, match="does not have it; nothing was tagged"):
        send(registry, layout)
    assert registry.manifests == {}


def test_a_layer_damaged_on_disk_is_noticed_before_it_gets_a_digest(registry: FakeRegistry, layout: Path) -> None:
    image = read_layout(layout)
    damage(image.blob(image.layers[1]))
    with pytest.raises(DamagedImage, match=r"layer 1 \(sha256:\w+\) is damaged"):
        send(registry, layout)
    assert registry.manifests == {}
    assert ("team/a", image.layers[1].digest) not in registry.blobs
    assert registry.uploads == {}


def test_a_refusal_is_told_in_the_registrys_words(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("POST", "/blobs/uploads/", "status", status=403, times=1000)
    with pytest.raises(RefusedError, match="403 FAULT: as told: not allowed"):
        send(registry, layout)


def test_a_blob_is_taken_from_another_repository(registry: FakeRegistry, layout: Path) -> None:
    image = read_layout(layout)
    for layer in image.layers:
        registry.put_blob("other", image.blob(layer).read_bytes())
    sources = {layer.digest: "other" for layer in image.layers}
    reference = parse_reference(f"{registry.host}/team/a:1")
    result = push(layout, reference, progress=Silent(), patience=QUICK, sources=sources)
    assert sorted(blob.state for blob in result.blobs) == ["mounted", "mounted", "moved"]
    assert result.moved_bytes == image.manifest.config.size
    check_pushed(registry, layout)


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_mount_that_is_not_possible_becomes_an_upload(registry: FakeRegistry, layout: Path, status: int) -> None:
    registry.fault("POST", "uploads", "status", status=status)
    image = read_layout(layout)
    sources = {layer.digest: "other" for layer in image.layers}
    push(
        layout, parse_reference(f"{registry.host}/team/a:1"), progress=Silent(), patience=QUICK, sources=sources, jobs=1
    )
    check_pushed(registry, layout)


@pytest.mark.parametrize("data", [b"", b"x", b"xy"])
def test_tiny_blobs(registry: FakeRegistry, data: bytes) -> None:
    digest = FakeRegistry.put_blob(registry, "elsewhere", data)
    item = Outgoing("tiny", digest, len(data), data)
    with Registry(parse_reference(f"{registry.host}/a:1"), patience=QUICK) as session:
        assert not has_blob(session, item)
        assert Upload(session, item, Meter(Silent(), "x", 1), source="", chunk_bytes=CHUNK).run() == "moved"
        assert has_blob(session, item)
    assert registry.blobs["a", digest] == data


def test_a_blob_of_another_size_in_the_registry_is_damage(registry: FakeRegistry, layout: Path) -> None:
    image = read_layout(layout)
    registry.blobs["team/a", image.layers[1].digest] = b"short"
    with pytest.raises(CheckFailed, match="with 5 bytes instead of"):
        send(registry, layout)
