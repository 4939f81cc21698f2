"""Pulling an image into a layout: whole or not at all, nothing twice, other people's documents."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, InputError, MissingError, RefusedError
from orbit.image.oci import read_layout, verify_layers
from orbit.image.registry.download import PartialBlob
from orbit.image.registry.pull import PullResult, plan_pull, pull, pull_layout
from orbit.image.registry.push import push
from orbit.image.registry.reference import parse_reference
from tests.image.registry.conftest import QUICK
from tests.image.registry.fake import FakeRegistry
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, write_image

BLOB = "/blobs/sha256"


def get(registry: FakeRegistry, out: Path, name: str = "a:1") -> PullResult:
    return pull(parse_reference(f"{registry.host}/{name}"), out, progress=Silent(), patience=QUICK, jobs=1)


def put(registry: FakeRegistry, layout: Path, name: str = "a:1") -> str:
    return push(layout, parse_reference(f"{registry.host}/{name}"), progress=Silent(), patience=QUICK).digest


def check_equal(one: Path, other: Path) -> None:
    left, right = read_layout(one), read_layout(other)
    assert (left.digest, left.config_bytes, left.layers) == (right.digest, right.config_bytes, right.layers)
    verify_layers(right)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_was_pushed_comes_back(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    digest = put(registry, layout)
    before = names(tmp_path)
    result = get(registry, tmp_path / "got")
    assert (result.digest, result.remote_digest, result.index) == (digest, digest, "")
    assert result.moved_bytes == sum(blob.size for blob in result.blobs)
    check_equal(layout, tmp_path / "got")
    assert names(tmp_path) - before == {"got"}
    (described,) = json.loads((tmp_path / "got" / "index.json").read_text())["manifests"]
    assert described["annotations"]["org.opencontainers.image.ref.name"] == f"{registry.host}/a:1"


def test_by_digest(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    digest = put(registry, layout)
    found = pull_layout(f"{registry.host}/a@{digest}", tmp_path / "got", progress=Silent())
    assert found.digest == digest
    assert found.path == tmp_path / "got"


def test_a_pull_over_an_older_image_fetches_the_difference(
    registry: FakeRegistry, layout: Path, tmp_path: Path
) -> None:
    put(registry, layout)
    get(registry, tmp_path / "got")
    old = read_layout(layout)
    newer = write_image(tmp_path / "newer", [[file("c", b"new")]])
    image = read_layout(newer)
    put(registry, newer, "a:2")
    manifest = json.loads((newer / "blobs/sha256" / image.digest[7:]).read_bytes())
    config = json.loads(image.config_bytes)
    upper = json.loads((layout / "blobs/sha256" / old.digest[7:]).read_bytes())["layers"][1]
    manifest["layers"].append(upper)
    config["rootfs"]["diff_ids"].append(old.layers[1].diff_id)
    data = json.dumps(config).encode()
    manifest["config"] |= {"digest": registry.put_blob("a", data), "size": len(data)}
    registry.put_manifest("a", "3", manifest, manifest["mediaType"])
    result = get(registry, tmp_path / "got", "a:3")
    assert {blob.name: blob.state for blob in result.blobs} == {"config": "moved", "0": "moved", "1": "there"}
    verify_layers(read_layout(tmp_path / "got"))
    assert not (tmp_path / "got" / "blobs/sha256" / old.layers[0].digest[7:]).exists()


def test_a_damaged_blob_of_the_older_image_is_fetched_anew(
    registry: FakeRegistry, layout: Path, tmp_path: Path
) -> None:
    put(registry, layout)
    get(registry, tmp_path / "got")
    image = read_layout(tmp_path / "got")
    damage(image.blob(image.layers[1]))
    result = get(registry, tmp_path / "got")
    assert {blob.name: blob.state for blob in result.blobs} == {"config": "there", "0": "there", "1": "moved"}
    check_equal(layout, tmp_path / "got")


def test_a_pull_that_broke_off_goes_on(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    digest = put(registry, layout)
    large = read_layout(layout).layers[1]
    registry.fault("GET", large.digest, "drop", at=100_000)
    registry.fault("GET", large.digest, "drop", times=1000)
    with pytest.raises(MissingError):
        get(registry, tmp_path / "got")
    assert not (tmp_path / "got").exists()
    registry.faults.clear()
    plan = plan_pull(parse_reference(f"{registry.host}/a:1"), tmp_path / "got", progress=Silent())
    assert plan.moved_bytes == large.size - 100_000
    result = get(registry, tmp_path / "got")
    assert (result.digest, result.moved_bytes) == (digest, large.size - 100_000)
    check_equal(layout, tmp_path / "got")
    assert not (tmp_path / ".got.pull").exists()


def test_what_another_image_left_is_not_in_the_layout(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    put(registry, layout)
    blobs = tmp_path / ".got.pull" / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for name in ("1" * 64, "2" * 64 + ".partial"):
        (blobs / name).write_bytes(b"of another image")
    get(registry, tmp_path / "got")
    assert len(names(tmp_path / "got" / "blobs" / "sha256")) == 4


def test_a_lying_blob_leaves_the_older_image_as_it_was(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    put(registry, layout)
    older = write_image(tmp_path / "got", [[file("old", b"old")]])
    digest = read_layout(older).digest
    registry.fault("GET", BLOB, "lie", times=1000)
    with pytest.raises(CheckFailed, match="is not that"):
        get(registry, tmp_path / "got")
    assert read_layout(older).digest == digest


def test_a_place_that_holds_something_else_is_not_touched(registry: FakeRegistry, tmp_path: Path) -> None:
    (tmp_path / "got").mkdir()
    (tmp_path / "got" / "precious").write_text("x")
    with pytest.raises(InputError, match="exists and is not an OCI layout"):
        get(registry, tmp_path / "got")
    assert registry.log == []


def _hold(folder: str, ready: object, end: object) -> None:
    import fcntl
    import os

    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    ready.set()  # type: ignore[attr-defined]
    end.wait(60)  # type: ignore[attr-defined]


def test_two_pulls_to_one_place_do_not_mix(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    put(registry, layout)
    (tmp_path / ".got.pull").mkdir()
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path / ".got.pull"), ready, end))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(RefusedError, match="another pull is at work"):
            get(registry, tmp_path / "got")
    finally:
        end.set()
        other.join()
    get(registry, tmp_path / "got")
    check_equal(layout, tmp_path / "got")


def test_too_little_room_is_told_before_anything_comes(
    registry: FakeRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(registry, layout)
    monkeypatch.setattr("orbit.core.files.shutil.disk_usage", lambda _path: type("Usage", (), {"free": 10})())
    with pytest.raises(RefusedError, match="free disk"):
        get(registry, tmp_path / "got")
    assert len(registry.asked("GET", BLOB)) == 1  # the configuration, which says what it is for
    assert not (tmp_path / ".got.pull").exists()


def test_what_the_older_image_has_is_no_reason_to_keep_a_folder(
    registry: FakeRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(registry, layout)
    get(registry, tmp_path / "got")
    monkeypatch.setattr("orbit.image.registry.pull.require_free", refuse)
    with pytest.raises(RefusedError, match="no room"):
        get(registry, tmp_path / "got")
    assert not (tmp_path / ".got.pull").exists()
    check_equal(layout, tmp_path / "got")


def refuse(*_asked: object) -> None:
    raise RefusedError("no room")


def test_a_disk_that_fills_up_keeps_the_older_image_and_what_came(
    registry: FakeRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(registry, layout)
    older = write_image(tmp_path / "got", [[file("old", b"old")]])
    digest = read_layout(older).digest
    write = PartialBlob.write

    def full(partial: PartialBlob, data: memoryview) -> None:
        if partial.have + len(data) > 100_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(partial.path))
        write(partial, data)

    monkeypatch.setattr(PartialBlob, "write", full)
    with pytest.raises(OSError, match="No space left"):
        get(registry, tmp_path / "got")
    assert read_layout(older).digest == digest
    monkeypatch.setattr(PartialBlob, "write", write)
    get(registry, tmp_path / "got")
    check_equal(layout, tmp_path / "got")


def test_a_plan_changes_nothing(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    put(registry, layout)
    before = names(tmp_path)
    plan = plan_pull(parse_reference(f"{registry.host}/a:1"), tmp_path / "got", progress=Silent())
    assert {blob.state for blob in plan.blobs} == {"missing"}
    assert plan.moved_bytes == sum(blob.size for blob in plan.blobs)
    assert names(tmp_path) == before
