"""orbit.kernels.wheels.tags: a wheel gets the tags its binaries keep, and the audit agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.binary.dynamic import Dynamic, VersionNeed
from orbit.audit.facts import SharedObject
from orbit.errors import InputError
from orbit.kernels.wheels.archive import write_wheel
from orbit.kernels.wheels.tags import facts_of, glibc_need, platform_of, retag, wheel_name
from tests.audit.support import judge_wheels
from tests.kernels.wheels.support import FILES, INFO, METADATA, WHEEL, lay_out
from tests.writers.elf import Import, write_elf

PYTHON = (3, 12)


def binary(*versions: str, library: str = "libc.so.6", weak: bool = False, machine: int = 62) -> SharedObject:
    needs = tuple(VersionNeed(library, version, weak) for version in versions)
    return SharedObject("thing/_c.so", machine, (), Dynamic("", (library,), (), (), needs, (), ()))


@pytest.mark.parametrize(
    ("versions", "library", "tag", "decides"),
    [
        (("GLIBC_2.2.5", "GLIBC_2.34"), "libc.so.6", "manylinux_2_34_x86_64", "GLIBC_2.34 (thing/_c.so)"),
        (("GLIBC_2.32",), "libc.so.6", "manylinux_2_34_x86_64", "GLIBC_2.32 (thing/_c.so)"),
        (("GLIBC_2.2.5",), "libc.so.6", "manylinux_2_17_x86_64", ""),
        # libstdc++ of GCC 12: no glibc need says so, and systems with glibc 2.34 need not have it
        (("GLIBCXX_3.4.30",), "libstdc++.so.6", "manylinux_2_35_x86_64", "GLIBCXX_3.4.30 (thing/_c.so)"),
        (("CXXABI_1.3.15",), "libstdc++.so.6", "manylinux_2_39_x86_64", "CXXABI_1.3.15 (thing/_c.so)"),
        (("GLIBC_2.99",), "libc.so.6", "linux_x86_64", "GLIBC_2.99 (thing/_c.so)"),
        # versions of libraries that no policy knows are those of other wheels
        (("libcudart.so.13",), "libcudart.so.13", "manylinux_2_17_x86_64", ""),
    ],
)
def test_the_platform_is_the_oldest_that_has_everything(
    versions: tuple[str, ...], library: str, tag: str, decides: str
) -> None:
    found = platform_of([binary(*versions, library=library)])
    assert (found.tag, ", ".join(found.decides)) == (tag, decides)


def test_weak_needs_and_own_libraries_do_not_count() -> None:
    assert platform_of([binary("GLIBC_2.39", weak=True)]).tag == "manylinux_2_17_x86_64"
    own = SharedObject("thing.libs/libstdc++.so.6", 62, (), Dynamic("libstdc++.so.6", (), (), (), (), (), ()))
    assert platform_of([binary("GLIBCXX_3.4.33", library="libstdc++.so.6"), own]).tag == "manylinux_2_17_x86_64"
    assert platform_of([]).tag == ""
    with pytest.raises(InputError, match="aarch64, x86_64"):
        platform_of([binary("GLIBC_2.17"), binary("GLIBC_2.17", machine=183)])


def test_the_newest_glibc_of_one_file() -> None:
    assert glibc_need(binary("GLIBC_2.9", "GLIBC_2.34", "GLIBCXX_3.4.30", "GLIBC_PRIVATE")) == "2.34"
    assert glibc_need(binary("libcudart.so.13")) == glibc_need(binary("GLIBC_2.40", weak=True)) == ""


def elf(version: str = "GLIBC_2.34", symbol: str = "puts", **more: object) -> bytes:
    imports = [Import(symbol, version, "libc.so.6"), *more.pop("imports", [])]  # type: ignore[misc]
    return write_elf(needed=["libc.so.6"], imports=imports, **more)  # type: ignore[arg-type]


def tagged(folder: Path, files: dict[str, bytes], tag: str) -> Path:
    wheel = WHEEL.replace(b"cp312-cp312-linux_x86_64", tag.encode())
    return lay_out(folder, {"thing/__init__.py": b"", f"{INFO}/WHEEL": wheel, f"{INFO}/METADATA": METADATA, **files})


MODULE = "thing/_c.cpython-312-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("files", "tag", "result", "reason"),
    [
        ({MODULE: elf()}, "cp312-cp312-linux_x86_64", "cp312-cp312-manylinux_2_34_x86_64", "GLIBC_2.34"),
        ({MODULE: elf()}, "cp312-cp312-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_34_x86_64", "GLIBC_2.34"),
        ({"thing/liba.so": elf("GLIBC_2.5")}, "py3-none-linux_x86_64", "py3-none-manylinux_2_17_x86_64", ""),
        ({"thing/_c.abi3.so": elf(imports=[Import("PyLong_FromLong", "", "")])}, "cp310-abi3-linux_x86_64",
         "cp310-abi3-manylinux_2_34_x86_64", "GLIBC_2.34"),
        # not in the stable ABI
        ({"thing/_c.abi3.so": elf(imports=[Import("PyUnicode_New", "", "")])}, "cp310-abi3-linux_x86_64",
         "cp312-cp312-manylinux_2_34_x86_64", "PyUnicode_New"),
        # in it from 3.12 on
        ({"thing/_c.abi3.so": elf(imports=[Import("PyVectorcall_NARGS", "", "")])}, "cp310-abi3-linux_x86_64",
         "cp312-cp312-manylinux_2_34_x86_64", "PyVectorcall_NARGS"),
        # named for one interpreter
        ({MODULE: elf()}, "cp310-abi3-linux_x86_64", "cp312-cp312-manylinux_2_34_x86_64", "cpython-312"),
        ({MODULE: elf()}, "py3-none-linux_x86_64", "cp312-cp312-manylinux_2_34_x86_64", "cpython-312"),
        # one for another interpreter is no reason to be for this one
        ({"thing/_c.abi3.so": elf(), "thing/_d.cpython-310-x86_64-linux-gnu.so": elf()}, "cp310-abi3-linux_x86_64",
         "cp310-abi3-manylinux_2_34_x86_64", "GLIBC_2.34"),
        # a plain twin serves the other interpreters
        ({MODULE: elf(), "thing/_c.so": elf()}, "py3-none-linux_x86_64", "py3-none-manylinux_2_34_x86_64", ""),
        ({}, "py3-none-any", "py3-none-any", ""),
        ({"thing/liba.so": elf()}, "py3-none-any", "py3-none-manylinux_2_34_x86_64", "GLIBC_2.34"),
    ],
)  # fmt: skip
def test_tags_that_are_true_stay_and_others_go(
    tmp_path: Path, files: dict[str, bytes], tag: str, result: str, reason: str
) -> None:
    folder = tagged(tmp_path / "tree", files, tag)
    found = retag(folder, PYTHON)
    assert found.was == (tag,)
    assert found.tags == (result,)
    assert reason in " ".join(found.reasons)
    assert (folder / INFO / "WHEEL").read_text().count("Tag:") == 1
    assert wheel_name(folder) == f"thing-1.2-{result}.whl"
    write_wheel(tmp_path / wheel_name(folder), folder)
    stranger = any("cpython-310" in name for name in files)
    for rule in ("wheel-tag", "wheel-archive") if not stranger else ("wheel-archive",):
        assert judge_wheels(tmp_path / wheel_name(folder), rule) == []
    # a file name is a promise too, and that of a module stays: packages load some by name
    assert bool(judge_wheels(tmp_path / wheel_name(folder), "stable-abi")) == (reason == "PyUnicode_New")
    assert retag(folder, PYTHON).tags == (result,)


def test_several_tags_and_their_file_name(tmp_path: Path) -> None:
    folder = tagged(tmp_path, {"thing/liba.so": elf()}, "py2-none-linux_x86_64\nTag: py3-none-linux_x86_64")
    assert retag(folder, PYTHON).tags == ("py2-none-manylinux_2_34_x86_64", "py3-none-manylinux_2_34_x86_64")
    assert wheel_name(folder) == "thing-1.2-py2.py3-none-manylinux_2_34_x86_64.whl"
    lay_out(folder, {f"{INFO}/WHEEL": b"Tag: py3-none-any\nTag: cp312-cp312-linux_x86_64\n"})
    with pytest.raises(InputError, match="fit no file name"):
        wheel_name(folder)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({f"{INFO}/WHEEL": b"Wheel-Version: 1.0\n"}, "no usable Tag"),
        ({f"{INFO}/WHEEL": b"Tag: nonsense\n"}, "no usable Tag"),
        ({"thing/a.so": elf()[:100]}, "a.so"),
    ],
)
def test_what_cannot_be_tagged(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    with pytest.raises(InputError, match=says):
        retag(lay_out(tmp_path, {**FILES, **files}), PYTHON)


def test_facts_are_those_of_one_wheel(tmp_path: Path) -> None:
    env = facts_of(tagged(tmp_path, {"thing/liba.so": elf()}, "py3-none-linux_x86_64"), PYTHON)
    assert env.kind == "wheels"
    assert [item.path for item in env.objects] == ["thing/liba.so"]
    assert env.owners["thing/liba.so"] == env.dists[0].name == "thing"
