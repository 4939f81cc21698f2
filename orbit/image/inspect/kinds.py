"""What kind of file a path is, as far as its name tells; what is device code is known from the audit's facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from orbit.audit.known.device import newest_mark
from orbit.audit.reports.summary import use_of
from orbit.core.records import Record
from orbit.errors import InputError
from orbit.kernels.capabilities import parse_arch
from orbit.profile.model import Profile

DEVICE, HOST = "device", "host"
KINDS: Mapping[str, str] = {
    "device": "device code",
    "host": "host code",
    "python": "Python source",
    "bytecode": "Python bytecode",
    "header": "headers and C sources",
    "static": "static libraries",
    "tests": "tests",
    "docs": "documentation",
    "licence": "licences",
    "metadata": "package metadata",
    "archive": "archives",
    "data": "other data",
    "link": "links, folders and archive headers",
}
"""Every kind with its name for people, in the order of reports."""
MAY_BE_NAMED = re.compile(r"licen[cs]|copying|copyright|notice|eula|party", re.IGNORECASE)
"""Spares most paths the longer expression."""
TESTS = re.compile(r"(?:^|/)tests?/")
LICENCE = re.compile(
    r"(^|/)(licen[cs]es?|copying|copyright|notice|third.?party.?(licen[cs]es|notices?)|eula)([._-][^/]*)?$"
    r"|\.dist-info/licenses/",
    re.IGNORECASE,
)
DOCS = re.compile(r"(^|/)(docs?|share/(doc|man|info|gtk-doc|locale))/|\.(md|rst|html?|pdf)$", re.IGNORECASE)
METADATA = re.compile(r"\.(dist-info|egg-info)(/|$)|^var/lib/dpkg/|(^|/)share/orbit/")
LOOSE_DEVICE = re.compile(r"\.(cubin|ptx|fatbin|ltoir)$")
ENDS: Mapping[str, tuple[str, ...]] = {
    "bytecode": (".pyc", ".pyo"),
    "python": (".py", ".pyi", ".pyx", ".pxd"),
    "header": (".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl", ".inc", ".ipp", ".tpp", ".c", ".cc", ".cpp", ".cxx", ".cu"),
    "static": (".a", ".o", ".lib", ".bc"),
    "archive": (".zip", ".jar", ".whl", ".gz", ".tar", ".tgz", ".xz", ".bz2", ".zst", ".7z"),
}
PATTERNS = (
    (DEVICE, LOOSE_DEVICE),
    ("tests", TESTS),
    ("docs", DOCS),
    ("metadata", METADATA),
)
"""The first one that matches counts."""
KIND_OF = {end: kind for kind, ends in ENDS.items() for end in ends}


def kind_of(path: str, *, is_elf: bool) -> str:
    """A key of :data:`KINDS`. What could be left out of an image (licences, tests, documentation) comes first."""
    if is_elf:
        return HOST
    if MAY_BE_NAMED.search(path) and LICENCE.search(path):
        return "licence"
    for kind, pattern in PATTERNS:
        if pattern.search(path):
            return kind
    name = path[path.rfind("/") + 1 :]
    return KIND_OF.get(name[name.rfind(".") :].lower() if "." in name else "", "data")


def loose_arch(path: str) -> str:
    """The architecture of a loose file of device code: what its name says, for nothing else is known of it here."""
    found = newest_mark(iter((path[path.rfind("/") + 1 :],))) or newest_mark(iter((path,)))
    return f"sm_{found.replace('.', '')} (by file name)" if found else "not known"


class GpuUse(Record, frozen=True, kw_only=True):
    """A GPU the image is for."""

    name: str
    arch: str


def targets_of(labels: Mapping[str, str], profile: Profile | None) -> tuple[GpuUse, ...]:
    """The GPUs an image is for: those of ``profile``, else those that its labels name; empty when neither does."""
    if profile is not None:
        return tuple(GpuUse(name=target.name, arch=target.feature) for target in profile.targets)
    found = []
    for word in labels.get("io.orbit.targets", "").split():
        name, _, arch = word.partition("=")
        try:
            parse_arch(arch)
        except InputError:
            continue
        found.append(GpuUse(name=name, arch=arch))
    return tuple(found)


def users_of(arch: str, targets: Sequence[GpuUse]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(names of the targets that run code for ``arch`` as it is, those for which it is compiled or linked at run
    time)."""
    plain = arch.partition(" ")[0]
    uses = {target.name: use_of(plain, parse_arch(target.arch).capability) for target in targets}
    return (
        tuple(name for name, use in uses.items() if use == "sass"),
        tuple(name for name, use in uses.items() if use == "ptx-jit"),
    )
