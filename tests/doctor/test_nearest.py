"""Texts that no pattern matches: what their words are nearest to, and that it is no finding."""

from __future__ import annotations

import pytest

from orbit.doctor.nearest import MOST, nearest
from orbit.doctor.run import explain


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fa3 is not supported on SM100, FlashAttention v3", "flash-attention-3-on-blackwell"),
        ("rope_theta mismatch with rotary_base", "rotary-base-differs"),
        ("digest rejected while unpacking weights", "foreign-auth-key"),
        ("ulimit memlock too low for rdma ibv_reg_mr", "locked-memory-too-small"),
    ],
)
def test_its_words_lead_to_an_entry(text: str, name: str) -> None:
    diagnosis = explain(text)
    assert diagnosis.causes == ()
    assert name in diagnosis.near


@pytest.mark.parametrize("text", ["all is well", "the of and", "", "x" * 5000])
def test_too_little_is_nothing(text: str) -> None:
    assert nearest(text) == ()


def test_there_are_few_and_they_are_the_same_every_time() -> None:
    text = "ray cluster gpu memory nccl socket driver cache lock wheel engine adapter"
    assert nearest(text) == nearest(text)
    assert len(nearest(text)) == MOST
