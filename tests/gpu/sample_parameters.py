"""A pytest plugin: run a random sample of a test's parameters instead of all their combinations.

    PYTHONPATH=CHECKOUT pytest -p tests.gpu.sample_parameters --sample 20 --sample-each d \
        --sample-only dtype=torch.bfloat16 tests/test_flash_attn.py

Test files of kernel packages ask for hundreds of thousands of combinations. ``--sample N`` takes N of each test's
(``--sample-each NAME``: N for each value of that parameter), by a seed, so that every run and every worker of
pytest-xdist takes the same. ``--sample-only NAME=A,B`` drops other values first; a test that then has none is not run.
``--sample-instead NAME:OLD=NEW`` replaces a value of torch (``dtype:torch.float16=torch.bfloat16``). What was taken of
how many is said at the end.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

TAKEN: dict[str, tuple[int, int]] = {}
"""Test -> combinations taken, and all of them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options."""
    group = parser.getgroup("sample")
    group.addoption("--sample", type=int, default=0, metavar="N", help="combinations of parameters for each test")
    group.addoption("--sample-each", default="", metavar="NAME", help="so many for each value of this parameter")
    group.addoption("--sample-seed", type=int, default=0)
    group.addoption("--sample-only", action="append", default=[], metavar="NAME=A,B")
    group.addoption("--sample-instead", action="append", default=[], metavar="NAME:OLD=NEW")


def replaced(name: str, values: list[Any], rules: list[str]) -> list[Any]:
    """The values of a parameter after ``--sample-instead``, each once."""
    import torch

    for rule in rules:
        parameter, _, change = rule.partition(":")
        old, _, new = change.partition("=")
        if parameter == name:
            values = [getattr(torch, new.removeprefix("torch.")) if str(value) == old else value for value in values]
    return list(dict.fromkeys(values)) if rules else values


def axes(metafunc: pytest.Metafunc) -> list[tuple[list[str], list[Any]]]:
    """(names, values) of each ``parametrize``, after the options."""
    config, found = metafunc.config, []
    only = dict(text.split("=", 1) for text in config.getoption("--sample-only"))
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        values = list(mark.args[1])
        if len(names) == 1:
            values = replaced(names[0], values, config.getoption("--sample-instead"))
            if names[0] in only:
                values = [value for value in values if str(value) in only[names[0]].split(",")]
            values = [(value,) for value in values]
        found.append((list(names), values))
    return found


def sample(
    lists: list[tuple[list[str], list[Any]]], count: int, each: str, generator: random.Random
) -> list[tuple[Any, ...]]:
    """``count`` combinations of one value of each list, for each value of the parameter ``each`` if there is one."""
    fixed = next((index for index, (names, _) in enumerate(lists) if names == [each]), None)
    rounds = [lists] if fixed is None else [
        [*lists[:fixed], (lists[fixed][0], [value]), *lists[fixed + 1 :]] for value in lists[fixed][1]
    ]  # fmt: skip
    taken = []
    for round_ in rounds:
        total = math.prod(len(values) for _, values in round_)
        for number in generator.sample(range(total), min(count, total)):
            combination: tuple[Any, ...] = ()
            for _, values in round_:
                number, index = divmod(number, len(values))
                combination += values[index]
            taken.append(combination)
    return taken


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One ``parametrize`` with the sample in place of those of the test."""
    config = metafunc.config
    lists = axes(metafunc)
    if not config.getoption("--sample") or not lists:
        return
    name = metafunc.definition.name
    generator = random.Random(f"{config.getoption('--sample-seed')} {name}")
    taken = sample(lists, config.getoption("--sample"), config.getoption("--sample-each"), generator)
    TAKEN[name] = len(taken), math.prod(len(values) for _, values in lists)
    metafunc.definition.own_markers[:] = [
        mark for mark in metafunc.definition.own_markers if mark.name != "parametrize"
    ]
    metafunc.parametrize([name for names, _ in lists for name in names], taken)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was taken of how many (with pytest-xdist the workers know, so this process says nothing)."""
    for name, (taken, total) in TAKEN.items():
        terminalreporter.write_line(f"sampled {taken} of {total}: {name}")
