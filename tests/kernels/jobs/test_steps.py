"""The protocol's lines: what is read, and that anything else is refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.kernels.jobs.steps import Ask, Key, Line, Report, read_ask, read_report

ASK = b'{"recipe": "a", "step": "cicc", "source": "csrc/x.cu", "arch": "sm_90a", "cached": false}'


def test_an_ask_is_read() -> None:
    ask = read_ask(ASK)
    assert ask == Ask(recipe="a", step="cicc", source="csrc/x.cu", arch="sm_90a", cached=False)
    assert ask.key == Key("cicc", "csrc/x.cu", "sm_90a")


def test_a_report_is_read() -> None:
    line = b'{"seconds": 1.5, "cpu_s": 1, "peak_bytes": 7, "status": -9}'
    assert read_report(line) == Report(seconds=1.5, cpu_s=1.0, peak_bytes=7, status=-9)


@pytest.mark.parametrize(
    "line",
    [b"", b"go", b"[]", b"null", b"\xff\xfe", b'{"recipe": "a"}', ASK.replace(b"cicc", b"rm"),
     ASK.replace(b'"cached": false', b'"cached": false, "more": 1'), b"[" * 100_000],
)  # fmt: skip
def test_anything_else_is_no_ask(line: bytes) -> None:
    with pytest.raises(InputError, match="not a line of this protocol"):
        read_ask(line)


@pytest.mark.parametrize("number", ["-1", "1e300", "NaN"])
def test_impossible_numbers_are_no_report(number: str) -> None:
    line = f'{{"seconds": {number}, "cpu_s": 0, "peak_bytes": 0, "status": 0}}'
    with pytest.raises(InputError):
        read_report(line.encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(line: bytes) -> None:
    for read in (read_ask, read_report):
        try:
            read(line)
        except InputError as error:
            assert error.what  # noqa: PT017


@pytest.mark.parametrize(
    ("cached", "report", "ok"),
    [(True, None, True), (False, None, False), (False, 0, True), (False, 1, False)],
)
def test_a_result_is_there_when_it_was_or_the_step_ended_well(cached: bool, report: int | None, ok: bool) -> None:
    told = None if report is None else Report(seconds=1, cpu_s=1, peak_bytes=1, status=report)
    line = Line(recipe="a", step="host", source="x", arch="", cached=cached, asked_s=0, ended_s=1, report=told)
    assert line.ok is ok
