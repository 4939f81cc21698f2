"""SPDX expressions: read, weighed, put together."""

from __future__ import annotations

import pytest

from orbit.release.sbom.expressions import all_of, canonical_expression, licences_in, parse, reference, render, weigh

WEIGHTS = {"MIT": 1, "MPL-2.0": 2, "GPL-2.0-only": 3, "GPL-2.0-only WITH Linux-syscall-note": 1}


@pytest.mark.parametrize(
    ("text", "ids", "weight"),
    [
        ("MIT", ["MIT"], 1),
        ("MIT OR GPL-2.0-only", ["GPL-2.0-only", "MIT"], 1),
        ("MIT AND GPL-2.0-only", ["GPL-2.0-only", "MIT"], 3),
        ("GPL-2.0-only OR MIT AND MPL-2.0", ["GPL-2.0-only", "MIT", "MPL-2.0"], 2),
        ("(GPL-2.0-only OR MIT) AND MPL-2.0", ["GPL-2.0-only", "MIT", "MPL-2.0"], 2),
        ("GPL-2.0-only WITH Linux-syscall-note", ["GPL-2.0-only WITH Linux-syscall-note"], 1),
    ],
)
def test_and_takes_the_heaviest_and_or_the_lightest(text: str, ids: list[str], weight: int) -> None:
    assert canonical_expression(text) == text
    assert list(licences_in(text)) == ids
    assert weigh(text, WEIGHTS.__getitem__) == weight
    assert canonical_expression(render(parse(text))) == render(parse(text))
    assert weigh(render(parse(text)), WEIGHTS.__getitem__) == weight


@pytest.mark.parametrize(
    "text", ["", "BSD", "MIT OR", "(" * 10_000, "MIT AND " * 5000 + "MIT", "MIT\x00", "see LICENSE"]
)
def test_what_is_no_expression_is_none(text: str) -> None:
    assert canonical_expression(text) == ""


def test_all_of_several_demands_each_once() -> None:
    assert all_of(["MIT", "GPL-2.0-only OR MIT", "MIT AND MPL-2.0"]) == "(GPL-2.0-only OR MIT) AND MIT AND MPL-2.0"
    assert all_of(["MIT OR MPL-2.0"]) == "MIT OR MPL-2.0"
    assert licences_in("") == ()


def test_a_reference_is_one_that_spdx_reads() -> None:
    assert reference("BSD 4/clause_x+") == "LicenseRef-BSD-4-clause-x"
    assert reference("\x1b") == "LicenseRef-unnamed"
    assert canonical_expression(reference("a b")) == "LicenseRef-a-b"
