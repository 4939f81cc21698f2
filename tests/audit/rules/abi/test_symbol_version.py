"""symbol-version: versioned symbols against the library that the loader would pick."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.rooted import SITE, judge_root, write_root
from tests.audit.support import judge
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter

NEEDS_F = write_elf(needed=["libp.so.1"], imports=[Import("f", "V1", "libp.so.1")])


def provider(*exports: Export) -> bytes:
    return write_elf(soname="libp.so.1", exports=exports)


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return EnvironmentWriter(tmp_path / "e")


def test_symbol_that_the_library_lacks(env: EnvironmentWriter) -> None:
    env.add("user", {"user/_c.so": NEEDS_F})
    env.add("vendor", {"vendor/lib/libp.so.1": provider(Export("g", "V1"))})
    (finding,) = judge(env.prefix, "symbol-version")
    assert (finding.subject, finding.evidence["symbols"]) == ("user/_c.so", "f@V1")
    assert finding.evidence["library"] == "vendor/lib/libp.so.1"
    assert "release of vendor" in finding.fix


@pytest.mark.parametrize("export", [Export("f", "V1"), Export("f")])
def test_symbol_with_the_version_or_without_any_satisfies(env: EnvironmentWriter, export: Export) -> None:
    env.add("user", {"user/_c.so": NEEDS_F})
    env.add("vendor", {"vendor/lib/libp.so.1": provider(export)})
    assert judge(env.prefix, "symbol-version") == []


def test_version_that_the_library_does_not_define(env: EnvironmentWriter) -> None:
    env.add("user", {"user/_c.so": NEEDS_F})
    env.add("vendor", {"vendor/lib/libp.so.1": provider(Export("f", "V2"))})
    (finding,) = judge(env.prefix, "symbol-version")
    assert (finding.evidence["symbols"], finding.evidence["versions"]) == ("f@V1", "V1")


def test_weak_reference_may_stay_open(env: EnvironmentWriter) -> None:
    weak = write_elf(needed=["libp.so.1"], imports=[Import("f", "V1", "libp.so.1", weak=True)])
    env.add("user", {"user/_c.so": weak})
    env.add("vendor", {"vendor/lib/libp.so.1": provider(Export("g", "V1"))})
    assert judge(env.prefix, "symbol-version") == []


def test_symbol_found_in_what_the_library_pulls_in(env: EnvironmentWriter) -> None:
    env.add("user", {"user/_c.so": NEEDS_F})
    outer = write_elf(soname="libp.so.1", needed=["libq.so.1"], exports=[Export("g", "V1")])
    # libq is read because another object names it in a version need
    other = write_elf(needed=["libq.so.1"], imports=[Import("f", "V1", "libq.so.1")])
    inner = write_elf(soname="libq.so.1", exports=[Export("f", "V1")])
    env.add("vendor", {"v/libp.so.1": outer, "v/libq.so.1": inner, "v/other.so": other})
    assert judge(env.prefix, "symbol-version") == []


@pytest.mark.parametrize("tag", ["rpath", "runpath"])
def test_run_path_decides_between_two_providers(env: EnvironmentWriter, tag: str) -> None:
    paths = {tag: "$ORIGIN/../new/lib"}
    user = write_elf(needed=["libp.so.1"], imports=[Import("f", "V1", "libp.so.1")], **paths)  # type: ignore[arg-type]
    env.add("user", {"user/_c.so": user})
    env.add("old", {"old/lib/libp.so.1": provider(Export("g", "V1"))})
    env.add("new", {"new/lib/libp.so.1": provider(Export("f", "V1"))})
    assert judge(env.prefix, "symbol-version") == []


def test_two_providers_and_no_run_path_are_both_judged(env: EnvironmentWriter) -> None:
    env.add("user", {"user/_c.so": NEEDS_F})
    env.add("old", {"old/lib/libp.so.1": provider(Export("g", "V1"))})
    env.add("new", {"new/lib/libp.so.1": provider(Export("f", "V1"))})
    (finding,) = judge(env.prefix, "symbol-version")
    assert (finding.evidence["library"], finding.evidence["found by"]) == ("old/lib/libp.so.1", "ambiguous")


@pytest.mark.parametrize(("version", "findings"), [("GLIBC_2.36", 0), ("GLIBC_2.4", 0), ("GLIBC_2.38", 1)])
def test_version_of_the_base_image(env: EnvironmentWriter, version: str, findings: int) -> None:
    needs = write_elf(needed=["libc.so.6"], imports=[Import("memcpy", version, "libc.so.6")])
    env.add("user", {"user/_c.so": needs})
    assert len(judge(env.prefix, "symbol-version")) == findings


@pytest.mark.parametrize(("version", "findings"), [("GLIBC_2.31", 0), ("GLIBC_2.38", 1)])
def test_floor_of_an_image_is_its_own_libc(tmp_path: Path, version: str, findings: int) -> None:
    libc = write_elf(soname="libc.so.6", exports=[Export("memcpy", "GLIBC_2.31")])
    user = write_elf(needed=["libc.so.6"], imports=[Import("memcpy", version, "libc.so.6")])
    write_root(tmp_path, {"usr/lib/x86_64-linux-gnu/libc.so.6": libc, f"{SITE}/user/_c.so": user})
    found = judge_root(tmp_path, "symbol-version")
    assert len(found) == findings
    assert all(finding.evidence["versions"] == version for finding in found)
