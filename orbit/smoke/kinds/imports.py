"""Whether packages import as what they should be: real modules, each with a file of its own in the right place."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from orbit.smoke.model import CheckError, Context


def check_imports(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Import each of ``modules``; all problems are told together, the first exception is kept as the cause."""
    names = list(parameters["modules"])
    if not names:
        raise CheckError("modules is empty: nothing was imported")
    problems: list[str] = []
    cause: BaseException | None = None
    for name in names:
        try:
            module = importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - packages raise anything, SystemExit included
            problems.append(f"import {name}: {type(error).__name__}: {_first_line(error)}")
            cause = cause or error
        else:
            problems.extend(f"import {name}: {text}" for text in faults(vars(module), context.prefix))
    if problems:
        raise CheckError("; ".join(problems)) from cause
    return {"summary": f"{len(names)} modules, each with its file", "modules": names}


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
