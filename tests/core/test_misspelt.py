"""What somebody may have meant."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec
import pytest

from orbit.core.misspelt import hint
from orbit.core.records import Record, convert
from orbit.errors import InputError

type Kind = Literal["docker", "slurm"]


class Colour(StrEnum):
    RED = "red"


class Inner(Record, frozen=True, kw_only=True):
    read_only: bool = False
    colour: Colour = Colour.RED


class Outer(Record, frozen=True, kw_only=True):
    scheduler: Kind = "slurm"
    inner: Inner = Inner()
    many: tuple[Inner, ...] = ()
    named: dict[str, Inner] = {}
    either: Inner | None = None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"schedular": "slurm"}, "did you mean 'scheduler'?"),
        ({"inner": {"readonly": True}}, "did you mean 'read_only'?"),
        ({"many": [{}, {"read_onyl": True}]}, "did you mean 'read_only'?"),
        ({"named": {"a": {"color": "red"}}}, "did you mean 'colour'?"),
        ({"either": {"color": "red"}}, "did you mean 'colour'?"),
        ({"scheduler": "slrum"}, "did you mean 'slurm'?"),
        ({"scheduler": "pbs"}, "values known there: docker, slurm"),
        ({"inner": {"zzz": 1}}, "keys known there: read_only, colour"),
        ({"inner": {"colour": "rad"}}, "did you mean 'red'?"),
    ],
)
def test_the_right_word_is_named(data: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(data, Outer, "here")
    assert said in caught.value.fix


def test_other_faults_get_no_hint() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"inner": {"read_only": 1}}, Outer)
    assert hint(Outer, str(caught.value)) == ""
    assert hint(Outer, "unknown field `a` - at `$.nowhere.at.all[0]`") == ""
    assert hint(int, "unknown field `a`") == ""
