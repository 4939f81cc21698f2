"""Packages that compile at run time, as data: what they must find, where their caches are, which compilers exist.

``kernels/expectations/jit.toml`` has one table per user and per cache. Nothing is executed: the release of a compiler
is read from the line that NVIDIA's tools print for ``--version``, which lies in their read-only data.
"""

from __future__ import annotations

import functools
import re
from typing import Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from orbit.audit.binary.elf import Buffer, Elf
from orbit.audit.facts import Distribution, Environment
from orbit.core.findings import Severity
from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

RELEASE_MARK = b"Cuda compilation tools, release "
RELEASE = re.compile(rb"Cuda compilation tools, release (\d{1,3}\.\d{1,3}), V(\d{1,3}\.\d{1,3}\.\d{1,5})\b")
"""What ``nvcc --version`` and its siblings print, e.g. ``release 13.0, V13.0.88``."""
TOOL = re.compile(
    r"(^|/)(nvcc|ptxas(-\w+)?|fatbinary|nvlink|cudafe\+\+|cicc|cuobjdump|nvdisasm|tileiras"
    r"|libnvrtc(\.alt)?\.so(\.\d+)*|libnvvm\.so(\.\d+)*|libnvJitLink\.so(\.\d+)*)$"
)
"""Files of a toolkit that carry that line."""
MAX_SEARCH_BYTES = 128 << 20
"""Of one section; the longest read-only data of CUDA 13.4's tools has 30 MB."""
CAPABILITY = re.compile(r"^\d+\.\d$")
LIBRARY_MAJOR = re.compile(r"^(\d{1,4}\.\d{1,4})")


class Need(Record, frozen=True, kw_only=True):
    """One thing that a package needs when it compiles; the first place where it is counts."""

    what: str
    """In words."""
    variable: str = ""
    """An environment variable that names the file and wins over the places."""
    site: tuple[str, ...] = ()
    """Paths relative to site-packages."""
    cuda: tuple[str, ...] = ()
    """Paths relative to CUDA_HOME."""
    programs: tuple[str, ...] = ()
    """Names looked up in PATH."""
    sonames: tuple[str, ...] = ()
    """Libraries, anywhere in the target."""
    root: tuple[str, ...] = ()
    """Paths relative to the root of an image."""
    python: tuple[str, ...] = ()
    """Paths relative to the interpreter's include folder."""
    runs: bool = False
    """It is executed."""
    compiles: Literal["", "feature", "base"] = ""
    """It must know this architecture of every target: ``feature`` (``sm_90a``) or ``base`` (``sm_90``)."""
    since: str = ""
    """Only for targets of this capability and above."""
    below: str = ""
    """Only for targets below this capability."""
    severity: Severity = Severity.ERROR
    """What it weighs that it is not there."""
    fix: str = ""
    """What to do then, when it is not simply to install it."""
    image_only: bool = False
    """It comes with the base system, so only an image can say whether it is there."""


class User(Record, frozen=True, kw_only=True):
    """One package that compiles at run time."""

    name: str
    dists: tuple[str, ...]
    """Distributions that bring it, normalised names."""
    versions: str = ""
    """For which versions this holds (PEP 440); empty: all."""
    why: str
    """What it compiles, and when, in one sentence."""
    optional: bool = False
    """Nothing else fails without it: what it lacks is a note."""
    ahead: tuple[str, ...] = ()
    """With one of these distributions most of its kernels are compiled already: what it lacks is a warning."""
    needs: tuple[Need, ...]


class Cache(Record, frozen=True, kw_only=True):
    """Where one package keeps what it compiled."""

    name: str
    dists: tuple[str, ...]
    """Whose it is; none: of whatever runs on a GPU."""
    variables: tuple[str, ...]
    """What places it; the first that is set counts."""
    below: str = ""
    """What the package appends to the value."""
    parent: dict[str, str] = {}
    """Variables of a folder above it, with the path that is appended."""
    default: str
    """Where it is when none of these is set; ``~`` is the home folder."""
    folders: tuple[str, ...]
    """Ends of the path of such a cache (shell patterns in the last component)."""
    keyed: str = ""
    """What its entries are named by; empty: by less than what they depend on."""


