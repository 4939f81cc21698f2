"""Each way to stop has its own exit status and says what to do next."""

from __future__ import annotations

import pytest

from orbit.errors import (
    CheckFailed,
    CommandFailed,
    ExitCode,
    InputError,
    MissingError,
    OrbitError,
    RefusedError,
)


def test_the_exit_codes_are_the_documented_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0, "FINDINGS": 1, "USAGE": 2, "MISSING": 3, "REFUSED": 4, "INTERNAL": 70,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "code"),
    [(OrbitError, 70), (CheckFailed, 1), (CommandFailed, 1), (InputError, 2), (MissingError, 3), (RefusedError, 4)],
)
def test_each_kind_has_its_code(kind: type[OrbitError], code: int) -> None:
    assert kind.code == code
    assert issubclass(kind, OrbitError)


def test_an_error_is_a_sentence_and_a_fix() -> None:
    assert str(InputError("x.toml: bad", fix="correct it")) == "x.toml: bad\n  fix: correct it"
    assert str(InputError("x.toml: bad")) == "x.toml: bad"
    assert InputError("x.toml: bad").args == ("x.toml: bad",)


def test_a_failed_command_shows_the_end_of_its_output() -> None:
    error = CommandFailed("building", argv=["make"], status=2, tail="one\ntwo", fix="read it")
    assert str(error) == "building\n  fix: read it\n  | one\n  | two"
    assert str(CommandFailed("building", argv=["make"], status=2, tail="")) == "building"


def test_a_full_disk_is_one_whatever_program_met_it() -> None:
    error = CommandFailed(
        "linking", argv=["ld"], status=1, tail="ld: final link failed: No space left on device", fix="x"
    )
    assert error.code is ExitCode.REFUSED
    assert "free some room" in error.fix
    assert CommandFailed("linking", argv=["ld"], status=1, tail="undefined symbol", fix="x").code is ExitCode.FINDINGS
