"""orbit.kernels.requires: what a build needs beyond a compiler is looked for before it begins."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.store import Store
from orbit.errors import ExitCode, MissingError
from orbit.kernels import build as builds
from orbit.kernels.recipe import Recipe, Requirement, load_recipe
from orbit.kernels.requires import check_requirements, find_header, system_headers
from orbit.profile.model import load_profile

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
NCCL = Requirement(
    place="environment", file="nvidia/nccl.h", contains="ncclNew", reason="the unit calls it", fix="a newer NCCL"
)
HEADER = Requirement(place="system", file="infiniband/none-such.h", reason="network cards", fix="apt-get install it")
PROBE = load_recipe("orbit-probe")


def needing(*needs: Requirement) -> Recipe:
    return msgspec.structs.replace(PROBE, requires=needs)


def with_nccl(site: Path, text: str) -> Path:
    (site / "nvidia").mkdir()
    (site / "nvidia" / "nccl.h").write_text(text)
    return site


def test_what_is_there_passes(tmp_path: Path) -> None:
    check_requirements(needing(NCCL), with_nccl(tmp_path, "int ncclNew();"))
    with pytest.raises(MissingError):
        check_requirements(needing(NCCL), tmp_path / "elsewhere")


def test_an_old_release_of_a_file_is_seen(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"nccl\.h has no ncclNew: the unit calls it") as caught:
        check_requirements(needing(NCCL), with_nccl(tmp_path, "int ncclOld();"))
    assert (caught.value.code, caught.value.fix) == (ExitCode.MISSING, "a newer NCCL")


@needs_compiler
def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="build environment has no nvidia/nccl") as caught:
        check_requirements(needing(NCCL, HEADER), tmp_path)
    assert "the C++ compiler finds no infiniband/none-such.h: network cards" in caught.value.what
    assert caught.value.fix.split("\n       ") == ["a newer NCCL", "apt-get install it"]


@needs_compiler
def test_a_header_is_what_the_compiler_finds_and_part_of_the_key() -> None:
    found = find_header("stdlib.h")
    assert found is not None
    there = msgspec.structs.replace(HEADER, file="stdlib.h")
    assert system_headers(needing(there, HEADER, NCCL)) == {
        "stdlib.h": hashlib.sha256(found.read_bytes()).hexdigest(),
        "infiniband/none-such.h": "",
    }


@needs_compiler
def test_a_build_stops_before_it_compiles(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Environment:
        path = tmp_path

    monkeypatch.setattr(builds, "build_environment", lambda *_: Environment)
    monkeypatch.setattr("orbit.kernels.plan.load_recipe", lambda _: needing(NCCL))
    with pytest.raises(MissingError, match="orbit-probe cannot be built here"):
        builds.build_kernels(load_profile("probe"), checkout_root(), store, tier="core", progress=Silent())
    assert not list((store.root / "tmp").iterdir()), "the folder of the build is still there"
