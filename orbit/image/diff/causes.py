"""Why two files differ, in words: the causes of :mod:`orbit.kernels.wheels.causes` and those only images have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orbit.kernels.wheels import causes as builds

CAUSES: Mapping[str, str] = {
    **builds.CAUSES,
    "pyc-time": "the time of the source file in the header of a .pyc",
    "pyc-source": "the size or hash of the source in the header of a .pyc: the source is another one",
    "pyc-check": "how a .pyc is compared with its source: by time, by hash, or not at all",
    "pyc-refs": "marks of shared objects in a .pyc, which depend on what else was in memory",
    "follows-source": "compiled from a source that differs",
    "interpreter": "compiled by another release of CPython",
    "gzip-header": "time or name in the header of a gzip file",
    "member-owner": "members belong to another user",
    "archive-form": "the archive's own headers and padding",
    "bytecode": "bytecode differs",
    "text": "lines of text differ",
    "files": "files in it differ",
    "unreadable": "not what its form should be: compared as bytes",
}
REAL = builds.REAL | {"bytecode", "text", "pyc-source", "files"}
"""Causes that are no circumstance of how an image was built."""
SHORT: Mapping[str, str] = {
    "build-folder": "path of the build folder",
    "internal-name": "internal names made of paths",
    "temporary-name": "names of temporary files",
    "build-time": "time of the build",
    "compiler": "other compiler version",
    "build-id": "build id",
    "moved": "moved addresses",
    "packing": "compressed differently",
    "member-order": "order of entries",
    "member-date": "dates of entries",
    "member-mode": "modes of entries",
    "member-owner": "owners of entries",
    "record": "digests in RECORD",
    "missing": "parts that only one has",
    "code": "machine code",
    "data": "data",
    "unknown": "bytes between entries",
    "pyc-time": "time in the .pyc header",
    "pyc-source": "another source in the .pyc header",
    "pyc-check": "how the .pyc is checked",
    "pyc-refs": "reference marks in the .pyc",
    "follows-source": "follows its source",
    "interpreter": "other CPython version",
    "gzip-header": "gzip header",
    "archive-form": "form of the archive",
    "bytecode": "bytecode",
    "text": "text",
    "files": "files",
    "unreadable": "unreadable",
}


def why(causes: Iterable[str]) -> str:
    """The probable cause in words: ``build id only``; ``machine code, data (also build id)``."""
    found = list(dict.fromkeys(causes))
    if found == ["follows-source"]:
        return SHORT["follows-source"]
    real = [SHORT[cause] for cause in found if cause in REAL]
    circumstances = [SHORT[cause] for cause in found if cause not in REAL]
    if not real:
        return f"{', '.join(circumstances)} only" if circumstances else ""
    also = f" (also {', '.join(circumstances)})" if circumstances else ""
    return ", ".join(real) + also
