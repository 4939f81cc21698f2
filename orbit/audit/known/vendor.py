"""What is known of NVIDIA's own libraries whatever the profile: ``kernels/expectations/vendor.toml``.

A profile's expectations are about one environment and can be stale. These are about libraries as such: cuBLAS picks its
kernels by device in a CUDA 12 wheel, below ``/usr/local/cuda``, in a conda package and as a private copy in another
wheel, so they are told by the name of the file.
"""

from __future__ import annotations

from functools import cache, lru_cache

from orbit.audit.binary.coverage import Result
from orbit.audit.known.knowledge import matcher, plain_name
from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError


class Choosing(Record, frozen=True, kw_only=True):
    """Libraries that choose among their own containers by architecture at run time."""

    names: tuple[str, ...]
    """Shell patterns over the file's name (:func:`orbit.audit.known.knowledge.plain_name`)."""
    reason: str


class Accepted(Record, frozen=True, kw_only=True):
    """Libraries that are right although containers of them have no machine code for a device."""

    names: tuple[str, ...]
    results: tuple[Result, ...]
    """What a container may be."""
    reason: str


class Unshipped(Record, frozen=True, kw_only=True):
    """Plug-ins that need what a system has or has not."""

    names: tuple[str, ...]
    sonames: tuple[str, ...]
    """Shell patterns."""
    reason: str


class Vendor(Record, frozen=True, kw_only=True):
    """``vendor.toml``."""

    schema: int
    dispatching: tuple[Choosing, ...]
    accepted: tuple[Accepted, ...]
    absent: tuple[Unshipped, ...]


@cache
def vendor() -> Vendor:
    """The data. Raises :class:`InputError` naming file and entry."""
    path = data_file("kernels", "expectations", "vendor.toml")
    found = load_toml(path, Vendor)
    if found.schema != 1:
        raise InputError(f"{path}: schema {found.schema} is not known", fix="this version of orbit reads schema 1")
    return found


def _name(path: str) -> str:
    return plain_name(path.rpartition("/")[2])


@lru_cache(maxsize=65536)
def chooses(path: str) -> bool:
    """Whether the library at ``path`` is known to choose among its containers."""
    return any(matcher(item.names)(_name(path)) for item in vendor().dispatching)


@lru_cache(maxsize=65536)
def accepted(path: str, result: Result) -> Accepted | None:
    """The entry that says why containers of the library at ``path`` may be ``result`` for a device."""
    name = _name(path)
    return next((item for item in vendor().accepted if result in item.results and matcher(item.names)(name)), None)


def unshipped(path: str, soname: str) -> Unshipped | None:
    """The entry that says why the file at ``path`` may lack ``soname``."""
    name = _name(path)
    entries = vendor().absent
    return next((item for item in entries if matcher(item.names)(name) and matcher(item.sonames)(soname)), None)
