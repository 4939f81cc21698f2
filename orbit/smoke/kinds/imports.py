"""Whether packages import as what they should be: real modules, each with a file of its own in the right place."""

from __future__ import annotations

import fnmatch
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orbit.smoke.model import CheckError, Context

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {
    **dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.utime"), (0,)),
    **dict.fromkeys(("os.link", "os.symlink"), (1,)),
    "os.rename": (0, 1),
}
"""Audit event (docs.python.org, "Audit events table") -> which of its arguments are paths that change."""


def check_imports(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Import each of ``modules``; all problems are told together, the first exception is kept as the cause.

    An attempt to write below the prefix is a problem too, whether or not it came to anything: on a read-only root the
    package falls back in silence, on another it changes what everybody runs. ``writes``: shell patterns of paths below
    the prefix where that is known and harmless.
    """
    names = list(parameters["modules"])
    if not names:
        raise CheckError("modules is empty: nothing was imported")
    problems: list[str] = []
    cause: BaseException | None = None
    attempts = watch_writes(context.prefix, parameters.get("writes", ()))
    for name in names:
        try:
            module = importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - packages raise anything, SystemExit included
            problems.append(f"import {name}: {type(error).__name__}: {_first_line(error)}")
            cause = cause or error
        else:
            problems.extend(f"import {name}: {text}" for text in faults(vars(module), context.prefix))
        problems.extend(f"import {name}: writes into the image's own tree: {path}" for path in attempts)
        attempts.clear()
    if problems:
        raise CheckError("; ".join(dict.fromkeys(problems))) from cause
    return {"summary": f"{len(names)} modules, each with its file", "modules": names}


def watch_writes(prefix: str, allowed: Sequence[str]) -> list[str]:
    """A list that grows by each path below ``prefix`` (none given: nothing is watched) that Python code writes to.

    An audit hook cannot be taken off again: only for a process that ends after its check.
    """
    attempts: list[str] = []
    if not prefix:
        return attempts
    root = os.path.realpath(prefix) + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        for path in written_paths(event, arguments):
            place = os.path.abspath(os.fsdecode(path))
            inside = place.removeprefix(root)
            if place.startswith(root) and not any(fnmatch.fnmatchcase(inside, item) for item in allowed):
                attempts.append(place)

    sys.addaudithook(hook)
    return attempts


def written_paths(event: str, arguments: Sequence[Any]) -> list[str | bytes | os.PathLike[str]]:
    """The paths that an audited call would change."""
    if event == "open":
        path, mode, flags = arguments[:3]
        writing = flags & WRITING if mode is None else set(mode) & set("wax+")
        found = [path] if writing else []
    else:
        found = [arguments[index] for index in CHANGES.get(event, ())]
    return [path for path in found if isinstance(path, str | bytes | os.PathLike)]


def faults(namespace: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """What is wrong with an imported module, given its attributes.

    A folder left behind by a broken install imports as a namespace package: no error, no file, no content.
    """
    file = namespace.get("__file__")
    if not file:
        yield "a hollow namespace package: it has no file (an install left only folders behind?)"
    elif not os.path.isfile(file):
        yield f"its file {file} does not exist"
    elif prefix and not os.path.realpath(file).startswith(os.path.realpath(prefix) + os.sep):
        yield f"comes from {file}, outside {prefix}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"
