"""A new lock: what the archive has today for a definition, with every signature checked."""

from __future__ import annotations

import email.utils
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core.console import Progress, Silent
from orbit.core.fetch import fetch
from orbit.core.files import remove_tree
from orbit.core.store import Store
from orbit.errors import CheckFailed, InputError, MissingError
from orbit.image.base.apt import KEYRING, Archive, Repository, host_repositories
from orbit.image.base.control import paragraphs, source_of
from orbit.image.base.definition import ARCHITECTURE, BaseDefinition
from orbit.image.base.lock import SCHEMA, BaseLock, LockedPackage, Release
from orbit.image.base.places import SECURITY, VARIABLE, mirrors

INTERESTING = ("Package", "Version", "Architecture", "Source", "Filename", "Size", "SHA256", "Essential", "Priority")


@dataclass(frozen=True, slots=True)
class Today:
    """What the archive has now."""

    lock: BaseLock
    """What a refresh would lock."""
    listed: frozenset[str]
    """sha256 of every package in its indexes."""


def find_repositories(definition: BaseDefinition, scratch: Path) -> tuple[Repository, ...]:
    """One repository for each suite of the definition: from the mirrors that are named, else of the host's apt.

    Raises :class:`MissingError` for a suite that nobody has: a lock without security updates must not look complete.
    """
    named = mirrors()
    found = _on_mirrors(definition, named, scratch) if named else host_repositories(definition)
    by_suite = {each.suite: each for each in reversed(found)}
    missing = [suite for suite in definition.suites if suite not in by_suite]
    if missing:
        raise MissingError(
            f"no archive has {', '.join(missing)} (sought at {', '.join(named) or 'the archives of this apt'})",
            fix=f"name mirrors in {VARIABLE}, separated by blanks: one with `dists/{definition.suite}`, and one with "
            "the security updates if they lie elsewhere",
        )
    return tuple(by_suite[suite] for suite in definition.suites)


def _on_mirrors(definition: BaseDefinition, urls: Sequence[str], scratch: Path) -> list[Repository]:
    """Which suites the mirrors have. Only whether there is a Release file is asked; apt reads and checks it later."""
    found, problems = [], []
    for suite in definition.suites:
        for url in sorted(urls, key=lambda url: ("security" in url) != suite.endswith(SECURITY)):
            base = f"{url.rstrip('/')}/"
            try:
                fetch(f"{base}dists/{suite}/InRelease", "", scratch / "probe", Silent())
            except CheckFailed:  # something came, and nothing has an empty sha256
                found.append(Repository(url=base, suite=suite))
                break
            except MissingError as error:
                problems.append(f"{base}: {error.what}")
    if not found and problems:
        raise MissingError("\n".join(dict.fromkeys(problems)), fix=f"correct {VARIABLE}, or look at the network")
    return found


def resolve(
    definition: BaseDefinition,
    store: Store,
    progress: Progress,
    *,
    keyring: Path | None = None,
    expired: bool = False,
    repositories: Sequence[Repository] | None = None,
) -> Today:
    """The lock that the archive gives today. Nothing is written.

    ``keyring`` is by default Debian's. ``expired`` takes a Release file although its time is over, as that of a
    snapshot always is.

    Raises :class:`InputError` for a signature or a hash that is wrong, and for packages the archive has not;
    :class:`MissingError` when it cannot be reached.
    """
    scratch = store.scratch("refresh")
    try:
        places = find_repositories(definition, scratch) if repositories is None else tuple(repositories)
        archive = Archive(scratch / "apt", definition, keyring=keyring or KEYRING, expired=expired)
        progress.step(f"base: reading {', '.join(each.suite for each in places)}")
        archive.update(places)
        return read_archive(archive, definition)
    finally:
        remove_tree(scratch)


def read_archive(archive: Archive, definition: BaseDefinition) -> Today:
    """What indexes have for a definition that apt has fetched and verified."""
    indexes = list(archive.indexes())
    fields = {suite: list(_read_index(path)) for suite, path in indexes}
    standard = sorted(_standard(fields.get(definition.suite, ()), definition))
    chosen = archive.choose([*standard, *definition.packages])
    files: dict[tuple[str, str], list[tuple[str, dict[str, str]]]] = {}
    for suite in definition.suites:
        for each in fields.get(suite, ()):
            if chosen.get(each["Package"]) == each["Version"]:
                files.setdefault((each["Package"], each["Version"]), []).append((suite, each))
    packages = []
    for name, version in sorted(chosen.items()):
        known = files.get((name, version))
        if not known:
            raise InputError(f"{name} {version}: in no index, though apt chose it", fix="run the same command again")
        packages.append(_locked(known, name))
    lock = BaseLock(
        schema=SCHEMA,
        definition=definition.resolved_from,
        architecture=ARCHITECTURE,
        archives=tuple(_release(archive, suite) for suite in definition.suites),
        packages=tuple(packages),
    )
    return Today(lock=lock, listed=frozenset(each["SHA256"] for every in fields.values() for each in every))


def _read_index(path: Path) -> Iterator[dict[str, str]]:
    """Paragraphs of a ``Packages`` file, only the fields that are needed: the file has 50 MB."""
    heads = tuple(f"{name}:" for name in INTERESTING)
    with open(path, encoding="utf-8") as file:
        yield from paragraphs(line for line in file if line.startswith(heads) or line == "\n")


def _standard(fields: Iterable[dict[str, str]], definition: BaseDefinition) -> set[str]:
    """Names of what the variant has whatever ``packages`` say."""
    names = {"apt"} if definition.variant == "minbase" else set()
    for each in fields:
        required = definition.variant == "minbase" and each.get("Priority") == "required"
        if each.get("Essential") == "yes" or required:
            names.add(each["Package"])
    return names


def _locked(known: Sequence[tuple[str, dict[str, str]]], name: str) -> LockedPackage:
    """One package from the suites that have it: the file is taken from the first, and all must say the same of it."""
    suite, fields = known[0]
    if len({each["SHA256"] for _, each in known}) > 1:
        raise InputError(
            f"{name} {fields['Version']}: {' and '.join(suite for suite, _ in known)} have different files of it",
            fix="one of these archives is not Debian's: name others in ORBIT_DEBIAN",
        )
    source, source_version = source_of(fields)
    return LockedPackage(
        name=name,
        version=fields["Version"],
        architecture=fields["Architecture"],
        source=source,
        source_version=source_version,
        archive=suite,
        security=any(suite.endswith(SECURITY) for suite, _ in known),
        file=fields["Filename"].removeprefix("./"),
        size=int(fields["Size"]),
        sha256=fields["SHA256"],
    )


def _release(archive: Archive, suite: str) -> Release:
    fields = archive.release(suite)
    return Release(
        suite=suite,
        codename=fields.get("Codename", ""),
        label=fields.get("Label", ""),
        version=fields.get("Version", ""),
        date=_iso(fields.get("Date", "")),
        security=suite.endswith(SECURITY),
    )


def _iso(date: str) -> str:
    """``Sun, 29 Nov 2026 00:53:13 UTC`` as ``2026-11-29T00:53:13Z``."""
    try:
        moment = email.utils.parsedate_to_datetime(date)
    except ValueError:
        raise InputError(
            f"a Release file says Date: {date!r}", fix="this is no archive to take packages from"
        ) from None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
