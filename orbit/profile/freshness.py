"""``lock-stale``: whether uv.lock is what pyproject.toml asks for. uv decides; it is asked without network first.

uv answers "up to date" from the two files alone in a few milliseconds. Only when they differ does it need the index;
its answer then also tells which packages would change.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from orbit.core import tools
from orbit.core.files import read_file
from orbit.core.findings import Finding, Severity
from orbit.core.proc import run
from orbit.core.records import MAX_BYTES, parse_toml
from orbit.errors import InputError, MissingError
from orbit.profile.lock import Lock

OFFLINE_TIMEOUT_S = 60.0
ONLINE_TIMEOUT_S = 300.0
CHANGE = re.compile(r"^(?:Update|Add|Remove) .+$", re.MULTILINE)
UNREADABLE = "Failed to parse `uv.lock`"
UNSOLVABLE = "No solution found"
UNCHANGED = "No lockfile changes detected"
CHANGED = "Lockfile changes detected"
SHOWN_CHANGES = 20

type Asked = tuple[str, str, Sequence[str], str]
"""One requirement: where it stands (``""``, ``extra x``, ``group x``, ``override``), name, extras, bounds."""


def read_project(root: Path) -> dict[str, Any]:
    """The tables of ``pyproject.toml`` in ``root``, a checkout or the folder of a profile's own lock.

    Raises :class:`InputError` when it is absent or not TOML.
    """
    path = root / "pyproject.toml"
    try:
        return parse_toml(read_file(path, MAX_BYTES), path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix="run in a checkout of Orbit") from None


def check_fresh(root: Path, lock: Lock, project: Mapping[str, Any], *, command: str = "uv lock") -> Finding | None:
    """None when the lock in the folder ``root`` is up to date, else the finding. Writes nothing.

    ``command`` is what makes it anew. Raises :class:`MissingError` when only the index could tell and it cannot be
    reached.
    """
    found = _judge(root, lock, project)
    fix = f"run `{command}`, look at what changed, and commit pyproject.toml and uv.lock together"
    return None if found is None else msgspec.structs.replace(found, fix=fix)


def _judge(root: Path, lock: Lock, project: Mapping[str, Any]) -> Finding | None:
    status, words = _uv(root, "lock", "--check", "--offline", timeout_s=OFFLINE_TIMEOUT_S)
    if status == 0:
        return None
    if UNREADABLE in words:
        return _stale("uv cannot read uv.lock; it was edited by hand or cut short", {"uv": _sentence(words)})
    differences = declared_differences(lock, project)
    status, words = _uv(root, "lock", "--dry-run", timeout_s=ONLINE_TIMEOUT_S)
    if status == 0 and UNCHANGED in words:
        return None
    changes = CHANGE.findall(words)
    evidence = {"pyproject": "; ".join(differences)} if differences else {}
    if status == 0 and (changes or CHANGED in words):
        shown = changes[:SHOWN_CHANGES]
        more = [f"and {len(changes) - len(shown)} more"] if len(changes) > len(shown) else []
        evidence["changes"] = "; ".join([*shown, *more]) or "requirements as recorded in the lock; no version changes"
        return _stale("uv.lock is not what pyproject.toml asks for", evidence)
    if UNSOLVABLE in words:
        return _stale(
            "uv.lock is not what pyproject.toml asks for, and nothing on the index is", evidence | {"uv": words}
        )
    if differences:
        evidence["changes"] = f"not known, uv says: {_sentence(words)}"
        return _stale("uv.lock is not what pyproject.toml asks for", evidence)
    raise MissingError(
        f"{root / 'uv.lock'}: whether it is up to date cannot be told without the package index: {_sentence(words)}",
        fix="try again with network; behind a proxy set HTTPS_PROXY and SSL_CERT_FILE",
    )


def declared_differences(lock: Lock, project: Mapping[str, Any]) -> tuple[str, ...]:
    """Where pyproject.toml's requirements and overrides differ from those the lock was made for, one phrase each.

    Only names, bounds and extras are compared (not markers): enough to tell a person what was edited. Of a name with an
    entry in ``tool.uv.sources`` the lock records no bounds, so there only the name and extras count.
    """
    elsewhere = frozenset(map(canonicalize_name, project.get("tool", {}).get("uv", {}).get("sources", {})))
    asked, recorded = _table(_asked(project), elsewhere), _table(_recorded(lock), elsewhere)
    phrases = []
    for where, name in sorted(asked.keys() | recorded.keys()):
        now, then = asked.get((where, name)), recorded.get((where, name))
        if now != then:
            before, after = (f"{name}{spelled}" if spelled is not None else "nothing" for spelled in (then, now))
            phrases.append(f"{where or 'dependencies'}: {before} -> {after}")
    return tuple(phrases)


def _table(entries: Iterable[Asked], elsewhere: Collection[str]) -> dict[tuple[str, str], str]:
    """Where and name to extras and bounds in one spelling; repeated requirements (by marker) together."""
    table: dict[tuple[str, str], set[str]] = {}
    for where, name, extras, specifier in entries:
        bounds = "" if name in elsewhere else ",".join(sorted(str(part) for part in SpecifierSet(specifier)))
        spelled = (f"[{','.join(sorted(extras))}]" if extras else "") + bounds
        table.setdefault((where, name), set()).add(spelled)
    return {key: " or ".join(sorted(spellings)) for key, spellings in table.items()}


def _recorded(lock: Lock) -> Iterator[Asked]:
    for asked in lock.root.requires:
        where = f"extra {asked.extra}" if asked.extra else f"group {asked.group}" if asked.group else ""
        yield where, asked.name, asked.extras, asked.specifier
    for name, specifier in lock.overrides.items():
        yield "override", name, (), specifier


def _asked(project: Mapping[str, Any]) -> Iterator[Asked]:
    table = project.get("project", {})
    groups = project.get("dependency-groups", {})
    overrides = project.get("tool", {}).get("uv", {}).get("override-dependencies", [])
    places = [("", table.get("dependencies", [])), ("override", overrides)]
    places += [(f"extra {canonicalize_name(e)}", texts) for e, texts in table.get("optional-dependencies", {}).items()]
    places += [(f"group {canonicalize_name(group)}", _flat(groups, group)) for group in groups]
    for where, texts in places:
        for text in texts:
            asked = _requirement(text)
            yield where, canonicalize_name(asked.name), tuple(asked.extras), str(asked.specifier)


def _flat(groups: Mapping[str, Any], name: str, depth: int = 0) -> list[str]:
    """A dependency group with its ``include-group`` entries replaced by their content (PEP 735)."""
    if depth > len(groups):
        raise InputError(f"pyproject.toml: dependency group {name!r} includes itself", fix="break the circle")
    flat: list[str] = []
    for entry in groups.get(name, []):
        flat += [entry] if isinstance(entry, str) else _flat(groups, entry.get("include-group", ""), depth + 1)
    return flat


def _requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise InputError(f"pyproject.toml: requirement {text!r}: {error}", fix="correct it") from None


def _uv(root: Path, *arguments: str, timeout_s: float) -> tuple[int, str]:
    done = run(
        [tools.uv(), *arguments],
        doing="asking uv whether the lock is up to date",
        cwd=root,
        env={"UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1"},
        timeout_s=timeout_s,
        check=False,
    )
    return done.returncode, done.stderr.decode(errors="replace")


def _sentence(words: str) -> str:
    """uv's error and its last cause: the first and the innermost explanation."""
    lines = [line.strip() for line in words.splitlines()]
    causes = [line for line in lines if line.startswith(("error:", "cause:"))]
    return " / ".join(dict.fromkeys([*causes[:2], *causes[-1:]])) or "no explanation"


def _stale(message: str, evidence: dict[str, str]) -> Finding:
    return Finding(
        rule="lock-stale",
        severity=Severity.ERROR,
        subject="uv.lock",
        message=message,
        evidence=evidence,
    )
