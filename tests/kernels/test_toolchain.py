"""orbit.kernels.toolchain: compiler, linker and C library, as this machine has them."""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.errors import MissingError
from orbit.kernels.toolchain import FLAGS, host_toolchain, python_build


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    host_toolchain.cache_clear()
    python_build.cache_clear()
    yield
    host_toolchain.cache_clear()
    python_build.cache_clear()


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
def test_all_three_are_named_with_a_version() -> None:
    assert re.fullmatch(r"g\+\+ \d+[\d.]*( \(.+\))?, ld \d+\.[\d.]+, glibc \d\.\d+", host_toolchain())


def test_each_of_them_makes_another_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    one, other = "Debian 12.2.0-14", "Ubuntu 12.2.0-3"
    for gxx, by, linker in (
        ("12.2.0", one, "2.40"),
        ("14.1.0", one, "2.40"),
        ("12.2.0", one, "2.44"),
        ("12.2.0", other, "2.40"),
    ):
        program = tmp_path / "g++"
        program.write_text(
            f'#!/bin/sh\ncase "$1" in -dumpfullversion) echo {gxx};; --version) echo "g++ ({by}) {gxx}";;'
            f' *) echo "GNU ld (GNU Binutils) {linker}";; esac\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        host_toolchain.cache_clear()
        said.append(host_toolchain())
    assert len(set(said)) == 4
    assert said[0].startswith("g++ 12.2.0 (Debian 12.2.0-14), ld 2.40, glibc ")


@pytest.mark.parametrize("name", FLAGS)
def test_a_python_configured_otherwise_is_another(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = python_build()
    ask = sysconfig.get_config_var
    monkeypatch.setattr(sysconfig, "get_config_var", lambda asked: "-O1" if asked == name else ask(asked))
    python_build.cache_clear()
    assert python_build() != before


def test_the_same_python_elsewhere_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for place in ("/opt/one", "/two"):
        monkeypatch.setattr(sys, "base_prefix", place)
        flags = f"-O2 -I{place}/include"
        monkeypatch.setattr(sysconfig, "get_config_var", lambda _name, flags=flags: flags)
        python_build.cache_clear()
        found.append(python_build())
    assert found[0] == found[1]


def test_no_compiler_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError) as caught:
        host_toolchain()
    assert "apt-get install g++" in caught.value.fix
