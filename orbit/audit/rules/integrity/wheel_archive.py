"""wheel-archive: a wheel's file name, metadata, RECORD and members tell one story, and every member is safe to unpack.

The resolver reads the file name, the installer the archive, later tools the metadata and RECORD. Where these differ
people get something else than they asked for, or something else on every system.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.archives.zip_source import PROBLEMS
from orbit.audit.facts import Disorder, Distribution, Environment, Kind
from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "wheel-archive"
TITLE = "a wheel's name, metadata, RECORD and members agree"
KINDS: frozenset[Kind] = frozenset(("wheels",))
SHOWN = 5
AGAIN = "build the wheel again with a build backend that writes RECORD and metadata itself"
NEVER = "do not install it: no build backend makes such an archive"

DIFFERENCES: dict[str, tuple[Severity, str, str]] = {
    "file-name": (Severity.ERROR, "its file name is none that a wheel can have", "name it as the build backend did"),
    "dist-info": (Severity.ERROR, "it has more than one dist-info folder: installers refuse it", AGAIN),
    "metadata": (Severity.ERROR, "a metadata file is not in it: installers refuse it", AGAIN),
    "name": (Severity.ERROR, "its file name and its metadata name different projects", AGAIN),
    "version": (Severity.ERROR, "its file name and its metadata state different versions", AGAIN),
    "tags": (
        Severity.WARNING,
        "its file name has other tags than WHEEL: it was renamed",
        "change tags with `wheel tags`, which changes both",
    ),
    "wheel-version": (Severity.ERROR, "it is of a wheel version that installers refuse", AGAIN),
    "scheme": (Severity.ERROR, "members in a part of *.data that installers do not know", AGAIN),
    "unlisted": (
        Severity.WARNING,
        "members are not in RECORD: they are installed, and no uninstall removes them",
        AGAIN,
    ),
    "unhashed": (
        Severity.WARNING,
        "RECORD has no usable digest for members: nothing proves that they are whole",
        AGAIN,
    ),
    "two-rows": (Severity.ERROR, "RECORD lists a path twice with different digests", AGAIN),
    "differs": (Severity.ERROR, "members differ from what RECORD says of them", AGAIN),
    "duplicate": (Severity.ERROR, "members are in it twice: which one is installed depends on the installer", AGAIN),
    "case": (Severity.WARNING, "names differ in case only: one file on systems that ignore case", "rename one of them"),
    "collision": (Severity.ERROR, "a name is a file and a folder at once: it cannot be unpacked", AGAIN),
    "damaged": (
        Severity.ERROR,
        "members cannot be unpacked: other bytes than the archive promises",
        "download it again",
    ),
    "beside": (
        Severity.NOTE,
        "other wheels of this project lie beside it: they are not installed together and were not judged here",
        "audit them one by one",
    ),
}
"""(weight, what is wrong, what to do) by kind of disorder; those of single members are ``zip_source.PROBLEMS``."""


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per wheel and kind of disorder."""
    for dist in env.dists:
        for disorder in dist.disorders:
            yield _finding(dist, disorder)


def _finding(dist: Distribution, disorder: Disorder) -> Finding:
    if disorder.kind in PROBLEMS:
        count = len(disorder.names)
        members = "1 member is" if count == 1 else f"{count} members are"
        weight, message, fix = Severity.ERROR, f"{members} not read: {PROBLEMS[disorder.kind]}", NEVER
    else:
        weight, message, fix = DIFFERENCES[disorder.kind]
    rest = f" and {len(disorder.names) - SHOWN} more" if len(disorder.names) > SHOWN else ""
    return Finding(
        rule=ID,
        severity=weight,
        subject=dist.wheel_file,
        message=message,
        evidence={disorder.kind: ", ".join(disorder.names[:SHOWN]) + rest},
        fix=fix,
    )
