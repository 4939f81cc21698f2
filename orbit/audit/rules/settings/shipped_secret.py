"""shipped-secret: no credential is in an image's variables or labels, or in a file it ships.

Whoever can pull the image can read them, and deleting them in a later layer does not help. The values themselves are
never part of a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from orbit.audit.facts import Environment, Kind
from orbit.audit.known.policy import Policy
from orbit.audit.models.settings import load_settings
from orbit.core.findings import Finding, Severity

ID = "shipped-secret"
TITLE = "no credential is in variables, labels or files"
KINDS: frozenset[Kind] = frozenset(("environment", "image"))
MIN_SECRET = 8
"""Characters; shorter values are placeholders."""
HARMLESS = re.compile(
    r"(?i)^(\d+(\.\d+)?|true|false|yes|no|none|null|auto|/.*|\$.*|<.*>|\{.*|x+|\*+|change-?me|your[-_].*|.*example.*)$"
)
"""Values that are no secret: numbers, switches, paths, references, placeholders."""
MAX_FILE = 64 << 10
"""Bytes; files of these names that are longer hold something else."""


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per variable, label and file."""
    yield from _values(env.variables, "variable")
    if env.image is not None:
        yield from _values(env.image.labels, "label")
    ends = load_settings().secret_files
    names = {end.rpartition("/")[2] for end in ends}
    for path, fact in env.tree.entries.items():
        if path[path.rfind("/") + 1 :] not in names or not fact.is_file or path in env.owners:
            continue
        if 0 < fact.size <= MAX_FILE and any(f"/{path}".endswith(f"/{end}") for end in ends):
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=path,
                message="a file in which programs keep credentials is shipped",
                evidence={"bytes": str(fact.size), "mode": f"{fact.mode & 0o7777:04o}"},
                fix="build with a secret mount (RUN --mount=type=secret) instead; revoke what is in the file",
            )


def _values(values: Mapping[str, str], kind: str) -> Iterator[Finding]:
    for name, value in values.items():
        what = secret_of(name, value)
        if what:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=name,
                message=f"the {kind} holds {what}: everybody who can pull the image can read it",
                evidence={"characters": str(len(value))},
                fix="remove it from the image and its history, revoke it, and pass it when a container starts",
            )


def secret_of(name: str, value: str) -> str:
    """What kind of secret a value is, by its own form or by its name; empty when it is none."""
    known = load_settings()
    for what, expression in known.secret_values.items():
        if re.search(expression, value):
            return what
    if any(fnmatchcase(name.upper(), pattern) for pattern in known.public) or len(value) < MIN_SECRET:
        return ""
    if re.search(known.secret_names, name) and not HARMLESS.match(value):
        return "what its name calls a secret, in clear text"
    return ""