class Jit(Record, frozen=True, kw_only=True):
    """The whole of ``kernels/expectations/jit.toml``."""

    schema: int
    chain: tuple[str, ...]
    """Tools that call each other, relative to CUDA_HOME: they must be of one release."""
    users: tuple[User, ...]
    caches: tuple[Cache, ...]


@functools.cache
def load_jit() -> Jit:
    """Read and check ``jit.toml``. Raises :class:`InputError` naming the table and what is wrong with it."""
    path = data_file("kernels", "expectations", "jit.toml")
    found = load_toml(path, Jit)
    if found.schema != 1:
        raise InputError(f"{path}: schema {found.schema} is not known", fix="this version of orbit reads schema 1")
    for user in found.users:
        where = f"{path}: users {user.name}"
        try:
            SpecifierSet(user.versions)
        except InvalidSpecifier:
            raise InputError(f"{where}: versions = {user.versions!r}", fix='write it as ">=1.2,<2"') from None
        for need in user.needs:
            _check_need(f"{where}: needs {need.what}", need)
    return found


def _check_need(where: str, need: Need) -> None:
    if not any((need.site, need.cuda, need.programs, need.sonames, need.root, need.python)):
        raise InputError(f"{where}: names no place", fix="give one of site, cuda, programs, sonames, root, python")
    if need.root and not need.image_only:
        raise InputError(f"{where}: root without image_only", fix="an environment has no root: add image_only = true")
    for value in (need.since, need.below):
        if value and not CAPABILITY.match(value):
            raise InputError(f"{where}: {value!r} is not a capability", fix='write it as "10.0"')


def installed(env: Environment, dists: tuple[str, ...], versions: str = "") -> tuple[Distribution, ...]:
    """The distributions of these names and versions that are in the target."""
    wanted = SpecifierSet(versions)
    return tuple(
        dist
        for dist in env.dists
        if dist.name.lower().replace("_", "-") in dists and wanted.contains(dist.version or "0", prereleases=True)
    )


def is_tool(path: str) -> bool:
    """Whether a file of this path is one whose release :func:`tool_release` can tell."""
    return TOOL.search(path) is not None


def tool_release(elf: Elf) -> str:
    """The release a CUDA tool states of itself (``13.0.88``), or empty.

    Only read-only data is searched, at most :data:`MAX_SEARCH_BYTES` of each section.
    """
    for section in elf.sections():
        if section.name in (".rodata", ".lrodata", ".nv_rodata"):
            found = find_release(elf.data, section.offset, section.offset + min(section.size, MAX_SEARCH_BYTES))
            if found:
                return found
    return ""


def find_release(data: Buffer, start: int, end: int) -> str:
    """The release in ``data[start:end]``; empty when the line is not there. Format strings of it are passed over."""
    for _ in range(16):
        start = data.find(RELEASE_MARK, start, end)
        if start < 0:
            return ""
        match = RELEASE.match(data[start : start + 80])
        if match is not None:
            return match[2].decode()
        start += len(RELEASE_MARK)
    return ""


def release_of(env: Environment, path: str) -> str:
    """CUDA release (``13.0``) of the tool or library at ``path``: as its bytes say, else as its CUDA wheel is numbered.

    Empty when neither tells. The version of a wheel counts only for NVIDIA's own parts of the toolkit, which are
    numbered like it.
    """
    stated = next((item.release for item in env.objects if item.path == path and item.release), "")
    if not stated:
        owner = env.owners.get(path, "")
        if owner.startswith(("nvidia-cuda-", "nvidia-nvvm", "nvidia-nvjitlink")):
            stated = next((dist.version for dist in env.dists if dist.name == owner), "")
    match = LIBRARY_MAJOR.match(stated)
    return match[1] if match else ""
