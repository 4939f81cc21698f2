"""orbit.kernels.prebuilt.judge: a sound wheel passes, each broken twin fails with its own rule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.kernels.prebuilt.judge import ALONE, LEFT_OUT, LINKED, Judged, image_bytes, judge_wheel
from orbit.profile.model import load_profile
from tests.audit.support import TODAY
from tests.kernels.prebuilt.made import (
    BOTH,
    TAG,
    build_environment,
    container,
    extension,
    published,
)
from tests.writers.cubin import EXIT, code, cubin_entry, works, write_cubin
from tests.writers.elf import Export, Import, write_elf
from tests.writers.fatbin import write_container
from tests.writers.wheels import write_wheel

DEEP = ("device-code", "kernel-missing", "arch-guard", "kernel-stub")
HALF = write_container(cubin_entry("sm_90a", {"sum": works()}), cubin_entry("sm_100a", {"sum": code(EXIT)}))
INIT = {"thing/__init__.py": b"from . import _C\n"}


def judge(
    tmp_path: Path, files: Mapping[str, bytes] | None = None, *, environment: bool = True, **torch: str
) -> Judged:
    wheel = published(tmp_path, files)
    prefix = build_environment(tmp_path / "env", **torch) if environment else None
    return judge_wheel(wheel, load_profile("probe"), environment=prefix, progress=Silent(), today=TODAY)


def test_a_sound_wheel(tmp_path: Path) -> None:
    judged = judge(tmp_path)
    assert judged.findings == ()
    assert judged.symbols == {"torch 2.11.0": 1}
    assert judged.modules == ("thing._C",)
    one = len(write_cubin({"product": works()})) + len(write_cubin({"sum": works()}))
    sizes = image_bytes(judged.facts.objects)
    assert sizes.keys() == {"sm_90a", "sm_100a"}
    assert all(one <= size < one + 64 for size in sizes.values())
    assert judged.rules == (*ALONE, *DEEP, *LINKED)
    assert [(row.file, row.target, row.kernels, row.stubs) for row in judged.loaded] == [
        ("thing/_C.abi3.so", "h100", 2, 0),
        ("thing/_C.abi3.so", "b200", 2, 0),
    ]
    assert {skip.what for skip in judged.skipped} == set(LEFT_OUT)


@pytest.mark.parametrize(
    ("module", "rule", "words"),
    [
        (
            extension(BOTH, container("sm_90a", kernel="sum")),
            "arch-coverage",
            "1 of 2 containers have nothing that b200",
        ),
        (extension(BOTH, HALF), "kernel-stub", ""),
        (extension(BOTH, symbol="_ZN2at9gone_awayEv"), "undefined-symbol", "that it does not define"),
        (extension(BOTH)[:90], "damaged-binary", ""),
        (
            write_elf(needed=["libc.so.6"], imports=[Import("f", version="GLIBC_9.9", library="libc.so.6")]),
            "symbol-version",
            "",
        ),
    ],
)
def test_a_broken_module_fails_with_its_rule(tmp_path: Path, module: bytes, rule: str, words: str) -> None:
    judged = judge(tmp_path, INIT | {"thing/_C.abi3.so": module})
    assert [finding.rule for finding in judged.findings] == [rule]
    assert judged.findings[0].fatal
    assert words in judged.findings[0].message


def test_a_module_for_another_python_is_not_importable(tmp_path: Path) -> None:
    judged = judge(tmp_path, INIT | {"thing/_C.cpython-310-x86_64-linux-gnu.so": extension(BOTH)})
    assert [finding.rule for finding in judged.findings] == ["foreign-extension"]
    assert judged.modules == ()


def test_without_a_build_environment_the_symbols_are_skipped_and_not_passed(tmp_path: Path) -> None:
    judged = judge(tmp_path, environment=False)
    assert judged.symbols == {}
    assert judged.rules == (*ALONE, *DEEP)
    assert {skip.what for skip in judged.skipped} == {*LEFT_OUT, *LINKED}


def test_a_product_that_is_not_there_is_skipped_by_name_until_its_wheel_is_put_beside(tmp_path: Path) -> None:
    wheel = published(tmp_path, INIT | {"thing/_C.abi3.so": extension(BOTH, symbol="TVMFFIErrorCreate")})
    library = write_elf(soname="libtvm_ffi.so", exports=[Export("TVMFFIErrorCreate")])
    other = write_wheel(tmp_path / "o", "apache-tvm-ffi", {"tvm_ffi/lib/libtvm_ffi.so": library}, tags=[TAG])
    prefix = build_environment(tmp_path / "env")

    def judged(*others: Path) -> Judged:
        profile = load_profile("probe")
        return judge_wheel(wheel, profile, environment=prefix, others=others, progress=Silent(), today=TODAY)

    assert "symbols of TVM FFI" in {skip.what for skip in judged().skipped}
    assert judged(other).symbols == {"TVM FFI 1.0": 1}
    assert {skip.what for skip in judged(other).skipped} == set(LEFT_OUT)
