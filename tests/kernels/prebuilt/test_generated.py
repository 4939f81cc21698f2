"""orbit.kernels.prebuilt.generated: the package's own texts are found, filled, and missed when they changed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.errors import CheckFailed, InputError
from orbit.kernels.prebuilt.generated import Generator, flags_for, missing_texts, source_of
from tests.kernels.prebuilt.made import HOPPER, TEXT, USE, generator_bytes


def generator(**parts: str) -> Generator:
    return Generator("thing/_C.so", generator_bytes(**parts))


def test_the_blanks_of_the_package_s_text_are_filled() -> None:
    source = source_of(HOPPER, generator(), Path("none")).decode()
    assert source == TEXT.replace("{{", "{").replace("}}", "}").replace("{}, {}", "64, true")


def test_a_text_with_another_number_of_blanks_is_another_release() -> None:
    changed = generator(text=TEXT.replace("{}, {}", "{}, {}, {}"))
    with pytest.raises(CheckFailed, match="has 3 blanks, the probe fills 2"):
        source_of(HOPPER, changed, Path("none"))


@pytest.mark.parametrize("text", ["no kernel in it", TEXT + "\0" + TEXT.replace("64", "1") + " "])
def test_a_kernel_needs_exactly_one_text(text: str) -> None:
    found = 0 if text.startswith("no") else 2
    with pytest.raises(CheckFailed, match=f"{found} texts of the kernel product_impl"):
        source_of(HOPPER, generator(text=text), Path("none"))


def test_a_kernel_in_a_namespace_and_one_with_a_longer_name_are_told_apart() -> None:
    inside = TEXT.replace("&product_impl", "&sched::product_impl")
    longer = TEXT.replace("&product_impl", "&other_product_impl")
    assert b"sched::product_impl<" in source_of(HOPPER, generator(text=f"{longer}\0{inside}"), Path("none"))


def test_a_source_of_ours_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_bytes(b"__global__ void f() {}")
    probe = msgspec.structs.replace(HOPPER, kernel="", arguments=(), source="a.cu")
    assert source_of(probe, generator(), tmp_path) == b"__global__ void f() {}"


def test_flags_are_formed_like_the_package_does() -> None:
    flags = flags_for(USE, include="/x/thing/include", arch="sm_100f")
    assert flags == ("-std=c++20", "-I/x/thing/include", "--gpu-architecture=sm_100f", "-O3")


def test_a_value_that_names_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"\{inclde\} names nothing"):
        flags_for(
            msgspec.structs.replace(USE, values=("20", "{flags}", "{inclde}", "{number}")), include="", arch="sm_90a"
        )


def test_a_text_that_is_gone_or_only_part_of_another_is_missed() -> None:
    assert missing_texts(USE, generator()) == ()
    assert missing_texts(USE, generator(key="kernel.{}.{}.{}")) == ("kernel.{}.{}",)
    assert missing_texts(USE, Generator("x", generator_bytes().replace(b" -O3", b" -O2"))) == (USE.flags[1],)
