"""What a person reads: fits the terminal, the first cause on one screen."""

from __future__ import annotations

import pytest

from orbit.core.findings import Skipped
from orbit.doctor.catalog import load_catalog
from orbit.doctor.diagnosis import Diagnosis, Look
from orbit.doctor.run import explain
from orbit.doctor.text import render, render_symptom
from tests.doctor.examples import samples

SCREEN = 24


@pytest.mark.parametrize("width", [50, 80, 120])
def test_every_answer_fits_the_terminal(width: int) -> None:
    """A line is longer only where one word is: a path, an address."""
    answers = [render(explain(sample.text), width) for sample in samples() if not sample.near]
    long = [line for answer in answers for line in answer.splitlines() if len(line) > width]
    assert len(answers) >= 200
    assert [line for line in long if max(map(len, line.split())) < width - 16] == []


@pytest.mark.parametrize("name", sorted(load_catalog()))
def test_one_cause_is_at_most_one_screen(name: str) -> None:
    assert len(render_symptom(load_catalog()[name], 80).splitlines()) <= SCREEN + 4


def test_the_first_cause_is_whole_and_the_others_are_short() -> None:
    text = "".join(f"{line}\n" for line in (
        "OSError: [Errno 116] Stale file handle: '/home/ann/.triton/cache/x'",
        "CUDA error: invalid argument",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB",
    ))  # fmt: skip
    lines = render(explain(text), 80).splitlines()
    assert lines[0].startswith("1 of 3: Kernels are compiled into a network file system")
    assert any("cuda-invalid-argument (follows from compile-cache-on-network)" in line for line in lines)
    assert any(line.startswith("  gpu-out-of-memory (possible)") for line in lines)
    assert len(lines) <= 40


def test_nothing_found_says_what_to_do_next() -> None:
    text = render(explain("all is well"), 80)
    assert "No known cause" in text
    assert "--report FILE" in text
    assert "Nothing on this machine was looked at" in text


def test_a_clean_machine_says_what_was_and_was_not_looked_at() -> None:
    diagnosis = Diagnosis(
        orbit="1", asked="machine", causes=(), looked=(Look(what="mounts", seconds=0.1),),
        skipped=(Skipped(what="docker", reason="there is no docker client here"),), others=3,
    )  # fmt: skip
    text = render(diagnosis, 100)
    assert "looked at in 0.1 s: mounts" in text
    assert "not looked at: docker: there is no docker client here" in text
    assert "3 further findings" in text
