"""What a bill of materials says, whatever format it is written in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orbit.core.findings import Finding
from orbit.core.records import Record

KINDS: Mapping[str, str] = {
    "python": "Python distributions",
    "vendored-python": "Python distributions inside others",
    "library": "shared libraries inside distributions",
    "static": "libraries linked into others",
    "kernel": "CUDA kernels built by Orbit",
    "orbit": "Orbit",
    "interpreter": "interpreters",
    "debian": "Debian packages",
    "base": "base systems",
}
"""Every kind of component with its name for people, in the order of reports."""
TEXT_CHARS = 300
"""No value taken from a file of the image is longer."""
ODD = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]+")
"""Control characters, kinds of blanks, and what JSON or XML readers refuse."""
UNSPEAKABLE = re.compile("[\ud800-\udfff]")


def tidy(text: str, most: int = TEXT_CHARS) -> str:
    """``text`` on one line, without control characters, not longer than ``most`` characters."""
    line = UNSPEAKABLE.sub("\ufffd", ODD.sub(" ", text[: 4 * most])).strip()
    return line if len(line) <= most else line[: most - 3] + "..."


class LicenceText(Record, frozen=True, kw_only=True):
    """A licence file in the image."""

    path: str
    """Absolute."""
    sha256: str
    """Empty when it was not hashed (a link that leads nowhere)."""
    size: int


class Said(Record, frozen=True, kw_only=True):
    """What one place says about a licence."""

    where: str
    """``License-Expression``, ``License``, ``Classifier``, ``copyright``."""
    text: str


class Licence(Record, frozen=True, kw_only=True):
    """The licence of a component: what is said, and what follows from it."""

    expression: str = ""
    """SPDX expression; empty when it is unknown."""
    declared: str = ""
    """SPDX expression of the first place that states one, also where others disagree."""
    unknown: str = ""
    """Why it is unknown."""
    said: tuple[Said, ...] = ()
    texts: tuple[LicenceText, ...] = ()
    missing: tuple[str, ...] = ()
    """Licence files that the metadata names and the image lacks."""


class Component(Record, frozen=True, kw_only=True):
    """One part of an image."""

    ref: str
    """Unique in the image."""
    kind: str
    """A key of :data:`KINDS`."""
    name: str
    version: str
    """Empty when it cannot be read."""
    purl: str = ""
    sha256: str = ""
    """Hex: of the wheel a distribution came from, of the file of a library; else empty."""
    summary: str = ""
    licence: Licence = Licence()
    inside: str = ""
    """Reference of the component that carries it; empty for what stands alone."""
    depends: tuple[str, ...] = ()
    """References of other components, sorted."""
    paths: tuple[str, ...] = ()
    """Where it is in the image, absolute: a dist-info folder, a file."""
    notes: dict[str, str] = {}
    """What neither format has a field for."""


class Inventory(Record, frozen=True, kw_only=True):
    """Everything in one image."""

    image: str
    """Its name: the title among its labels, else as it was asked for."""
    version: str
    digest: str
    created: str
    """As the image states it, to the second, UTC."""
    components: tuple[Component, ...]
    """Sorted by kind and reference."""
    findings: tuple[Finding, ...]
    checked: dict[str, int]
    """What was counted against each other."""

    @property
    def counts(self) -> dict[str, int]:
        """Number of components by kind."""
        found = dict.fromkeys(KINDS, 0)
        for component in self.components:
            found[component.kind] += 1
        return found
