"""orbit.env.contents: digests of what is there, spelt as RECORD spells them, and an error for what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.env.contents import CONTENTS, hash_files, read_contents, write_contents
from orbit.env.installed import digest_of
from orbit.errors import CheckFailed, InputError


def test_digests_are_those_of_record(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one").write_bytes(b"1" * 1000)
    (tmp_path / "two").write_bytes(b"")
    found = hash_files(tmp_path, {"sub/one": 1000, "two": 0})
    assert {path: f"sha256={digest}" for path, digest in found.items()} == {
        path: digest_of(tmp_path / path)[0] for path in ("sub/one", "two")
    }
    assert hash_files(tmp_path, {}) == {}


@pytest.mark.parametrize(("sizes", "says"), [({"gone": 1}, "gone: No such file"), ({"two": 4}, "of another size")])
def test_what_cannot_be_hashed_is_an_error(tmp_path: Path, sizes: dict[str, int], says: str) -> None:
    (tmp_path / "two").write_bytes(b"12345")
    with pytest.raises(CheckFailed, match=says):
        hash_files(tmp_path, sizes)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    contents = {"b/\udcff\u2028": "x" * 43, "a": "y" * 43}
    write_contents(tmp_path, contents)
    assert read_contents(tmp_path) == contents
    assert (tmp_path / CONTENTS).read_bytes().startswith(b"a\t")


def test_an_entry_that_does_not_say_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"contents\.tsv: .*No such file"):
        read_contents(tmp_path)
    (tmp_path / CONTENTS).write_text("one\n")
    with pytest.raises(InputError, match=r"contents\.tsv"):
        read_contents(tmp_path)
