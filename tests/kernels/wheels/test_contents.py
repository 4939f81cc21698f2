"""orbit.kernels.wheels.contents: what should be in a wheel and what should not."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from orbit.errors import InputError
from orbit.kernels.wheels.contents import disorders, headers, leaks, missing_artifacts, version_of
from tests.kernels.wheels.support import FILES, INFO, lay_out


def test_facts(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, {**FILES, "thing/a": b"..\0/build/here\0", "thing/b": b""})
    assert version_of(folder) == "1.2"
    assert missing_artifacts(FILES, ("thing/*.py", "thing/*.so")) == ("thing/*.so",)
    assert leaks(folder, ("/build/here", "/other")) == (("thing/a", "/build/here"),)
    assert disorders(folder) == ()


def test_metadata_that_is_not_there(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, {f"{INFO}/WHEEL": b"Wheel-Version: 1.0\n"})
    with pytest.raises(InputError, match="METADATA"):
        headers(folder, "METADATA")


@pytest.mark.parametrize(
    "name",
    ["thing/__pycache__/a.cpython-312.pyc", "thing/a.o", "thing/a.d", "thing/.ninja_log", "build.ninja", "a/build.log",
     "thing/units.jsonl", "thing/CMakeFiles/x.txt", "thing/a.cubin", "thing.egg-info/PKG-INFO",
     "thing/tmpxft_0001_a.ii", "thing/setup.py.orig"],
)  # fmt: skip
def test_what_a_build_leaves_behind(tmp_path: Path, name: str) -> None:
    (finding,) = disorders(lay_out(tmp_path, {**FILES, name: b""}))
    assert (finding.rule, finding.severity, finding.evidence["files"]) == ("kernel-leftover", Severity.ERROR, name)


@pytest.mark.parametrize(
    "name", ["thing/cubin.py", "thing/a.so", "thing/include/a.h", "thing/x.d.ts", "thing/tests/a.py"]
)
def test_what_belongs_in_a_wheel(tmp_path: Path, name: str) -> None:
    assert disorders(lay_out(tmp_path, {**FILES, name: b""})) == ()


@pytest.mark.parametrize("name", ["tests/test_a.py", "csrc/a.cu", "benchmarks/run.py"])
def test_names_at_the_top_that_belong_to_nobody(tmp_path: Path, name: str) -> None:
    (finding,) = disorders(lay_out(tmp_path, {**FILES, name: b""}))
    assert (finding.rule, finding.severity) == ("kernel-root", Severity.WARNING)
    assert name.partition("/")[0] in finding.message
