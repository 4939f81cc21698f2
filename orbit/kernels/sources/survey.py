"""What a profile's recipes need, and where it is: in the checkout, the store, ``ORBIT_SOURCES``, or not at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orbit.core.records import Record
from orbit.core.store import Store
from orbit.errors import OrbitError
from orbit.kernels.recipe import load_recipe
from orbit.kernels.sources.archives import archive_inputs, archive_kind, archive_path, check_archive
from orbit.kernels.sources.model import Pin, Source, resolve_source
from orbit.kernels.sources.places import find_file, find_repositories, source_folders
from orbit.kernels.sources.repositories import KIND, REPOSITORY, commit_inputs, place_has
from orbit.profile.model import Profile
from orbit.profile.place import profile_lock


@dataclass(frozen=True, slots=True)
class Needed:
    """One file, folder or commit of one recipe."""

    recipe: str
    source: Source
    pin: Pin | None = None
    """The commit, for git: a recipe needs one for itself and one for each submodule."""


class Need(Record, frozen=True, kw_only=True):
    """The same for people and programs, with where it is."""

    recipe: str
    kind: str
    """``sdist``, ``wheel``, ``git`` or ``local``."""
    version: str
    file: str = ""
    """File name of an sdist or wheel; folder of a local source in the checkout."""
    sha256: str = ""
    """Of that file or folder."""
    url: str = ""
    submodule: str = ""
    """Where in the source it belongs, for a submodule."""
    commit: str = ""
    tree: str = ""
    where: Literal["checkout", "store", "sources", "fetch"]
    """``sources``: a folder of ``ORBIT_SOURCES``. ``fetch``: not at hand."""
    place: str = ""
    """The path it was found at."""
    problem: str = ""
    """Why something that looks right cannot be used: damaged, another file of the same name, no git."""

    @property
    def name(self) -> str:
        """How to call it in one word or two."""
        return self.file or f"{self.url} {self.commit}"


def needed(profile: Profile, root: Path, *, tier: str) -> tuple[Needed, ...]:
    """Everything the profile's recipes are made of, by recipes, lock and checkout; ``tier`` is ``core`` or ``all``."""
    lock = profile_lock(profile, root)
    names = (*profile.kernels.core, *(profile.kernels.extended if tier == "all" else ()))
    return tuple(need for name in names for need in _parts(name, resolve_source(load_recipe(name), lock, root)))


def _parts(recipe: str, source: Source) -> Iterator[Needed]:
    for pin in source.pins:
        yield Needed(recipe, source, pin)
    if not source.pins:
        yield Needed(recipe, source)


def survey(
    profile: Profile, root: Path, store: Store, *, tier: str, folders: tuple[Path, ...] | None = None
) -> tuple[Need, ...]:
    """Where everything is that the profile's recipes need; nothing is fetched.

    ``folders`` are by default those of ``ORBIT_SOURCES``. Files found there are hashed and mirrors asked for the
    commit, so that "at hand" means usable.
    """
    places = source_folders() if folders is None else folders
    return tuple(look(need, store, places, root) for need in needed(profile, root, tier=tier))


def look(need: Needed, store: Store, folders: tuple[Path, ...], root: Path) -> Need:
    """Where one of them is."""
    source, pin = need.source, need.pin
    if pin is not None:
        where, path, problem = _commit(pin, store, folders)
    elif source.kind == "local":
        where, path, problem = "checkout", root / source.file, ""
    else:
        where, path, problem = _archive(source, store, folders)
    return Need(
        recipe=need.recipe,
        kind=source.kind,
        version=source.version,
        file=source.file,
        sha256="" if pin else source.sha256,
        url=pin.url if pin else source.url,
        submodule=pin.path if pin else "",
        commit=pin.commit if pin else "",
        tree=pin.tree if pin else "",
        where=where,
        place=str(path or ""),
        problem=problem,
    )


type _Where = tuple[Literal["checkout", "store", "sources", "fetch"], Path | None, str]
"""Kind of place, path, and why something there cannot be used."""


def _archive(source: Source, store: Store, folders: tuple[Path, ...]) -> _Where:
    entry = store.find(archive_kind(source), archive_inputs(source))
    if entry is not None:
        return "store", archive_path(entry.path, source), ""
    own = find_file(folders, source.file)
    if own is None:
        return "fetch", None, ""
    try:
        check_archive(own, source)
    except OrbitError as error:
        return "fetch", None, error.what
    return "sources", own, ""


def _commit(pin: Pin, store: Store, folders: tuple[Path, ...]) -> _Where:
    entry = store.find(KIND, commit_inputs(pin))
    if entry is not None:
        return "store", entry.path / REPOSITORY, ""
    problem = ""
    for place in find_repositories(folders, pin):
        try:
            if place_has(place, pin, store):
                return "sources", place.path, ""
        except OrbitError as error:
            problem = problem or error.what
    return "fetch", None, problem
