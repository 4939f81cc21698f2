"""clear-secret: no credential stands in clear text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

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


@functools.cache
def secret_shapes() -> re.Pattern[str]:
    """One expression for every value that is known by its shape."""
    parts = [f"(?P<s{place}>{_uncaptured(text)})" for place, text in enumerate(load_settings().secret_values.values())]
    return re.compile(r"(?<![A-Za-z0-9_-])(?:" + "|".join(parts) + ")")


def _uncaptured(expression: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", expression)


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
    kinds = list(load_settings().secret_values)
    for match in secret_shapes().finditer(manifest.text):
        line = manifest.text.count("\n", 0, match.start()) + 1
        if line in lines or PLACEHOLDER.search(match[0]):
            continue
        lines.add(line)
        kind = kinds[int((match.lastgroup or "s0")[1:])]
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
            yield Env(match[1], value, word.line)
