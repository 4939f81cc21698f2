"""Whether the files uv installed are the bytes their wheels state.

uv copies from its cache, and what lies in a cache can have been written to since: a program that edits an installed
file edits the cache too where the two are hard links, and hosts behind a TLS-inspecting proxy run such programs at
every Python start (they add a certificate to certifi's bundle). Such a change must not reach an image.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from pathlib import Path

from packaging.utils import canonicalize_name

from orbit.audit.installed.dists import installed_dists
from orbit.audit.installed.hashing import Hashing
from orbit.audit.installed.tree import find_layout


def drifted(
    prefix: Path, python: str, *, contested: Container[str], only: Collection[str] | None = None
) -> dict[str, tuple[str, ...]]:
    """Names of distributions (of ``only``, by default of all) with files that differ from their RECORD: which files.

    ``contested`` paths (relative to site-packages) have several owners and are settled elsewhere. Call it before
    anything rewrites scripts or RECORD files. Raises :class:`orbit.errors.InputError` for a folder that is none.
    """
    layout = find_layout(prefix, python)
    dists = [dist for dist in installed_dists(layout) if only is None or canonicalize_name(dist.name) in only]
    digests = Hashing(layout.prefix, dists).result()
    found: dict[str, tuple[str, ...]] = {}
    for dist in dists:
        paths = tuple(
            row.path
            for row in dist.rows
            if row.path in digests
            and digests[row.path] != row.digest
            and row.path.removeprefix(f"{layout.site}/") not in contested
        )
        if paths:
            found[canonicalize_name(dist.name)] = paths
    return found
