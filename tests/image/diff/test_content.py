"""Why contents differ: every form has its words, and nothing in a file can stop the comparison."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.image.diff.causes import why
from orbit.image.diff.content import compare_content
from orbit.image.diff.records import ContentDifference
from tests.image.diff.material import ar_of, gz, library, tar_of, zip_of
from tests.image.diff.test_bytecode import pyc
from tests.writers.elf import write_elf
from tests.writers.tiny_image import file, tar_bytes


def compared(tmp_path: Path, name: str, left: bytes, right: bytes) -> ContentDifference:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(left)
    two.write_bytes(right)
    return compare_content(name, one, two)


def dated(time: int) -> bytes:
    members = [file("a", b"x")]
    members[0][0].mtime = time
    return tar_bytes(members)


def elf(section: str, data: bytes) -> bytes:
    return write_elf(sections=[(section, data)])


NOISE = random.Random(3).randbytes(3000)


@pytest.mark.parametrize(
    ("name", "left", "right", "form", "words"),
    [
        ("x.so", elf(".note.gnu.build-id", b"1" * 20), elf(".note.gnu.build-id", b"2" * 20), "elf", "build id only"),
        ("x.so", elf(".comment", b"GCC: (Debian 12.2.0-14) 12.2.0\0"),
         elf(".comment", b"GCC: (Debian 14.2-8) 14.2.0\0"), "elf", "other compiler version only"),
        ("x.so", elf(".text", b"\x90" * 64), elf(".text", b"\xcc" * 64), "elf", "machine code"),
        ("x.pyc", pyc(), pyc(time=9), "pyc", "time in the .pyc header only"),
        ("x.txt", b"a\nb\n", b"a\nc\nd\n", "text", "text"),
        ("x.txt", b"built in /tmp/a/b/c.py\n", b"built in /tmp/z/y/c.py\n", "text", "path of the build folder only"),
        ("x.dist-info/RECORD", b"a,sha256=x,1\n", b"a,sha256=y,1\n", "text", "digests in RECORD only"),
        ("x.bin", b"\0" + NOISE, b"\0" + NOISE[:-1] + b"!", "data", "data"),
        ("x.gz", gz(b"same" * 99, time=1), gz(b"same" * 99, time=2), "gzip", "gzip header only"),
        ("x.gz", gz(NOISE + b"a" * 9999, level=1), gz(NOISE + b"a" * 9999, level=9), "gzip",
         "gzip header, compressed differently only"),
        ("x.gz", gz(b"one\n"), gz(b"two\n"), "gzip", "text"),
        ("x.tar", tar_of(a=b"1", b=b"2"), tar_of(b=b"2", a=b"1"), "tar", "order of entries only"),
        ("x.tar", dated(1), dated(2), "tar", "dates of entries only"),
        ("x.tar", tar_of(a=b"1\n"), tar_of(a=b"2\n"), "tar", "text"),
        ("x.tar", tar_of(a=b"1"), tar_of(a=b"1", b=b"2"), "tar", "parts that only one has"),
        ("x.a", ar_of({"a.o": b"1"}, time=1), ar_of({"a.o": b"1"}, time=2), "ar", "dates of entries only"),
        ("x.a", ar_of({"a.o": elf(".text", b"\x90" * 64)}), ar_of({"a.o": elf(".text", b"\xcc" * 64)}), "ar",
         "machine code"),
        ("x.whl", zip_of(a=b"1\n"), zip_of(a=b"2\n"), "zip", "data"),
        ("x.whl", zip_of(a=b"1", b=b"2"), zip_of(b=b"2", a=b"1"), "zip", "order of entries only"),
        ("x.tgz", gz(tar_of(a=b"1", b=b"2")), gz(tar_of(b=b"2", a=b"1")), "gzip", "order of entries only"),
    ],
)  # fmt: skip
def test_each_form_has_its_words(tmp_path: Path, name: str, left: bytes, right: bytes, form: str, words: str) -> None:
    found = compared(tmp_path, name, left, right)
    assert (found.form, why(found.causes)) == (form, words)
    assert (found.left_bytes, found.right_bytes) == (len(left), len(right))


def test_device_code_down_to_the_image(tmp_path: Path) -> None:
    found = compared(tmp_path, "x.so", library(b"one" * 50), library(b"two" * 50))
    assert found.binary is not None
    assert [(image.arch, image.container) for image in found.binary.images] == [("sm_90a", 0)]
    assert "code" in found.causes


def test_lines_and_their_number(tmp_path: Path) -> None:
    found = compared(tmp_path, "x.py", b"".join(b"%d\n" % n for n in range(50)), b"0\nnew\n")
    assert (found.num_lines_left, found.num_lines_right) == (49, 1)
    assert found.lines_right == ("new",)
    assert len(found.lines_left) == 20


def test_rows_of_record(tmp_path: Path) -> None:
    found = compared(tmp_path, "a.dist-info/RECORD", b"x,sha256=1,1\ny,sha256=2,2\n", b"x,sha256=1,1\ny,sha256=3,2\n")
    assert (found.lines_left, found.lines_right) == (("y,sha256=2,2",), ("y,sha256=3,2",))


def test_data_says_where(tmp_path: Path) -> None:
    found = compared(tmp_path, "x", b"\0" * 100 + b"ab" + b"\0" * 10, b"\0" * 100 + b"cb" + b"\0" * 12)
    assert (found.first, found.differing_bytes) == (100, 3)
    found = compared(tmp_path, "x", b"\0\1", b"\0\1\2")
    assert (found.first, found.differing_bytes) == (2, 1)


def test_members_are_named(tmp_path: Path) -> None:
    found = compared(tmp_path, "x.tar", tar_of(a=b"1\n", b=b"same"), tar_of(a=b"2\n", b=b"same", c=b"new"))
    assert {(part.name, part.form) for part in found.inside} == {("a", "text"), ("c", "missing")}
    found = compared(tmp_path, "x.whl", zip_of(a=b"1\n", b=b"x"), zip_of(a=b"2\n"))
    assert {(part.name, part.form) for part in found.inside} == {("a", "text"), ("b", "missing")}


def test_archives_in_archives_have_an_end(tmp_path: Path) -> None:
    left, right = b"one\n", b"two\n"
    for _ in range(6):
        left, right = gz(left), gz(right)
    found = compared(tmp_path, "x.gz.gz", left, right)
    depth = 0
    while found.inside:
        (found,) = found.inside
        depth += 1
    assert depth == 3
    assert found.causes == ("data",)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (b"\x7fELF\x02\x01" + b"x" * 99, b"\x7fELF\x02\x01" + b"y" * 99),
        (b"PK\3\4" + b"x" * 99, b"PK\3\4" + b"y" * 99),
        (b"\x1f\x8b" + b"x" * 99, b"\x1f\x8b" + b"y" * 99),
        (b"!<arch>\n" + b"x" * 99, b"!<arch>\n" + b"y" * 99),
        (b"x" * 257 + b"ustar" + b"x" * 300, b"y" * 257 + b"ustar" + b"x" * 300),
    ],
)
def test_what_only_looks_like_something_is_compared_as_bytes(tmp_path: Path, left: bytes, right: bytes) -> None:
    found = compared(tmp_path, "x", left, right)
    assert "data" in found.causes


HEADS = st.sampled_from(
    [b"", b"\x7fELF\x02\x01", b"PK\3\4", b"\x1f\x8b\x08", b"!<arch>\n", pyc()[:16], gz(b"x"), tar_of(a=b"x")]
)


@given(HEADS, st.binary(max_size=300), st.binary(max_size=300), st.sampled_from(["x", "x.pyc", "x.dist-info/RECORD"]))
def test_nothing_stops_the_comparison(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, left: bytes, right: bytes, name: str
) -> None:
    if left != right:
        found = compared(tmp_path_factory.mktemp("x"), name, head + left, head + right)
        assert found.causes or found.form == "pyc"
