"""Amounts as each reader spells them."""

from __future__ import annotations

import pytest

from orbit.launch.lint.amounts import condor_bytes, docker_bytes, kubernetes_amount, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [("64Gi", 64 * 2**30), ("64G", 64e9), ("1e9", 1e9), ("512m", 0.512), ("8", 8.0), ("1.5Ki", 1536.0), ("12E", 12e18),
     ("64GB", None), ("64g", None), ("", None), ("Gi", None), ("1e", None), ("9" * 400, None), ("1 Gi", None)],
)  # fmt: skip
def test_kubernetes(text: str, value: float | None) -> None:
    assert kubernetes_amount(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("16g", 2**34), ("16GB", 2**34), ("512m", 2**29), ("100", 100), ("1.5g", 3 * 2**29), ("16Gig", None), ("", None)],
)
def test_docker(text: str, value: int | None) -> None:
    assert docker_bytes(text) == value


def test_condor_counts_in_the_unit_of_the_line() -> None:
    assert condor_bytes("64", "m") == 64 << 20
    assert condor_bytes("64 GB", "m") == 64 << 30
    assert condor_bytes("1024", "k") == 1 << 20
    assert condor_bytes("2 * RequestCpus", "m") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), (" 8 ", 8), ("-1", None), ("8.0", None), ("", None), ("\u0663", None), ("9" * 30, None)],
)
def test_whole(text: str, value: int | None) -> None:
    assert whole(text) == value
