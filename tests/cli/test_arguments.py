"""Conventions of the command line, on the whole tree of commands: everything is explained, answers are there for
programs, and what writes can say beforehand what it would do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from orbit.cli import build_parser

NO_JSON = {"completion": "its answer is a script for a shell"}
WRITES = ("--out", "--dist")
READS = {"cache show"}
"""Where such an option names what is looked at."""


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                yield from commands(child, f"{name} {word}".strip())


COMMANDS = dict(commands(build_parser()))
LEAVES = sorted(name for name in COMMANDS if not any(other.startswith(f"{name} ") for other in COMMANDS) and name)


def options(name: str) -> set[str]:
    return {option for action in COMMANDS[name]._actions for option in action.option_strings}


def test_there_are_commands() -> None:
    assert len(LEAVES) > 25
    assert {"ship", "image build", "image base fetch", "completion"} <= set(LEAVES)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_argument_says_what_it_is(name: str) -> None:
    mute = [
        action.dest
        for action in COMMANDS[name]._actions
        if not (action.help or "").strip() and not isinstance(action, argparse._SubParsersAction)
    ]
    assert mute == []


@pytest.mark.parametrize("name", LEAVES)
def test_every_answer_can_be_had_as_json(name: str) -> None:
    assert ("--json" in options(name)) == (name not in NO_JSON)


@pytest.mark.parametrize("name", [name for name in LEAVES if options(name) & set(WRITES) and name not in READS])
def test_what_writes_can_say_what_it_would_do(name: str) -> None:
    assert "--dry-run" in options(name)
