"""HTCondor submit files: ``name = value`` lines, macros, ``queue``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import DEFAULT_SHM_BYTES, SOME, Container, Env, Flaw, Pod, Port, Shm, Word, Workload
from orbit.launch.lint.read.words import commands

STATEMENT = re.compile(r"^(\+?[A-Za-z_][\w.]*)\s*=\s*(.*)$", re.DOTALL)
QUEUE = re.compile(r"^queue\b\s*(.*)$", re.IGNORECASE | re.DOTALL)
MACRO = re.compile(r"\$\(([A-Za-z_][\w.]*)(?::([^()]*))?\)")
OLD_ENV = re.compile(r"([A-Za-z_]\w*)=([^;]*)")
NEW_ENV = re.compile(r"""([A-Za-z_]\w*)=((?:'(?:[^']|'')*'|[^\s'])*)""")
LONGEST = 8192
"""Characters of a value after its macros are filled in."""


def read_htcondor(text: str, name: str) -> tuple[tuple[Workload, ...], list[Flaw]]:
    """A workload for each ``queue`` statement; values are those that stand before it."""
    values: dict[str, Word] = {}
    found: list[Workload] = []
    for line, statement in _statements(text):
        queue = QUEUE.match(statement)
        if queue:
            found.append(_workload(name, dict(values), Word(queue[1].strip(), line)))
        elif match := STATEMENT.match(statement):
            values[match[1].lower()] = Word(match[2].strip(), line)
    if len(found) > 1:
        found = [found[0], *(item for item in found[1:] if item.settings != found[0].settings)]
    return tuple(found), []


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what they continue (a backslash at the end); comments and empty ones are left out."""
    held, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        start = start if held else number
        held += line.strip()
        if held.endswith("\\"):
            held = held[:-1]
            continue
        if held:
            yield start, held
        held = ""
    if held:
        yield start, held


def _expand(values: dict[str, Word], word: Word) -> Word:
    """``$(NAME)`` and ``$(NAME:default)`` filled in, a few levels deep."""
    text = word.text
    for _level in range(4):
        if "$(" not in text or len(text) > LONGEST:
            break

        def value(match: re.Match[str]) -> str:
            known = values.get(match[1].lower())
            return known.text if known else match[0] if match[2] is None else match[2]

        text = MACRO.sub(value, text)[:LONGEST]
    return Word(text, word.line)


def _workload(name: str, raw: dict[str, Word], queue: Word) -> Workload:
    values = {key: _expand(raw, word) for key, word in raw.items()}
    universe = values.get("universe", Word("vanilla", queue.line)).text.lower()
    image = values.get("docker_image") or values.get("container_image")
    gpus = values.get("request_gpus")
    count = 0 if gpus is None else whole(gpus.text)
    arguments = values.get("arguments")
    argv = _arguments(arguments) if arguments else ()
    executable = values.get("executable")
    container = Container(
        name=universe,
        role="main",
        line=image.line if image else queue.line,
        image=image,
        command=(executable,) if executable and executable.text else (),
        args=argv,
        env=tuple(_env(values["environment"])) if "environment" in values else tuple(_env(values.get("env"))),
        requests={},
        limits={
            key: values[name] for key, name in (("memory", "request_memory"), ("cpu", "request_cpus")) if name in values
        },
        ports=tuple(_ports(values)),
        shm=Shm("default" if universe == "docker" else "host", DEFAULT_SHM_BYTES, queue.line),
        gpus=SOME if count is None else count,
        gpu_line=gpus.line if gpus else queue.line,
        options={"universe": Word(universe, queue.line)},
    )
    network = values.get("docker_network_type")
    pod = Pod(
        name="slot",
        line=queue.line,
        containers=(container,),
        volumes={},
        host_network=network if network and network.text.strip('"').lower() == "host" else None,
        params={},
    )
    return Workload(kind="submit", name=name, line=queue.line, pods=(pod,), settings=values)


def _arguments(word: Word) -> tuple[Word, ...]:
    """Both spellings: in double quotes (single ones group words), or plain words."""
    text = word.text
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        return tuple(found for command in commands(text[1:-1].replace('""', '"'), word.line) for found in command.words)
    return tuple(Word(part, word.line) for part in text.split())


def _env(word: Word | None) -> Iterator[Env]:
    if word is None:
        return
    text = word.text
    if text.startswith('"'):
        for match in NEW_ENV.finditer(text.strip('"')):
            yield Env(match[1], match[2].replace("''", "\0").replace("'", "").replace("\0", "'"), word.line)
    else:
        for match in OLD_ENV.finditer(text):
            yield Env(match[1], match[2], word.line)


def _ports(values: dict[str, Word]) -> Iterator[Port]:
    for key, word in values.items():
        number = whole(word.text) if key.endswith("_container_port") else None
        if number is not None:
            yield Port(number, 0, key.removesuffix("_container_port"), "TCP", word.line)
