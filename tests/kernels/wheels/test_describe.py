"""orbit.kernels.wheels.{describe,describe_text}: what a wheel holds, and whether tags and manifest are true of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.files import sha256_file
from orbit.errors import InputError
from orbit.kernels.manifest import Binary, BuildManifest, Unit
from orbit.kernels.wheels.archive import write_wheel
from orbit.kernels.wheels.describe import Description, describe_wheel, judge_wheel
from orbit.kernels.wheels.describe_text import render_description
from orbit.profile.model import load_profile
from tests.kernels.test_manifest import manifest
from tests.kernels.wheels.support import INFO, METADATA, WHEEL, lay_out
from tests.writers.cubin import EXIT, code, cubin_entry, works
from tests.writers.elf import Import, write_elf
from tests.writers.fatbin import Entry, write_container, write_section

NAME = "thing-1.2-cp312-cp312-manylinux_2_34_x86_64.whl"
MODULE = "thing/_c.cpython-312-x86_64-linux-gnu.so"
BOTH = write_container(
    cubin_entry("sm_90a", {"gemm": works(), "norm": works()}),
    cubin_entry("sm_100a", {"gemm": works(4096), "norm": works()}),
)


def library(*containers: bytes, needed: tuple[str, ...] = ("libc.so.6", "libcuda.so.1", "libtorch.so")) -> bytes:
    return write_elf(
        sections=[(".nv_fatbin", write_section(*containers))],
        imports=[Import("puts", "GLIBC_2.34", "libc.so.6")],
        needed=list(needed),
        runpath="$ORIGIN/../torch/lib",
    )


def wheel(
    folder: Path, *containers: bytes, name: str = NAME, tag: str = "", more: Mapping[str, bytes] | None = None
) -> Path:
    files = {MODULE: library(*containers), "thing/__init__.py": b"", f"{INFO}/METADATA": METADATA}
    tag = tag or name.removeprefix("thing-1.2-").removesuffix(".whl")
    files[f"{INFO}/WHEEL"] = WHEEL.replace(b"cp312-cp312-linux_x86_64", tag.encode())
    write_wheel(folder / name, lay_out(folder / "tree", files | dict(more or {})))
    return folder / name


def describe(path: Path, **options: bool) -> Description:
    return describe_wheel(path, load_profile("probe"), Silent(), **options)  # type: ignore[arg-type]


def test_what_is_in_it(tmp_path: Path) -> None:
    found = describe(wheel(tmp_path, BOTH, BOTH))
    assert (found.name, found.version, found.wheel, found.files) == ("thing", "1.2", NAME, 5)
    assert found.tags == ("cp312-cp312-manylinux_2_34_x86_64",)
    assert (found.fits, found.decides) == ("manylinux_2_34_x86_64", (f"GLIBC_2.34 ({MODULE})",))
    assert [(item.arch, item.images) for item in found.archs] == [("sm_90a", 2), ("sm_100a", 2)]
    assert found.archs[0].stored_bytes == found.archs[0].unpacked_bytes
    assert (found.units, found.manifest, found.findings) == (2, None, ())
    (binary,) = found.binaries
    assert (binary.file, binary.units, binary.glibc) == (MODULE, 2, "2.34")
    assert binary.needed == {"libc.so.6": "base", "libcuda.so.1": "driver", "libtorch.so": "missing"}
    assert binary.run_paths == ("$ORIGIN/../torch/lib",)
    assert {item.what for item in found.skipped} == {"kernels", "instructions"}
    assert found.sha256 == sha256_file(tmp_path / NAME)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Description) == found


def test_packed_code_and_ptx(tmp_path: Path) -> None:
    packed = Entry("sm_90a", b"x" * 100, "zstd", full=4096)
    found = describe(wheel(tmp_path, write_container(packed, Entry("compute_90", b".target sm_90\n.entry f"))))
    assert [(item.arch, item.stored_bytes, item.unpacked_bytes) for item in found.archs] == [
        ("sm_90a", 100, 4096),
        ("compute_90", 24, 24),
    ]
    assert "PTX: compute_90" in render_description(found)


def test_kernels_and_those_that_do_nothing(tmp_path: Path) -> None:
    box = write_container(
        cubin_entry("sm_90a", {"gemm": works(), "norm": works(), "hopper": works()}),
        cubin_entry("sm_100a", {"gemm": code(EXIT), "norm": works()}),
    )
    found = describe(wheel(tmp_path, box), kernels=True)
    (row,) = found.kernels
    assert (row.kernels, {item.target: (item.kernels, item.stubs, item.missing) for item in row.targets}) == (
        3,
        {"h100": (3, 0, 0), "b200": (2, 1, 1)},
    )
    assert "1, 1, 1" in render_description(found)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("thing-1.2-cp312-cp312-manylinux_2_17_x86_64.whl", "wheel-tag"),
        ("thing-1.2-cp312-cp312-linux_x86_64.whl", "wheel-tag"),
        ("thing-1.2-py3-none-any.whl", "wheel-tag"),
        ("other-1.2-cp312-cp312-manylinux_2_34_x86_64.whl", "wheel-archive"),
    ],
)
def test_what_is_not_honest_is_said(tmp_path: Path, name: str, rule: str) -> None:
    tag = "-".join(name.removesuffix(".whl").split("-")[2:])
    found = describe(wheel(tmp_path, BOTH, name=name, tag=tag))
    assert rule in {item.rule for item in found.findings}
    assert rule in render_description(found)
    assert judge_wheel(tmp_path / name, load_profile("probe"), Silent()) == found.findings


def unit(*archs: str, status: int = 0) -> Unit:
    effective = tuple(f"arch={arch.replace('sm_', 'compute_')},code={arch}" for arch in archs)
    return Unit(kind="compile", sources=("a.cu",), requested=(), effective=effective, status=status)


def beside(path: Path, **parts: object) -> BuildManifest:
    """Write a manifest of ``path`` beside it; ``parts`` replace what it truly says."""
    truth: dict[str, object] = {
        "wheel": path.name,
        "wheel_sha256": sha256_file(path),
        "requested": ("compute_90a:sm_90a", "compute_100a:sm_100a"),
        "units": (unit("sm_90a", "sm_100a"),),
        "found": (
            Binary(file=MODULE, coverage={"sm_100a+sm_90a": 1}, images={"sm_100a": 1, "sm_90a": 1}, glibc="2.34"),
        ),
    }
    stated = msgspec.structs.replace(manifest([], ()), **(truth | parts))
    (path.parent / "manifest.json").write_bytes(msgspec.json.encode(stated))
    return stated


def test_a_manifest_that_agrees(tmp_path: Path) -> None:
    path = wheel(tmp_path, BOTH)
    stated = beside(path)
    state = describe(path).manifest
    assert state is not None
    assert (state.recipe, state.units, state.agrees, state.differences) == (stated.recipe, 1, True, ())
    assert state.requested == state.compiled == state.found == ("sm_90a", "sm_100a")
    assert "agrees" in render_description(describe(path))


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"wheel_sha256": "0" * 64}, "another file of this name"),
        ({"units": (unit("sm_90a"),)}, "compiled for sm_90a"),
        ({"requested": ("compute_90a:sm_90a",), "units": (unit("sm_90a"),)}, "1 of 1 containers hold other"),
        ({"found": (Binary(file=MODULE, coverage={}, images={"sm_90a": 1}, glibc=""),)}, "not the images"),
    ],
)
def test_a_manifest_that_does_not(tmp_path: Path, parts: dict[str, object], says: str) -> None:
    path = wheel(tmp_path, BOTH)
    beside(path, **parts)
    state = describe(path).manifest
    assert state is not None
    assert not state.agrees
    assert any(says in text for text in state.differences)
    assert "DIFFERS" in render_description(describe(path))


@pytest.mark.parametrize(("linked", "agrees"), [(0, False), (1, True), (2, False)])
def test_containers_of_static_libraries_agree_when_they_are_counted(tmp_path: Path, linked: int, agrees: bool) -> None:
    path = wheel(tmp_path, BOTH)
    # asked for one target: the one container of both stands for a library's own
    beside(path, requested=("compute_90a:sm_90a",), units=(unit("sm_90a"),), linked_units=linked)
    state = describe(path).manifest
    assert state is not None
    assert state.agrees == agrees


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    path = wheel(tmp_path, BOTH)
    (tmp_path / f"{NAME}.manifest.json").write_text("{}")
    state = describe(path).manifest
    assert state is not None
    assert not state.agrees
    assert "cannot be read" in state.differences[0]


def test_a_wheel_without_binaries_and_what_is_no_wheel(tmp_path: Path) -> None:
    files = {"thing/__init__.py": b"", f"{INFO}/METADATA": METADATA, f"{INFO}/WHEEL": b"Tag: py3-none-any\n"}
    write_wheel(tmp_path / "thing-1.2-py3-none-any.whl", lay_out(tmp_path / "pure", files))
    found = describe(tmp_path / "thing-1.2-py3-none-any.whl")
    assert (found.fits, found.archs, found.binaries) == ("", (), ())
    assert "no device code" in render_description(found)
    (tmp_path / "x.whl").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"x\.whl"):
        describe(tmp_path / "x.whl")


def test_names_cannot_rewrite_the_page(tmp_path: Path) -> None:
    text = render_description(describe(wheel(tmp_path, BOTH, more={"thing/\x1b[31m.so": library(BOTH)})), verbose=True)
    assert "\x1b" not in text
    assert "\\x1b[31m.so" in text
