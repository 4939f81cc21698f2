"""orbit kernels build: what it refuses before any work, and how shares are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main
from orbit.cli.kernels.build import parse_archs, parse_part
from orbit.core.store import Store
from orbit.errors import ExitCode, InputError


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--jobs", "0"),
        ("--memory", "-1"),
        ("--memory", "nan"),
        ("--memory", "inf"),
        ("--part", "5/4"),
        ("--part", ""),
        ("--archs", "sm_75"),
        ("--archs", ""),
        ("--archs", "sm_90a,"),
    ],
)
def test_numbers_and_words_that_mean_nothing(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "build", option, value]) == ExitCode.USAGE
    assert option in capsys.readouterr().err


def test_an_unknown_recipe_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "build", "nope"]) == ExitCode.USAGE
    assert "known recipes" in capsys.readouterr().err


def test_a_busy_store_is_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(store).writer("a test"):
        assert main(["kernels", "build", "--profile", "probe"]) == ExitCode.REFUSED
    assert "a test is running" in capsys.readouterr().err


def test_sharing_makes_numbers_of_words() -> None:
    assert (parse_part("1/1"), parse_part("3/16")) == ((1, 1), (3, 16))
    assert parse_archs("sm_90a, host", ("sm_90a",)) == ["sm_90a", "host"]
    for wrong in ("0/4", "5/4", "1", "a/b", "1/0"):
        with pytest.raises(InputError, match="--part"):
            parse_part(wrong)
