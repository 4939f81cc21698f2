"""orbit.kernels.toolchain: compiler, linker and C library, as this machine has them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.errors import MissingError
from orbit.kernels.toolchain import host_toolchain


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    host_toolchain.cache_clear()
    yield
    host_toolchain.cache_clear()


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
def test_all_three_are_named_with_a_version() -> None:
    assert re.fullmatch(r"g\+\+ \d+[\d.]*, ld \d+\.[\d.]+, glibc \d\.\d+", host_toolchain())


def test_each_of_them_makes_another_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for gxx, linker in (("12.2.0", "2.40"), ("14.1.0", "2.40"), ("12.2.0", "2.44")):
        program = tmp_path / "g++"
        program.write_text(
            f'#!/bin/sh\ncase "$1" in -dumpfullversion) echo {gxx};; *) echo "GNU ld (GNU Binutils) {linker}";; esac\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        host_toolchain.cache_clear()
        said.append(host_toolchain())
    assert len(set(said)) == 3
    assert said[0].startswith("g++ 12.2.0, ld 2.40, glibc ")


def test_no_compiler_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError) as caught:
        host_toolchain()
    assert "apt-get install g++" in caught.value.fix
