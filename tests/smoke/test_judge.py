"""Judging what a check left behind: the driver's absence is told apart from every other failure."""

from __future__ import annotations

import pytest

from orbit.smoke.judge import Outcome, judge, says_driver_is_missing
from orbit.smoke.model import Check

GLIBC = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"


def check(expect: str = "passed") -> Check:
    return Check(name="c", kind="import", expect=expect, timeout_s=5)


def outcome(**values: object) -> Outcome:
    return Outcome(**({"status": 0, "seconds": 1.0, "answered": True} | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (GLIBC, True),
        ("ProbeError: needs libcuda.so.1: no NVIDIA driver on this machine", True),
        ("Could not load any common_ops library!", False),
        ("libcudart.so.13: cannot open shared object file", False),
        ("libcuda.so.1: undefined symbol: cuFoo", False),
        ("CUDA error 35", False),
    ],
)
def test_only_the_missing_driver_library_counts(text: str, missing: bool) -> None:
    assert says_driver_is_missing(text) is missing


@pytest.mark.parametrize("has_driver", [True, False])
def test_success(has_driver: bool) -> None:
    assert judge(check(), outcome(), has_driver=has_driver).result == "passed"


def test_expected_absence_is_verified() -> None:
    vague = outcome(error="ImportError: Could not load any common_ops library", chain=f"ImportError: vague\n{GLIBC}")
    assert judge(check("needs-driver"), vague, has_driver=False).result == "needs-driver"


def test_working_without_the_driver_it_is_said_to_need_is_a_failure() -> None:
    result = judge(check("needs-driver"), outcome(), has_driver=False)
    assert result.result == "failed"
    assert "worked without" in result.detail


def test_failing_otherwise_is_a_failure() -> None:
    other = outcome(error="ImportError: libfoo.so.3: cannot open shared object file")
    result = judge(check("needs-driver"), other, has_driver=False)
    assert result.result == "failed"
    assert "libfoo" in result.detail


def test_with_a_driver_it_must_work() -> None:
    assert judge(check("needs-driver"), outcome(), has_driver=True).result == "passed"
    assert judge(check("needs-driver"), outcome(error="x", chain=GLIBC), has_driver=True).result == "failed"


def test_an_undeclared_need_is_a_failure_that_says_so() -> None:
    result = judge(check(), outcome(error="x", chain=GLIBC), has_driver=False)
    assert result.result == "failed"
    assert "does not declare" in result.detail


def test_a_crash_cannot_pass_as_a_missing_driver() -> None:
    crashed = outcome(status=-11, answered=False, output=GLIBC)
    result = judge(check("needs-driver"), crashed, has_driver=False)
    assert (result.result, "SIGSEGV" in result.detail) == ("failed", True)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"status": -6, "answered": False}, "SIGABRT"),
        ({"timed_out": True, "answered": False, "status": 124}, "no end after 5 s"),
        ({"status": 3, "answered": False}, "without an answer"),
        ({"status": 139, "answered": True}, "answered, then ended"),
    ],
)
def test_ends_that_are_no_answer(values: dict[str, object], says: str) -> None:
    result = judge(check(), outcome(**values, output="tail of it"), has_driver=False)
    assert result.result == "failed"
    assert says in result.detail
    assert result.tail == "tail of it"
