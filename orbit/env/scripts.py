"""Console scripts that find their interpreter beside themselves, wherever the prefix is."""

from __future__ import annotations

import os
from pathlib import Path

LAUNCHER = b"""#!/bin/sh
'''exec' "$(dirname -- "$(readlink -f -- "$0")")/python3.12" "$0" "$@"
' '''
"""
"""First lines of a script that is read twice. ``sh`` sees ``exec`` (quoted, with an empty string before it) and the
interpreter in the folder the script really lies in; Python sees a string that nobody uses."""


def relocate_scripts(prefix: Path) -> tuple[str, ...]:
    """Make every script in ``prefix/bin`` that names the interpreter by path find it beside itself.

    Returns the names changed, sorted. Scripts in other languages and programs are left alone.
    """
    changed = []
    for path in sorted((prefix / "bin").iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        body = script_body(data, prefix)
        if body is not None:
            path.write_bytes(LAUNCHER + body)
            changed.append(path.name)
    return tuple(changed)


def script_body(data: bytes, prefix: Path) -> bytes | None:
    """What follows the lines that name an interpreter in ``prefix``; None when ``data`` is not such a script.

    Installers write ``#!/prefix/bin/python`` and, where that is too long for the kernel, a ``/bin/sh`` line with an
    ``exec`` of the same path (three lines in all).
    """
    if not data.startswith(b"#!"):
        return None
    own = os.fsencode(prefix / "bin") + b"/python"
    first, _, rest = data.partition(b"\n")
    if own in first:
        return rest
    second, _, third = rest.partition(b"\n")
    if first.strip() == b"#!/bin/sh" and own in second and second.startswith(b"'''exec'"):
        return third.partition(b"\n")[2]
    return None
