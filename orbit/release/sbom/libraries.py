"""Shared libraries that distributions carry, and libraries linked into their files: what a scanner looks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from orbit.audit.facts import SharedObject
from orbit.image.inspect.owners import PYTHON
from orbit.release.sbom.contents import Contents
from orbit.release.sbom.model import Component, Licence, tidy
from orbit.release.sbom.purl import purl

GRAFTED = re.compile(r"(^|/)([^/]+\.libs|\.libs)/[^/]+$")
"""Where auditwheel puts libraries of the system it takes into a wheel."""
LIBRARY = re.compile(r"^lib[^/]*\.so(\.[0-9][0-9.]*)?$")
"""Libraries by their name; extension modules are called otherwise."""
NUMBER = re.compile(r"\.so\.(\d+(?:\.\d+)*)$")
OWN_TERMS = Licence(unknown="as the distribution that carries it, or its own: no metadata says it")


def components(contents: Contents, references: Mapping[str, str]) -> Iterator[Component]:
    """A component for each library; ``references`` of distributions by name. Their licence is not known: no file of
    theirs says it."""
    for path, item in sorted(contents.objects.items()):
        owner = contents.owners.of(path)
        if owner.kind != PYTHON or owner.name not in references:
            continue
        inside = references[owner.name]
        name = path.rpartition("/")[2]
        grafted = GRAFTED.search(path) is not None
        if grafted or LIBRARY.match(name):
            yield _library(contents, path, name, item, inside, grafted=grafted)
        for family, release in item.embedded:
            yield Component(
                ref=f"/{tidy(path, 1000)}#{tidy(family)}",
                kind="static",
                name=tidy(family),
                version=tidy(release),
                purl=purl("generic", tidy(family), tidy(release)),
                licence=OWN_TERMS,
                inside=inside,
                paths=(f"/{tidy(path, 1000)}",),
            )


def _library(contents: Contents, path: str, name: str, item: SharedObject, inside: str, *, grafted: bool) -> Component:
    soname = item.dynamic.soname if item.dynamic is not None else ""
    number = NUMBER.search(name)
    notes = {"soname": tidy(soname), "grafted": "true" if grafted else ""}
    if not item.release:
        # the number in a name counts changes of the interface; it is not the release
        notes["interface"] = number[1] if number else ""
    return Component(
        ref=f"/{tidy(path, 1000)}",
        kind="library",
        name=tidy(soname or name),
        version=tidy(item.release),
        purl=purl("generic", tidy(name), tidy(item.release)) if item.release else "",
        sha256=contents.sha256(path),
        licence=OWN_TERMS,
        inside=inside,
        paths=(f"/{tidy(path, 1000)}",),
        notes={key: value for key, value in notes.items() if value},
    )
