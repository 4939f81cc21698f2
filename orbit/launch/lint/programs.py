"""What a container starts, as far as its words tell: launchers of training, engines, Ray."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import Container, Word
from orbit.launch.lint.read.words import Command, commands

SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
WRAPPERS = (
    "orbit-entrypoint",
    "tini",
    "dumb-init",
    "env",
    "exec",
    "nohup",
    "numactl",
    "nsys",
    "time",
    "srun",
    "catchsegv",
)
TRAINER = re.compile(
    r"(^|[/_.-])(train|trainer|pretrain|finetune|fine_tune|fine-tune|sft|grpo|ppo|dpo|rlhf)([_.-]|\d|$)"
)
MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
LAUNCHERS = frozenset(("torchrun", "deepspeed", "accelerate", "mpirun", "horovodrun"))
ENGINES = ("vllm", "sglang")
MOST_WORDS = 4000
"""Words of one command that are looked at."""


class Program(NamedTuple):
    """One program of a container's command."""

    kind: str
    """``torchrun``, ``deepspeed``, ``accelerate``, ``mpirun``, ``vllm``, ``ray start``, ``python``, or its name."""
    flags: dict[str, Word]
    """By name without dashes, ``_`` written as ``-``."""
    words: tuple[Word, ...]
    line: int

    def number(self, *names: str) -> tuple[int, Word] | None:
        """The number that a flag has, under the first of its names that is there."""
        for name in names:
            if name in self.flags and (found := whole(self.flags[name].text)) is not None:
                return found, self.flags[name]
        return None


def shell_text(container: Container) -> Word | None:
    """What a shell is given with ``-c``; None where no shell is the first program."""
    words = list(container.words)
    while words and words[0].text.rpartition("/")[2] in WRAPPERS:
        words = words[1:]
        while words and words[0].text in ("--", "-g", "-s"):
            words = words[1:]
    if not words or words[0].text.rpartition("/")[2] not in SHELLS:
        return None
    for place, word in enumerate(words[1:-1], 1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word.text):
            follow = place + 1
            while follow + 1 < len(words) and words[follow].text in ("--", "-o", "pipefail"):
                follow += 1
            return words[follow]
        if not word.text.startswith("-"):
            return None
    return None


def container_commands(container: Container) -> tuple[Command, ...]:
    """The simple commands a container runs: those of its shell text, else the one that its words are."""
    text = shell_text(container)
    if text is not None:
        return tuple(commands(text.text, text.line))
    words = container.words
    if not words:
        return ()
    image = container.image.text if container.image else ""
    engine = next((name for name in ENGINES if name in image), "")
    if engine and not container.command and words[0].text.startswith("-"):  # flags for the image's own entry point
        words = (Word(engine, words[0].line), *words)
    return (Command(words[:MOST_WORDS], words[0].line),)


def programs(container: Container) -> tuple[Program, ...]:
    """What is started in a container."""
    return tuple(found for command in container_commands(container) if (found := program_of(command)) is not None)


def script_programs(texts: tuple[Word, ...]) -> tuple[Program, ...]:
    """What is started by shell text beside the containers."""
    return tuple(
        found
        for text in texts
        for command in commands(text.text, text.line)
        if (found := program_of(command)) is not None
    )


def program_of(command: Command) -> Program | None:
    """The program a command starts, behind what only wraps it."""
    words = list(command.words[:MOST_WORDS])
    while words and words[0].text.rpartition("/")[2] in WRAPPERS:
        words = words[1:]
        while words and (words[0].text.startswith("-") or "=" in words[0].text):
            words = words[1:]
    if not words:
        return None
    name = words[0].text.rpartition("/")[2]
    kind, rest = name, words[1:]
    if re.fullmatch(r"python(\d(\.\d+)?)?", name):
        kind, rest = _python(rest)
    elif name in ("vllm", "accelerate", "ray", "sglang") and rest:
        kind, rest = (f"ray {rest[0].text}" if name == "ray" else name), rest[1:]
    elif name in ("mpiexec", "mpirun"):
        kind = "mpirun"
    elif name == "uv" and rest and rest[0].text == "run":
        return program_of(Command(tuple(rest[1:]), command.line))
    return Program(kind, dict(_flags(rest)), tuple(words), words[0].line)


def _python(rest: list[Word]) -> tuple[str, list[Word]]:
    while rest and rest[0].text.startswith("-") and rest[0].text != "-m":
        rest = rest[1:]
    if len(rest) > 1 and rest[0].text == "-m":
        return MODULES.get(rest[1].text, rest[1].text), rest[2:]
    return "python", rest


def _flags(words: list[Word]) -> Iterator[tuple[str, Word]]:
    for place, word in enumerate(words):
        if not word.text.startswith("-") or word.text in ("-", "--"):
            continue
        name, equals, value = word.text.lstrip("-").partition("=")
        follow = words[place + 1].text if place + 1 < len(words) else ""
        if not equals:
            value = follow if not follow.startswith("-") or re.fullmatch(r"-\d+", follow) else ""
        yield name.replace("_", "-"), Word(value, word.line)


def trains(container: Container) -> bool:
    """Whether what a container starts looks like training: a launcher of ranks, or a script that is called so."""
    return any(is_trainer(program) for program in programs(container))


def is_trainer(program: Program) -> bool:
    """Whether a program is a launcher of ranks, or a script that is called like training."""
    if program.kind in LAUNCHERS:
        return True
    words = [word.text for word in program.words[:6] if not word.text.startswith("-")]
    return any(TRAINER.search(word.lower()) for word in words if "/" not in word or word.endswith((".py", ".sh")))
