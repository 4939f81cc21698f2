"""shadowed-module: two providers of one import name, standard-library names, two forms of one module."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.rules.integrity.forms import Forms
from orbit.core.findings import Severity
from tests.audit.rules.integrity.images import read_image
from tests.audit.support import judge
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "shadowed-module"
EXTENSION = "cpython-312-x86_64-linux-gnu.so"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def test_one_package_twice_with_equal_bytes(env: EnvironmentWriter) -> None:
    files = {"cv2/__init__.py": b"=", "cv2/core.py": b"="}
    env.add("opencv-python", files)
    env.add("opencv-python-headless", files)
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("cv2", Severity.WARNING)
    assert finding.evidence["distributions"] == "opencv-python, opencv-python-headless"


def test_one_module_twice(env: EnvironmentWriter) -> None:
    env.add("pynvml", {"pynvml.py": b"="})
    env.add("nvidia-ml-py", {"pynvml.py": b"="})
    assert [finding.subject for finding in judge(env.prefix, RULE)] == ["pynvml"]


def test_module_behind_a_package(env: EnvironmentWriter) -> None:
    env.add("nvidia-ml-py", {"pynvml.py": b"1"})
    env.add("pynvml", {"pynvml/__init__.py": b"2"})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.fatal, "a module of nvidia-ml-py" in finding.message) == (True, True)


def test_namespace_packages_and_conflicts_are_silent(env: EnvironmentWriter) -> None:
    env.add("one", {"space/__init__.py": b"=", "space/one.py": b"", "bare/one.py": b"", "clash.py": b"1"})
    env.add("two", {"space/__init__.py": b"=", "space/two.py": b"", "bare/two.py": b"", "clash.py": b"2"})
    assert judge(env.prefix, RULE) == []


def test_part_in_the_package_of_another_is_silent(env: EnvironmentWriter) -> None:
    env.add("flash-attn", {"flash_attn/__init__.py": b""})
    env.add("flash-attn-4", {"flash_attn/cute/__init__.py": b""})
    assert judge(env.prefix, RULE) == []


def test_standard_library_names(env: EnvironmentWriter) -> None:
    env.add("dataclasses", {"dataclasses.py": b""})
    env.add("suite", {"tests/__init__.py": b"", "test/__init__.py": b""})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("dataclasses", Severity.WARNING)


def test_two_forms_of_one_module(env: EnvironmentWriter) -> None:
    env.add("mypyc-like", {"m/a.py": b"", f"m/a.{EXTENSION}": write_elf(), "m/b.abi3.so": write_elf()})
    env.add("other-python", {"m/b.cpython-310-x86_64-linux-gnu.so": write_elf()})
    assert judge(env.prefix, RULE) == []
    env.add("twice", {"t/c.so": write_elf(), f"t/c.{EXTENSION}": write_elf()})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.evidence["taken"], finding.severity) == (f"t/c.{EXTENSION}", Severity.WARNING)
    env.add("late", {"m/a.abi3.so": write_elf()})
    assert {finding.subject for finding in judge(env.prefix, RULE) if finding.fatal} == {"late + mypyc-like"}


def test_order_of_forms(env: EnvironmentWriter) -> None:
    names = ["x.py", "x.so", "x.abi3.so", f"x.{EXTENSION}", "x.cpython-311-x86_64-linux-gnu.so"]
    env.add("x", {f"x/{name}": write_elf() for name in names})
    forms = Forms(read_image(env.prefix.parent, home="e"))
    (order,) = forms.several.values()
    assert [Path(path).name for path in order] == [f"x.{EXTENSION}", "x.abi3.so", "x.so", "x.py"]
