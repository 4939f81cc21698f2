# ruff: noqa: E501 - a case is one line
"""What a container starts, from its words."""

from __future__ import annotations

import pytest

from orbit.launch.lint.facts import Container, Shm, Word
from orbit.launch.lint.programs import container_commands, programs, script_programs, shell_text, trains


def container(*words: str) -> Container:
    return Container(
        name="a", role="main", line=1, args=tuple(Word(word, 1) for word in words), requests={}, limits={}, options={},
        shm=Shm("host", 0, 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("torchrun", "--nproc_per_node=8", "x.py"), "torchrun"),
        (("/opt/bin/python3.12", "-u", "-m", "torch.distributed.run", "x.py"), "torchrun"),
        (("orbit-entrypoint", "python3", "x.py"), "python"),
        (("tini", "-g", "--", "vllm", "serve", "m"), "vllm"),
        (("python", "-m", "sglang.launch_server", "--tp", "8"), "sglang"),
        (("uv", "run", "torchrun", "x.py"), "torchrun"),
        (("ray", "start", "--head"), "ray start"),
        (("mpiexec", "-n", "8", "x"), "mpirun"),
        (("sleep", "1"), "sleep"),
    ],
)
def test_programs(words: tuple[str, ...], kind: str) -> None:
    assert [program.kind for program in programs(container(*words))] == [kind]


def test_flags_have_one_spelling() -> None:
    (program,) = programs(container("torchrun", "--nproc_per_node", "8", "--nnodes=2", "--standalone", "--x", "-1"))
    assert program.number("nproc-per-node") == (8, Word("8", 1))
    assert program.number("nproc", "nnodes") == (2, Word("2", 1))
    assert program.number("standalone") is None
    assert program.flags["x"].text == "-1"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("sh", "-c", "a; b"), "a; b"),
        (("bash", "-lc", "a"), "a"),
        (("bash", "-e", "-o", "pipefail", "-c", "a"), None),
        (("orbit-entrypoint", "bash", "-c", "a"), "a"),
        (("bash", "script.sh", "-c", "a"), None),
        (("python", "-c", "a"), None),
    ],
)
def test_what_a_shell_is_given(words: tuple[str, ...], text: str | None) -> None:
    found = shell_text(container(*words))
    assert (found.text if found else None) == text


def test_every_command_of_a_shell() -> None:
    assert [command.program for command in container_commands(container("sh", "-c", "cd /x && torchrun t.py | tee l"))] == [
        "cd", "torchrun", "tee",
    ]  # fmt: skip
    assert container_commands(container()) == ()


@pytest.mark.parametrize("words", [("python", "train.py"), ("torchrun", "x.py"), ("bash", "-c", "python run_sft.py")])
def test_training(words: tuple[str, ...]) -> None:
    assert trains(container(*words))


@pytest.mark.parametrize(
    "words", [("python", "serve.py"), ("sleep", "1"), ("cat", "/data/train/x"), ("python", "constrain.py")]
)
def test_not_training(words: tuple[str, ...]) -> None:
    assert not trains(container(*words))


def test_scripts_have_lines() -> None:
    found = script_programs((Word("set -e\nray start --head\n\npython x.py\n", 10),))
    assert [(program.kind, program.line) for program in found] == [("set", 10), ("ray start", 11), ("python", 13)]
