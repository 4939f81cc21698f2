"""The file with the tensors: whole, or refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from orbit.errors import InputError
from orbit.qualify.records import TensorFileId, load_record
from orbit.qualify.sidefile import ALIGNMENT, TensorFile, TensorWriter, open_tensors
from tests.qualify.made import record


def write(path: Path, *contents: bytes) -> tuple[TensorFileId, list[str]]:
    digests = [hashlib.sha256(data).hexdigest() for data in contents]
    with TensorWriter(path) as writer:
        for digest, data in zip(digests, contents, strict=True):
            writer.add(digest, data)
            writer.add(digest, data)
            assert writer.get(digest) == data
        return writer.finish(), digests


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.tensors"
    said, digests = write(path, b"one", b"", b"three" * 100)
    assert [said.index[digest][0] % ALIGNMENT for digest in digests] == [0, 0, 0]
    found = TensorFile(path, said)
    assert [found.get(digest) for digest in digests] == [b"one", b"", b"three" * 100]
    assert [item.name for item in tmp_path.iterdir()] == ["x.tensors"]


def test_a_writer_that_does_not_finish_leaves_nothing(tmp_path: Path) -> None:
    with TensorWriter(tmp_path / "x.tensors") as writer:
        writer.add("a", b"1")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_cut_changed_or_gone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tensors"
    said, _digests = write(path, b"content" * 50)
    whole = path.read_bytes()
    for data, words in (
        (whole[:-1], "its record says"),
        (whole[:-1] + b"!", "its sha256 is another"),
        (whole + b"!", "its record says"),
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=words):
            TensorFile(path, said)
    path.unlink()
    with pytest.raises(InputError, match="not there"):
        TensorFile(path, said)


def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tensors"
    said, digests = write(path, b"content")
    start, size = said.index[digests[0]]
    for place in ((start, size + 1), (0, 4), (start, -1)):
        with pytest.raises(InputError, match="outside the file"):
            TensorFile(path, msgspec.structs.replace(said, index={digests[0]: place}))
    shifted = TensorFile(path, msgspec.structs.replace(said, index={digests[0]: (start, size - 1)}))
    with pytest.raises(InputError, match="damaged"):
        shifted.get(digests[0])


def test_a_record_names_no_file_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    made = record(path)
    for name in ("../r.tensors", "", "a/b"):
        moved = msgspec.structs.replace(made, tensors=msgspec.structs.replace(made.tensors, file=name))
        with pytest.raises(InputError, match="elsewhere"):
            open_tensors(path, moved)
    assert open_tensors(path, load_record(path)) is not None
