"""foreign-extension: modules that the interpreter cannot import, and those that only look like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.support import judge, judge_wheels
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.wheels import write_wheel

OWN = "_c.cpython-312-x86_64-linux-gnu.so"
ARM, I386 = 183, 3


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    env = EnvironmentWriter(tmp_path / "e")
    # what makes the environment one of x86-64
    env.add("native", {f"native/_{number}.so": write_elf() for number in range(4)})
    return env


@pytest.mark.parametrize(
    ("names", "subjects"),
    [
        (["_c.cpython-310-x86_64-linux-gnu.so"], ["x/_c.cpython-310-x86_64-linux-gnu.so"]),
        (["_c.cpython-312-aarch64-linux-gnu.so"], ["x/_c.cpython-312-aarch64-linux-gnu.so"]),
        (["_c.cpython-312-i386-linux-gnu.so"], ["x/_c.cpython-312-i386-linux-gnu.so"]),
        (["_c.pypy310-pp73-x86_64-linux-gnu.so"], ["x/_c.pypy310-pp73-x86_64-linux-gnu.so"]),
        (["_c.graalpy242-311-native-x86_64-linux.so"], ["x/_c.graalpy242-311-native-x86_64-linux.so"]),
        (["_c.cpython-312d-x86_64-linux-gnu.so"], ["x/_c.cpython-312d-x86_64-linux-gnu.so"]),
        (["_c.cpython-313t-x86_64-linux-gnu.so"], ["x/_c.cpython-313t-x86_64-linux-gnu.so"]),
        ([OWN], []),
        (["_c.cpython-312.so"], []),
        (["_c.abi3.so", "libother.so", "_plain.so"], []),
        (["_c.cpython-310-x86_64-linux-gnu.so", OWN], []),
        (["_c.cpython-313t-x86_64-linux-gnu.so", "_c.cpython-312d-x86_64-linux-gnu.so", OWN], []),
        (["_c.cpython-39-x86_64-linux-gnu.so", "_c.abi3.so"], []),
        (["_c.pypy310-pp73-x86_64-linux-gnu.so", "_c.so"], []),
    ],
)
def test_tags_in_file_names(env: EnvironmentWriter, names: list[str], subjects: list[str]) -> None:
    env.add("x", {f"x/{name}": write_elf() for name in names})
    assert [finding.subject for finding in judge(env.prefix, "foreign-extension")] == subjects


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("_c.cpython-312d-x86_64-linux-gnu.so", "debug build"),
        ("_c.cpython-313t-x86_64-linux-gnu.so", "free-threaded build"),
        ("_c.cpython-313td-x86_64-linux-gnu.so", "debug build and a free-threaded build"),
        ("_c.pypy310-pp73-x86_64-linux-gnu.so", "PyPy"),
    ],
)
def test_builds_are_called_by_their_names(env: EnvironmentWriter, name: str, word: str) -> None:
    env.add("x", {f"x/{name}": write_elf()})
    (finding,) = judge(env.prefix, "foreign-extension")
    assert word in finding.message


@pytest.mark.parametrize("name", [OWN, "_c.abi3.so"])
@pytest.mark.parametrize("content", [write_elf(machine=ARM), write_elf(machine=I386)])
def test_a_file_for_another_machine(env: EnvironmentWriter, name: str, content: bytes) -> None:
    env.add("x", {f"x/{name}": content})
    (finding,) = judge(env.prefix, "foreign-extension")
    assert finding.subject == f"x/{name}"
    assert "another machine" in finding.message


def test_a_32_bit_file(env: EnvironmentWriter) -> None:
    """Its header has another layout: only its class and machine are read."""
    header = b"\x7fELF\x01\x01\x01".ljust(16, b"\0") + b"\x03\0\x03\0" + bytes(200)
    env.add("x", {f"x/{OWN}": header})
    (finding,) = judge(env.prefix, "foreign-extension")
    assert finding.evidence["expected"] == "e_machine 62"


def test_a_file_for_another_machine_beside_a_native_one(env: EnvironmentWriter) -> None:
    env.add("x", {"x/_c.cpython-312-aarch64-linux-gnu.so": write_elf(machine=ARM), f"x/{OWN}": write_elf()})
    env.add("y", {"y/arm/libdata.so": write_elf(machine=ARM)})
    assert judge(env.prefix, "foreign-extension") == []


def test_a_foreign_twin_does_not_help(env: EnvironmentWriter) -> None:
    env.add("x", {"x/_c.cpython-310-x86_64-linux-gnu.so": write_elf(), "x/_c.abi3.so": write_elf(machine=ARM)})
    assert len(judge(env.prefix, "foreign-extension")) == 2


@pytest.mark.parametrize(("tag", "count"), [("cp313-abi3-linux_x86_64", 1), ("cp310-abi3-linux_x86_64", 0)])
def test_floor_of_the_stable_abi(env: EnvironmentWriter, tag: str, count: int) -> None:
    env.add("x", {"x/_c.abi3.so": write_elf()}, tags=[tag])
    assert len(judge(env.prefix, "foreign-extension")) == count


def test_a_module_for_one_python_in_an_abi3_wheel(tmp_path: Path) -> None:
    files = {"x/_a.abi3.so": write_elf(), "x/_b.cpython-310-x86_64-linux-gnu.so": write_elf()}
    (finding,) = judge_wheels(write_wheel(tmp_path, "x", files, tags=("cp310-abi3-linux_x86_64",)), "foreign-extension")
    assert finding.subject == "x/_b.cpython-310-x86_64-linux-gnu.so"
