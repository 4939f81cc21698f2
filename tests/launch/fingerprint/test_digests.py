"""sha256 of files: read once, believed only while nothing can have changed."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest

from orbit.env.record import RECORD_PATH
from orbit.env.tree import EPOCH_NS
from orbit.launch.fingerprint import digests as module
from orbit.launch.fingerprint.digests import CACHE, Digest, digests, stated_digests

SITE = "lib/python3.12/site-packages"


def of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_prefix(folder: Path, data: bytes = b"library", *, stated: bytes | None = None, sealed: bool = True) -> Path:
    """An environment with one library, sealed, and what its RECORD states of it."""
    library = folder / SITE / "x" / "libx.so.1"
    library.parent.mkdir(parents=True)
    library.write_bytes(data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data if stated is None else stated).digest()).decode().rstrip("=")
    info = folder / SITE / "x-1.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(
        f"x/libx.so.1,sha256={digest},{len(data)}\nx/__init__.py,sha256={digest},0\nx-1.dist-info/RECORD,,\n"
    )
    (folder / RECORD_PATH).parent.mkdir(parents=True)
    (folder / RECORD_PATH).write_text("{}")
    if sealed:
        os.utime(library, ns=(EPOCH_NS, EPOCH_NS))
    return library


@pytest.fixture
def state(tmp_path: Path) -> str:
    (tmp_path / "state").mkdir(mode=0o700)
    return str(tmp_path / "state")


def test_a_sealed_file_has_the_digest_of_its_record_without_being_read(tmp_path: Path, state: str) -> None:
    path = str(make_prefix(tmp_path / "p", stated=b"of the wheel"))
    assert digests([path], tmp_path / "p", state=state) == {path: Digest(of(b"of the wheel"), stated=True)}
    assert digests([path], tmp_path / "p", state=state, read=True) == {path: Digest(of(b"library"))}
    assert list(stated_digests(tmp_path / "p")) == [path]


@pytest.mark.parametrize("change", ["time", "size", "no record", "no environment"])
def test_a_file_that_may_have_changed_is_read(tmp_path: Path, state: str, change: str) -> None:
    library = make_prefix(tmp_path / "p", stated=b"of the wheel", sealed=change != "time")
    data = b"library"
    if change == "size":
        data = b"longer library"
        library.write_bytes(data)
        os.utime(library, ns=(EPOCH_NS, EPOCH_NS))
    elif change == "no record":
        (tmp_path / "p" / SITE / "x-1.dist-info" / "RECORD").unlink()
    elif change == "no environment":
        (tmp_path / "p" / RECORD_PATH).unlink()
    assert digests([str(library)], tmp_path / "p", state=state)[str(library)] == Digest(of(data))


def test_what_was_read_once_is_not_read_again_until_it_changes(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "libx.so"
    file.write_bytes(b"one")
    first = digests([str(file)], tmp_path, state=state)
    asked: list[str] = []
    real = module._read
    monkeypatch.setattr(module, "_read", lambda path: asked.append(path) or real(path))
    assert digests([str(file)], tmp_path, state=state) == first
    assert asked == []
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # the time is set back, and the size is the same
    assert digests([str(file)], tmp_path, state=state)[str(file)].sha256 == of(b"two")
    assert asked == [str(file)]


@pytest.mark.parametrize("how", ["link", "others may write", "broken", "none"])
def test_a_state_folder_of_others_is_not_believed(tmp_path: Path, state: str, how: str) -> None:
    file = tmp_path / "libx.so"
    file.write_bytes(b"one")
    digests([str(file)], tmp_path, state=state)
    kept = Path(state, CACHE)
    kept.write_text(kept.read_text().replace(of(b"one"), of(b"poison")))
    assert digests([str(file)], tmp_path, state=state)[str(file)].sha256 == of(b"poison"), (
        "the test would prove nothing"
    )
    if how == "link":
        (tmp_path / "link").symlink_to(state)
        state = str(tmp_path / "link")
    elif how == "others may write":
        os.chmod(state, 0o777)
    elif how == "broken":
        kept.write_text("{")
    else:
        state = ""
    assert digests([str(file)], tmp_path, state=state)[str(file)].sha256 == of(b"one")


def test_a_file_that_is_not_there_has_no_digest(tmp_path: Path, state: str) -> None:
    assert digests([str(tmp_path / "none.so")], tmp_path, state=state) == {str(tmp_path / "none.so"): Digest("")}
    (tmp_path / "folder.so").mkdir()
    assert digests([str(tmp_path / "folder.so")], tmp_path, state=state)[str(tmp_path / "folder.so")].sha256 == ""


def test_a_state_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    file = tmp_path / "libx.so"
    file.write_bytes(b"one")
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "fingerprint").write_text("in the way")
    assert digests([str(file)], tmp_path, state=str(tmp_path / "state"))[str(file)].sha256 == of(b"one")
