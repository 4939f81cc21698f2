"""Control files, packages that are none, and the order of versions."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import lzma
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.image.base import control
from orbit.image.base.control import paragraphs, read_control, source_of, version_key
from tests.image.base.archive import TOYS, _ar_member, _tar

ORDER = ("0.9~~", "0.9~beta", "0.9", "0.9-1", "0.9-1+b1", "0.9-1+deb12u2", "0.9-1+deb12u10", "0.9a", "0.9+dfsg",
         "0.10", "1.0", "1:0.1", "2:0", "10:0")  # fmt: skip


def test_paragraphs_with_continued_lines_and_junk() -> None:
    text = "Package: a\nDescription: short\n long\n\n\n# a comment\nPackage: b\nno field\n .\nX:\n"
    found = list(paragraphs(text.splitlines()))
    assert found[0] == {"Package": "a", "Description": "short\n long"}
    assert found[1]["Package"] == "b\n ."
    assert found[1]["X"] == ""
    assert list(paragraphs([])) == list(paragraphs(["", "  "])) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [("", ("x", "2")), ("gcc-12", ("gcc-12", "2")), ("gcc-12 (12.2.0-14)", ("gcc-12", "12.2.0-14"))],
)
def test_source_packages(said: str, found: tuple[str, str]) -> None:
    assert source_of({"Package": "x", "Version": "2", "Source": said}) == found


@pytest.mark.parametrize("pack", [None, gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress])
def test_the_control_file_of_a_package(tmp_path: Path, pack: object) -> None:
    names = {None: "control.tar", gzip.compress: "control.tar.gz", lzma.compress: "control.tar.xz"}
    packed = _tar({"md5sums": b"", "control": b"Package: x\n"})
    member = _ar_member(names.get(pack, "control.tar.zst"), pack(packed) if callable(pack) else packed)
    deb = tmp_path / "x.deb"
    deb.write_bytes(b"!<arch>\n" + _ar_member("debian-binary", b"2.0") + member)
    assert read_control(deb) == "Package: x\n"


def test_dpkg_agrees(tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    deb = tmp_path / TOYS[1].deb
    deb.write_bytes(TOYS[1].data())
    said = subprocess.run(["dpkg-deb", "--field", deb, "Package", "Version"], capture_output=True, check=True).stdout
    fields = next(paragraphs(read_control(deb).splitlines()))
    assert said.decode() == f"Package: {fields['Package']}\nVersion: {fields['Version']}\n"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not a Debian package"),
        (b"PK\x03\x04 and more", "not a Debian package"),
        (b"!<arch>\n", "no control file"),
        (b"!<arch>\n" + b"x" * 60, "damaged at byte 8"),
        (b"!<arch>\n" + _ar_member("control.tar.xz", b"junk"), "cannot be read"),
        (b"!<arch>\n" + _ar_member("control.tar.zst", b"junk"), "cannot be read"),
        (b"!<arch>\n" + _ar_member("control.tar.gz", b"junk"), "cannot be read"),
        (b"!<arch>\n" + _ar_member("control.tar", b"junk" * 200), "cannot be read"),
        (TOYS[0].data()[:100], "damaged at byte 72"),
        (b"!<arch>\n" + _ar_member("control.tar", _tar({"other": b""})), "no control file"),
    ],
)
def test_what_is_no_package_is_said_so(tmp_path: Path, data: bytes, match: str) -> None:
    (tmp_path / "x.deb").write_bytes(data)
    with pytest.raises(InputError, match=match):
        read_control(tmp_path / "x.deb")


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    deb = tmp_path_factory.getbasetemp() / "any.deb"
    for content in (data, b"!<arch>\n" + _ar_member("control.tar.xz", data), TOYS[0].data() + data):
        deb.write_bytes(content)
        with contextlib.suppress(InputError):
            assert isinstance(read_control(deb), str)


def test_versions_sort_as_debian_says() -> None:
    shuffled = random.Random(1).sample(ORDER, len(ORDER))
    assert shuffled != list(ORDER)
    assert sorted(shuffled, key=version_key) == list(ORDER)


def test_dpkg_sorts_them_the_same() -> None:
    if shutil.which("dpkg") is None:
        pytest.skip("dpkg is not installed")
    for one, other in itertools.pairwise(ORDER):
        assert subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False).returncode == 0
        assert control.version_key(one) < control.version_key(other)
