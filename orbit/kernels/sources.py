"""Sources of recipes: sdists of the lock by sha256, or folders under kernels/src by tree hash."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.fetch import fetch
from orbit.core.files import tree_hash
from orbit.core.records import Record
from orbit.core.store import Entry, Store
from orbit.errors import InputError
from orbit.kernels.recipe import Recipe
from orbit.profile.lock import Lock

FORMAT = 1


class Source(Record, frozen=True, kw_only=True):
    """The exact source of one build."""

    kind: str
    version: str
    sha256: str
    """Of the sdist, or the tree hash of a local folder."""
    file: str = ""
    """File name of the sdist, or folder of a local source relative to the checkout."""
    url: str = ""


def resolve_source(recipe: Recipe, lock: Lock, root: Path) -> Source:
    """What the recipe's source is right now. Raises :class:`InputError` when lock or checkout do not have it."""
    if recipe.source.kind == "local":
        folder = root / "kernels" / "src" / recipe.source.folder
        if not folder.is_dir():
            raise InputError(
                f"{folder}: no such folder (source of recipe {recipe.name})",
                fix="correct source.folder in the recipe, or restore the folder from the repository",
            )
        return Source(
            kind="local",
            version=recipe.source.version,
            sha256=tree_hash(folder),
            file=str(folder.relative_to(root)),
        )
    package = lock.package(recipe.dist)
    if package.sdist is None or not package.sdist.sha256:
        raise InputError(
            f"{lock.path}: {recipe.dist} {package.version} has no sdist with a sha256",
            fix="lock a release that has one, or give the recipe another kind of source",
        )
    return Source(
        kind="sdist",
        version=package.version,
        sha256=package.sdist.sha256,
        file=package.sdist.filename,
        url=package.sdist.url,
    )


def obtain_sdist(source: Source, store: Store, progress: Progress) -> Entry:
    """The sdist in the store, fetched when it is not there. An interrupted download goes on where it stopped."""
    downloads = store.root / "downloads"

    def work(folder: Path) -> dict[str, Any]:
        progress.step(f"fetching {source.file}")
        arrived = fetch(source.url, source.sha256, downloads / f"{source.sha256}.part", progress)
        arrived.rename(folder / source.file)
        return {"file": source.file}

    return store.obtain("sdist", {"format": FORMAT, "file": source.file, "sha256": source.sha256}, work)


def unpack_sdist(archive: Path, folder: Path) -> None:
    """Unpack an sdist so that its files lie directly in ``folder``.

    Raises :class:`InputError` for an archive that is not an sdist; members that would leave the folder are refused.
    """
    staging = folder.with_name(folder.name + ".unpack")
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(staging, filter="data")
    except tarfile.TarError as error:
        raise InputError(f"{archive.name}: not a usable sdist: {error}", fix="lock another release") from None
    entries = list(staging.iterdir())
    if len(entries) != 1 or not entries[0].is_dir():
        raise InputError(f"{archive.name}: an sdist holds one folder, this has {len(entries)} entries")
    entries[0].rename(folder)
    staging.rmdir()
