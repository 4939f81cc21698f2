"""clear-secret: no credential stands in clear text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from orbit.audit.models.settings import load_settings
from orbit.core.findings import Finding
from orbit.launch.lint.facts import Env, Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, WARNING, finding_at, who
from orbit.launch.lint.programs import container_commands
from orbit.launch.lint.read.words import Command

ID = "clear-secret"
TITLE = "no credential stands in clear text in a manifest"
FIX = "revoke it if it is real, and take it from a secret (secretKeyRef, --env-file, the submitting shell) by name"
PLACEHOLDER = re.compile(
    r"^$|^<.*>$|^\{\{.*\}\}$|\$|^x+$|^\*+$|^\.+$|(?i:your|change.?me|replace|example|dummy|placeholder|todo|redacted|xxx)"
)
WORDS = re.compile(r"^(?i:true|false|none|null|yes|no|on|off|auto|env|file|token|password|\d{1,6})$")
FLAG = re.compile(r"^--?([A-Za-z][\w.-]*)(?:=(.*))?$", re.DOTALL)
SHORT = 12
"""Characters: less is a password of an example more often than one that opens something."""


class Shape(NamedTuple):
    """What a value of one kind looks like."""

    kind: str
    pattern: re.Pattern[str]
    needs: str
    """Every such value has this in it; a text without it need not be searched."""


@functools.cache
def secret_shapes() -> tuple[Shape, ...]:
    """Every kind of value that is known by its shape."""
    return tuple(
        Shape(kind, re.compile(rf"(?<![A-Za-z0-9_-])(?:{expression})"), "://" if "://" in expression else "")
        for kind, expression in load_settings().secret_values.items()
    )


def hide(text: str, instead: str) -> str:
    """``text`` with every value of a known shape replaced."""
    for shape in secret_shapes():
        if shape.needs in text:
            text = shape.pattern.sub(instead, text)
    return text


@functools.cache
def _names() -> re.Pattern[str]:
    return re.compile(load_settings().secret_names)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a credential."""
    settings = load_settings()
    return _names().search(name) is not None and not any(fnmatchcase(name, public) for public in settings.public)


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Values of a known shape anywhere in the text; variables and flags that are called like secrets."""
    lines: set[int] = set()
    for line, kind in _shown(manifest.text):
        if line not in lines:
            lines.add(line)
            message = f"{kind} stands in clear text: whoever reads the file, the object or the job's description has it"
            yield finding_at(ID, ERROR, manifest, line, "", message, FIX)
    for workload, pod, container in manifest.seats():
        for env in (*container.env, *_flags(container_commands(container))):
            if env.line in lines or env.value is None or not is_secret_name(env.name):
                continue
            value = env.value.strip()
            if PLACEHOLDER.search(value) or WORDS.match(value) or value.startswith(("/", "file:", "env:")):
                continue
            lines.add(env.line)
            severity = ERROR if len(value) >= SHORT else WARNING
            message = f"{env.name} is called like a secret and has its value in clear text"
            yield finding_at(
                ID, severity, manifest, env.line, who(workload, pod, container), message, FIX,
                value=f"{len(value)} characters, not shown",
            )  # fmt: skip


def _shown(text: str) -> Iterator[tuple[int, str]]:
    """Line and kind of each value of a known shape."""
    for shape in secret_shapes():
        for match in shape.pattern.finditer(text) if shape.needs in text else ():
            if not PLACEHOLDER.search(match[0]):
                yield text.count("\n", 0, match.start()) + 1, shape.kind


def _flags(found: tuple[Command, ...]) -> Iterator[Env]:
    """``--token VALUE`` and ``--token=VALUE`` of the commands of a container, and assignments before them."""
    for command in found:
        for name, value in command.env:
            yield Env(name, value, command.line)
        for place, word in enumerate(command.words):
            match = FLAG.match(word.text)
            if match is None:
                continue
            follow = command.words[place + 1].text if place + 1 < len(command.words) else ""
            value = match[2] if match[2] is not None else "" if follow.startswith("-") else follow
            yield Env(match[1].replace("-", "_"), value, word.line)
