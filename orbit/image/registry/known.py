"""Which repository of a registry is known to have a blob: what a push asks the registry to take it from.

A memory of earlier pushes and pulls in the store (``registry/known.json``), as docker keeps one. It only saves bytes: a
wrong or missing line costs one question.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from orbit.core.records import dump_json, load_json
from orbit.errors import InputError

LINES_MAX = 20_000


def known_file(root: Path) -> Path:
    """The file of the store at ``root``."""
    return root / "registry" / "known.json"


def recall(file: Path, host: str, repository: str) -> dict[str, str]:
    """Digest -> another repository of ``host`` that had it."""
    everything = _load(file).get(host, {})
    return {digest: name for digest, name in everything.items() if name != repository}


def remember(file: Path, host: str, repository: str, digests: Iterable[str]) -> None:
    """``repository`` of ``host`` has these blobs. The oldest lines go when there are too many.

    A file that cannot be written stays as it is: what was transferred is no less there.
    """
    everything = _load(file)
    lines = everything.pop(host, {})
    for digest in digests:
        lines.pop(digest, None)
        lines[digest] = repository
    everything[host] = dict(list(lines.items())[-LINES_MAX:])
    with contextlib.suppress(OSError):
        dump_json(file, everything)


def _load(file: Path) -> dict[str, dict[str, str]]:
    try:
        return load_json(file, dict[str, dict[str, str]])
    except InputError:
        return {}
