"""system.toml says what the base image really has: sonames, packages and highest symbol versions."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.audit.binary.dynamic import read_dynamic
from orbit.audit.binary.elf import Elf
from orbit.audit.known.policy import BaseLibrary, load_system
from orbit.core.paths import data_file

VARIABLE = "ORBIT_TEST_BASE"
LIBRARY = re.compile(r"^\./(?:usr/)?lib(?:64)?/(?:x86_64-linux-gnu/)?(?P<name>[^/]+\.so(?:\.[0-9.]+)?)$")
BASE = load_system(data_file("kernels", "expectations", "system.toml")).base


def libraries(archive: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    return {match["name"]: member for member in archive if (match := LIBRARY.match(_dotted(member.name)))}


def _dotted(name: str) -> str:
    return name if name.startswith("./") else f"./{name}"


def highest(defines: tuple[str, ...], prefix: str) -> tuple[int, ...]:
    numbers = [version[len(prefix) + 1 :] for version in defines if version.startswith(f"{prefix}_")]
    return max(tuple(map(int, n.split("."))) for n in numbers if re.fullmatch(r"[0-9.]+", n))


@pytest.fixture(scope="module")
def base() -> Iterator[tarfile.TarFile]:
    value = os.environ.get(VARIABLE)
    if not value or not Path(value).is_file():
        pytest.skip(f"{VARIABLE} is not set to the rootfs.tar of a built base")
    with tarfile.open(value) as archive:
        yield archive


@pytest.mark.integration
@pytest.mark.parametrize("library", BASE, ids=lambda library: library.package)
def test_base_image_has_it(base: tarfile.TarFile, library: BaseLibrary) -> None:
    found = libraries(base)
    for soname in library.sonames:
        assert soname in found, soname
    for prefix, version in library.versions.items():
        member = found[library.sonames[0]]
        stream = base.extractfile(member)
        assert stream is not None
        facts = read_dynamic(Elf(stream.read(), member.name))
        assert facts is not None
        assert highest(facts.defines, prefix) == tuple(map(int, version.split("."))), prefix
