"""orbit.kernels.wheel: equal contents are equal files, RECORD is right, run paths of the build machine are removed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shutil
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.kernels.wheel import (
    clean_run_paths,
    dist_info,
    glibc_need,
    leaks,
    manylinux_tag,
    missing_artifacts,
    read_wheel,
    version_of,
    write_wheel,
)

FILES = {
    "thing/__init__.py": b"x = 1\n",
    "thing/tool": b"#!/bin/sh\n",
    "thing-1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    "thing-1.2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: thing\nVersion: 1.2\n\nText\n",
}


def test_equal_contents_are_equal_files(tmp_path: Path) -> None:
    write_wheel(tmp_path / "a.whl", FILES)
    write_wheel(tmp_path / "b.whl", dict(reversed(FILES.items())))
    assert (tmp_path / "a.whl").read_bytes() == (tmp_path / "b.whl").read_bytes()
    assert read_wheel(tmp_path / "a.whl") == FILES


def test_record_lists_every_file(tmp_path: Path) -> None:
    write_wheel(tmp_path / "a.whl", FILES)
    with zipfile.ZipFile(tmp_path / "a.whl") as archive:
        rows = list(csv.reader(io.StringIO(archive.read("thing-1.2.dist-info/RECORD").decode())))
        assert {row[0] for row in rows} == set(archive.namelist())
        for name, digest, size in rows:
            if name.endswith("RECORD"):
                assert (digest, size) == ("", "")
                continue
            data = archive.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert int(size) == len(data)
        modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
        assert modes["thing/tool"] == 0o755
        assert modes["thing/__init__.py"] == 0o644
        assert archive.namelist()[0].startswith("thing/")


def test_facts() -> None:
    assert dist_info(FILES) == "thing-1.2.dist-info"
    assert version_of(FILES) == "1.2"
    assert missing_artifacts(FILES, ("thing/*.py", "thing/*.so")) == ("thing/*.so",)
    assert leaks({"a": b"..\0/build/here\0", "b": b""}, ("/build/here", "/other")) == (("a", "/build/here"),)
    assert manylinux_tag("2.34") == "manylinux_2_34_x86_64"
    assert manylinux_tag("2.3") == manylinux_tag("") == "manylinux_2_17_x86_64"


def test_what_is_not_a_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"no zip")
    with pytest.raises(InputError, match="not a wheel"):
        read_wheel(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../outside", b"")
    with pytest.raises(InputError, match="leave the folder"):
        read_wheel(path)
    write_wheel(path, FILES)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"x = 1\n", b"x = 2\n"))
    with pytest.raises(InputError, match="damaged"):
        read_wheel(path)
    with pytest.raises(InputError, match="one dist-info"):
        dist_info({"a.py": b""})


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    folder = tmp_path_factory.mktemp("lib")
    (folder / "a.c").write_text('#include <stdio.h>\nvoid f(void) { puts("x"); }\n')
    rpath = "-Wl,-rpath,/home/ann/lib:$ORIGIN/../lib"
    subprocess.run([compiler, "-shared", "-fPIC", "a.c", "-o", "a.so", rpath], cwd=folder, check=True)
    return (folder / "a.so").read_bytes()


def test_run_paths_of_the_build_machine_are_removed(library: bytes, tmp_path: Path) -> None:
    files = {"thing/a.so": library, "thing/__init__.py": b""}
    assert clean_run_paths(files) == {"thing/a.so": ("/home/ann/lib:$ORIGIN/../lib", "$ORIGIN/../lib")}
    assert clean_run_paths(files) == {}
    (tmp_path / "a.so").write_bytes(files["thing/a.so"])
    assert glibc_need(tmp_path / "a.so").startswith("2.")
