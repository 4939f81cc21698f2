"""What is known of distributions whatever the profile, as data: ``kernels/expectations/distributions.toml``."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

MIN_WORDS = 4
"""A reason with fewer words explains nothing."""


class Exclusive(Record, frozen=True, kw_only=True):
    """Distributions that own the same files: at most one may be installed."""

    names: tuple[str, ...]
    reason: str


class Cuda(Record, frozen=True, kw_only=True):
    """How NVIDIA's distributions tell which CUDA major they are of."""

    suffixed: str
    """Regular expression of names with the major at their end; its group is the major."""
    plain: tuple[str, ...]
    """Names without a suffix, in use since CUDA 13."""
    versioned: tuple[str, ...]
    """Those of ``plain`` whose own version begins with the CUDA major."""
    independent: tuple[str, ...]
    """Names (shell patterns) that may lie beside any other major."""
    reason: str

    def major(self, name: str, version: str) -> str:
        """The CUDA major of a distribution; empty for one that has none."""
        if any(fnmatchcase(name, pattern) for pattern in self.independent):
            return ""
        if match := re.match(self.suffixed, name):
            return match[1]
        if name in self.versioned:
            return version.partition(".")[0]
        return "13" if name in self.plain else ""


class Together(Record, frozen=True, kw_only=True):
    """A distribution that does not work alone."""

    when: str
    """Name or shell pattern."""
    needs: tuple[tuple[str, ...], ...]
    """Of each list at least one must be there."""
    reason: str


class Equal(Record, frozen=True, kw_only=True):
    """Distributions of one release; ``names`` are names or shell patterns."""

    names: tuple[str, ...]
    reason: str


class Compiled(Record, frozen=True, kw_only=True):
    """What was compiled against which release of another distribution."""

    against: str
    names: tuple[str, ...]
    releases: tuple[dict[str, str], ...]
    """``major.minor`` by name."""
    reason: str


class LookAlike(Record, frozen=True, kw_only=True):
    """A name that means another project on the index."""

    name: str
    versions: str = ""
    """Specifier of the stranger's versions; empty: all."""
    lacks: tuple[str, ...] = ()
    """Files (patterns relative to site-packages) that only the meant project has."""
    meant: str
    reason: str

    def covers(self, version: str) -> bool:
        """Whether an index serves the stranger under this version. A local version was built by somebody."""
        try:
            parsed = Version(version)
        except ValueError:  # no version, or a number of thousands of digits
            return not self.versions
        return parsed.local is None and SpecifierSet(self.versions).contains(parsed, prereleases=True)


class PathLine(Record, frozen=True, kw_only=True):
    """A line of a .pth file that runs code and is harmless."""

    files: str
    """Shell pattern of the file's name."""
    line: str
    """Regular expression for the whole line."""
    reason: str


class KnownDists(Record, frozen=True, kw_only=True):
    """The whole file."""

    schema: int
    exclusive: tuple[Exclusive, ...]
    cuda: Cuda
    together: tuple[Together, ...]
    equal: tuple[Equal, ...]
    compiled: tuple[Compiled, ...]
    look_alikes: tuple[LookAlike, ...]
    path_lines: tuple[PathLine, ...]


@functools.cache
def known_dists() -> KnownDists:
    """The shipped file. Raises :class:`InputError` naming the entry at fault."""
    return load_known_dists(data_file("kernels", "expectations", "distributions.toml"))


def load_known_dists(path: Path) -> KnownDists:
    """Read and check one such file."""
    known = load_toml(path, KnownDists)
    if known.schema != 1:
        raise InputError(f"{path}: schema {known.schema} is not known", fix="this version of orbit reads schema 1")
    entries: tuple[Exclusive | Cuda | Together | Equal | Compiled | LookAlike | PathLine, ...] = (
        *known.exclusive, known.cuda, *known.together, *known.equal, *known.compiled, *known.look_alikes,
        *known.path_lines,
    )  # fmt: skip
    for entry in entries:
        if len(entry.reason.split()) < MIN_WORDS:
            raise InputError(f"{path}: reason {entry.reason!r} explains nothing", fix="write why this is so")
    for pattern in (known.cuda.suffixed, *(line.line for line in known.path_lines)):
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(f"{path}: {pattern!r}: {error}", fix="correct the regular expression") from None
    for look_alike in known.look_alikes:
        try:
            SpecifierSet(look_alike.versions)
        except InvalidSpecifier:
            raise InputError(
                f"{path}: look_alikes {look_alike.name}: versions {look_alike.versions!r}", fix='write it as "==1.0.0"'
            ) from None
    return known
