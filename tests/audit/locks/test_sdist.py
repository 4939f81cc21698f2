"""Source archives: those whose native sources were left out, those that only look so, and damage."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile

import pytest

from orbit.audit.locks import sdist
from orbit.audit.locks.sdist import SdistFacts, encode, read_sdist
from orbit.errors import InputError

SETUP = """modules.append(CUDAExtension("x_cuda", sources=["csrc/x.cpp", 'csrc/x_cuda.cu'], depends=["csrc/x.h"]))"""


def tar(**files: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"x-1.0/{name.replace('__DOT__', '.').replace('__IN__', '/')}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_all_native_sources_left_out() -> None:
    found = read_sdist(tar(setup__DOT__py=SETUP, x__DOT__py=""), "x-1.0.tar.gz")
    assert found == SdistFacts(
        named=("csrc/x.cpp", "csrc/x_cuda.cu"), absent=("csrc/x.cpp", "csrc/x_cuda.cu"), members=2
    )
    assert found.hollow
    assert encode(found)


def test_sources_that_are_there() -> None:
    found = read_sdist(
        tar(setup__DOT__py=SETUP, csrc__IN__x__DOT__cpp="", csrc__IN__x_cuda__DOT__cu=""), "x-1.0.tar.gz"
    )
    assert (found.absent, found.hollow) == ((), False)


@pytest.mark.parametrize("setup", ["", "sources = glob('csrc/*.cu')", "x = f'csrc/{name}.cu'", "# see csrc/x.cu"])
def test_sources_that_cannot_be_told_say_nothing(setup: str) -> None:
    assert not read_sdist(tar(setup__DOT__py=setup), "x-1.0.tar.gz").hollow


def test_some_missing_is_not_hollow() -> None:
    found = read_sdist(tar(setup__DOT__py=SETUP, other__IN__x__DOT__cpp=""), "x-1.0.tar.gz")
    assert (found.absent, found.hollow) == (("csrc/x_cuda.cu",), False)


def test_a_setup_of_a_submodule_is_not_the_projects() -> None:
    assert not read_sdist(tar(third_party__IN__setup__DOT__py=SETUP), "x-1.0.tar.gz").hollow


def test_zip_archives() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x-1.0/setup.py", SETUP)
    assert read_sdist(buffer.getvalue(), "x-1.0.zip").hollow


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (tar(setup__DOT__py=SETUP)[:-20], "x-1.0.tar.gz"),
        (b"no archive", "x-1.0.tar.gz"),
        (b"", "x-1.0.tar.gz"),
        (b"no archive", "x-1.0.zip"),
        (gzip.compress(b"\0" * 100 + b"x" * 5000), "x-1.0.tar.gz"),
    ],
    ids=["cut", "no archive", "empty", "no zip", "zeros"],
)
def test_damage_is_told(data: bytes, name: str) -> None:
    with pytest.raises(InputError):
        read_sdist(data, name)


def test_damage_inside_a_member_is_told_too() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x-1.0/setup.py", SETUP)
    data = bytearray(buffer.getvalue())
    start = 30 + len("x-1.0/setup.py")
    data[start : start + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(InputError, match="not a whole archive"):
        read_sdist(bytes(data), "x-1.0.zip")


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdist, "MAX_UNPACKED_BYTES", 4096)
    with pytest.raises(InputError, match="unpacks to more"):
        read_sdist(tar(big="x" * 100_000), "x-1.0.tar.gz")
    monkeypatch.undo()
    monkeypatch.setattr(sdist, "MAX_MEMBERS", 2)
    with pytest.raises(InputError, match="more than 2 members"):
        read_sdist(tar(a="", b="", c=""), "x-1.0.tar.gz")
