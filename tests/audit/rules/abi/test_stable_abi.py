"""stable-abi: symbols that a module for every later Python may not use."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.support import judge, judge_wheels
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.wheels import write_wheel

STABLE = "PyType_FromSpec"  # since 3.2
LATER = "PyUnicode_AsUTF8AndSize"  # since 3.10
UNSTABLE = "_PyUnicode_Ready"
PLATFORM = "manylinux_2_28_x86_64"


def module(*symbols: str, weak: bool = False) -> bytes:
    return write_elf(needed=["libc.so.6"], imports=[Import(symbol, weak=weak) for symbol in symbols])


def wheel(tmp_path: Path, content: bytes, *, name: str = "_c.abi3.so", tag: str = "cp39-abi3") -> Path:
    return write_wheel(tmp_path, "x", {f"x/{name}": content}, tags=(f"{tag}-{PLATFORM}",))


@pytest.mark.parametrize("name", ["_c.abi3.so", "_c.so"])
def test_a_symbol_outside_the_stable_abi(tmp_path: Path, name: str) -> None:
    path = wheel(tmp_path, module(STABLE, UNSTABLE), name=name)
    (finding,) = judge_wheels(path, "stable-abi")
    assert (finding.severity, finding.subject) == (Severity.ERROR, path.name)
    assert (finding.evidence["symbols"], finding.evidence["files"]) == (UNSTABLE, f"x/{name}")


def test_a_symbol_that_joined_after_the_floor(tmp_path: Path) -> None:
    (finding,) = judge_wheels(wheel(tmp_path, module(LATER)), "stable-abi")
    assert finding.severity is Severity.WARNING
    assert finding.evidence["symbols"] == f"{LATER} (3.10)"
    assert "from 3.9 on" in finding.message
    assert "cp310" in finding.fix


@pytest.mark.parametrize(
    "content",
    [
        module(STABLE),
        module(UNSTABLE, weak=True),  # looked up if it is there
        module("PyInit__c", "Pyramid", "_Pythagoras", "pyfunc"),  # not names of CPython
        write_elf(exports=[Export(UNSTABLE)]),  # its own
        write_elf(needed=["libc.so.6"]),
    ],
)
def test_modules_that_keep_their_promise(tmp_path: Path, content: bytes) -> None:
    assert judge_wheels(wheel(tmp_path, content), "stable-abi") == []


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("_c.abi3.so", "cp310-abi3"),  # the floor has the later symbol
        ("_c.cpython-312-x86_64-linux-gnu.so", "cp39-abi3"),  # names its interpreter
        ("_c.so", "cp312-cp312"),
        ("libdata.so", "py3-none"),
    ],
)
def test_files_that_promise_nothing_of_the_kind(tmp_path: Path, name: str, tag: str) -> None:
    assert judge_wheels(wheel(tmp_path, module(LATER), name=name, tag=tag), "stable-abi") == []


def test_an_abi3_file_in_a_wheel_for_one_python(tmp_path: Path) -> None:
    """The wheel's Python is the floor then: 3.12 has the later symbol, the unstable one may change in 3.13."""
    content = module(LATER, UNSTABLE)
    (finding,) = judge_wheels(wheel(tmp_path, content, tag="cp312-cp312"), "stable-abi")
    assert "from 3.12 on" in finding.message


def test_a_symbol_that_another_library_of_the_wheel_defines(tmp_path: Path) -> None:
    files = {
        "x/_c.abi3.so": write_elf(
            needed=["libp.so.1"], imports=[Import("PyHelper_New"), Import("f", "V1", "libp.so.1")]
        ),
        "x/libp.so.1": write_elf(soname="libp.so.1", exports=[Export("PyHelper_New"), Export("f", "V1")]),
    }
    assert judge_wheels(write_wheel(tmp_path, "x", files, tags=(f"cp39-abi3-{PLATFORM}",)), "stable-abi") == []


def test_several_floors_count_from_the_oldest(tmp_path: Path) -> None:
    tags = (f"cp39-abi3-{PLATFORM}", f"cp312-abi3-{PLATFORM}")
    path = write_wheel(
        tmp_path, "x", {"x/_c.abi3.so": module(LATER)}, tags=tags, file=f"x-1.0-cp39.cp312-abi3-{PLATFORM}.whl"
    )
    assert len(judge_wheels(path, "stable-abi")) == 1


def test_an_installed_module_is_judged_for_its_interpreter(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    tags = [f"cp39-abi3-{PLATFORM}"]
    env.add("x", {"x/_c.abi3.so": module(LATER)}, tags=tags)  # 3.12 has it
    env.add("y", {"y/_c.abi3.so": module(UNSTABLE)}, tags=tags)
    env.add("z", {"z/_c.abi3.so": module("PyType_GetModuleByDef")}, tags=tags)  # since 3.13
    found = judge(env.prefix, "stable-abi")
    assert [(finding.subject, finding.severity) for finding in found] == [
        ("y", Severity.WARNING),
        ("z", Severity.WARNING),
    ]
    assert "PyType_GetModuleByDef (3.13)" in found[1].evidence["symbols"]
