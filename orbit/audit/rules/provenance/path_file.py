"""path-file: what .pth files do at every start of the interpreter is known and stays in the target.

A .pth file in site-packages is read by every process: its lines add folders to the import path, and a line that begins
with ``import`` is executed before the program. That is how some packages patch the interpreter, and how stolen releases
ran their code without being imported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from orbit.audit.facts import Environment
from orbit.audit.installed.import_path import PathLine, absolute, editable_root, path_lines, state
from orbit.audit.known.known_dists import known_dists
from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "path-file"
TITLE = ".pth files run nothing unknown and add no folder outside of the target"
HIDING = re.compile(
    r"\b(exec|eval|compile|marshal|zlib|base64|b64decode|codecs|subprocess|Popen|socket|urllib|requests|http|ctypes)\b"
    r"|os\.(system|popen|exec|spawn)|\bbytes\.fromhex\b"
)
"""What a line that sets up an import path has no use for."""
LOADER = re.compile(r"^import \w+\s*$")
"""How the editable install of a build backend loads its own finder: that it is one is the rule `editable`'s matter."""
SHOWN = 300
"""Characters of a line in a report."""


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per .pth file and kind of line."""
    editable = {row.path for dist in env.dists if editable_root(dist) is not None for row in dist.rows}
    code: dict[str, list[str]] = defaultdict(list)
    folders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in path_lines(env):
        if line.code:
            if not is_known(line) and not (line.file in editable and LOADER.match(line.text)):
                code[line.file].append(line.text)
        elif line.file not in editable and "__editable__" not in line.file:
            where = state(env, absolute(env, line.file.rpartition("/")[0], line.text))
            if where != "inside":
                folders[line.file, where].append(line.text)
    yield from _code(env, code)
    for (path, place), lines in folders.items():
        gone = place == "gone"
        yield _finding(
            env,
            path,
            "adds folders to the import path that are not there" if gone else "adds folders outside of the target",
            {"folders": ", ".join(lines[:5])},
            "install what was meant to be found there, and delete the file",
        )


def _code(env: Environment, code: Mapping[str, list[str]]) -> Iterator[Finding]:
    for path, lines in code.items():
        hiding = any(HIDING.search(line) for line in lines)
        yield _finding(
            env,
            path,
            "runs code at every start of the interpreter" + (", of a kind that no import path needs" if hiding else ""),
            {"lines": " | ".join(line[:SHOWN] for line in lines[:3])},
            "read it; remove it and its distribution unless you know why it is there",
            fatal=hiding,
        )


def is_known(line: PathLine) -> bool:
    """Whether a line that is executed is one that we know to be harmless."""
    name = line.file.rpartition("/")[2]
    return any(
        fnmatchcase(name, entry.files) and re.fullmatch(entry.line, line.text.strip()) is not None
        for entry in known_dists().path_lines
    ) and not (name.endswith("-nspkg.pth") and HIDING.search(line.text))


def _finding(
    env: Environment, path: str, message: str, evidence: dict[str, str], fix: str, *, fatal: bool = False
) -> Finding:
    return Finding(
        rule=ID,
        severity=Severity.ERROR if fatal else Severity.WARNING,
        subject=env.in_site(path),
        message=message,
        evidence=evidence | {"owner": env.owners.get(path, "none")},
        fix=fix,
    )
