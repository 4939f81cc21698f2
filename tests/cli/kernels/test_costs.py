"""orbit kernels costs: a store in which nothing was built has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main
from orbit.errors import ExitCode
from orbit.kernels.jobs.costs import package_cost, save_cost
from orbit.kernels.jobs.steps import Line, Report


def test_nothing_was_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "costs"]) == ExitCode.MISSING
    assert "orbit kernels build" in capsys.readouterr().err


def test_the_last_build_of_each_package(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(seconds=10, cpu_s=8, peak_bytes=2**30, status=0)
    line = Line(
        recipe="thing", step="ptxas", source="csrc/a.cu", arch="sm_90a", cached=False, asked_s=0, began_s=1, ended_s=11,
        reserved_bytes=2**30, report=report,
    )  # fmt: skip
    save_cost(store, package_cost("thing", [line], wall_s=11, cores=2))
    assert main(["kernels", "costs"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "thing" in text
    assert "csrc/a.cu" in text
    assert main(["kernels", "costs", "--json"]) == ExitCode.OK
    assert '"cpu_s": 8' in capsys.readouterr().out
