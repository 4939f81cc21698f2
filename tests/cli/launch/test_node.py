"""The action ``node``: its words are never taken for its flags, and bad input is one paragraph."""

from __future__ import annotations

import pytest

from orbit.cli import build_parser, main
from orbit.launch.node.options import Order, from_args, words


@pytest.mark.parametrize(
    "command",
    [("bash", "-c", "exit 7"), ("a", "--", "b"), ("--", "x"), ("--nodes", "4"), ("a", "--json"), ("x", ""), ("-",)],
)
def test_a_command_is_never_read_as_flags(command: tuple[str, ...]) -> None:
    order = Order(nodes=2, meet="dir:/s", command=command)
    args = build_parser().parse_args(["launch", "node", *words(order)])
    assert from_args(args) == order
    assert not args.json


def test_bad_input_is_told_with_its_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "node", "--nodes", "2", "--", "x"]) == 2
    said = capsys.readouterr().err
    assert "--meet" in said
    assert "fix:" in said


def test_a_dry_run_says_what_would_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "node", "--dry-run", "--no-ray", "--", "x"]) == 0
    assert "ray: none" in capsys.readouterr().out
