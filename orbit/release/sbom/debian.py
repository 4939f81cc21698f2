"""Debian packages of an image: dpkg's database, held against the files in it."""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.audit.installed.tree import resolve
from orbit.core.findings import Finding, Severity, error_finding
from orbit.core.records import parse_toml
from orbit.errors import InputError
from orbit.image.base.control import paragraphs
from orbit.image.base.root import DebianPackage, package_of
from orbit.image.inspect.owners import INFO, STATUS
from orbit.release.sbom.contents import OWN_DATA, Contents
from orbit.release.sbom.copyright import licence_of
from orbit.release.sbom.knowledge import Knowledge
from orbit.release.sbom.model import Component, tidy
from orbit.release.sbom.purl import purl
from orbit.release.sbom.record import AGAIN

GONE = (" not-installed", " config-files")
"""States of packages that are not there any more."""
RELATION = re.compile(r"^\s*(?P<name>[a-z0-9][a-z0-9+.-]*)")
SHOWN = 5
OS_RELEASE = ("etc/os-release", "usr/lib/os-release")


@dataclass(frozen=True, slots=True)
class Package:
    """One paragraph of dpkg's database."""

    package: DebianPackage
    state: str
    summary: str
    depends: tuple[tuple[str, ...], ...]
    """Names that may satisfy each dependency."""
    provides: tuple[str, ...]
    listed: tuple[str, ...] | None
    """Paths in its list that no other path of it goes through: its files, and folders it leaves empty; None without
    a list."""

    @property
    def ref(self) -> str:
        """The reference of its component."""
        return f"deb:{self.package.name}:{self.package.architecture}"


class Dropped(msgspec.Struct, frozen=True):
    """The part of a base definition that says what is left out."""

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


def release_of(contents: Contents) -> dict[str, str]:
    """os-release(5) of the image; empty without one."""
    text = next((found for path in OS_RELEASE if (found := contents.read(path)) is not None), b"")
    pairs = (line.partition("=") for line in text.decode("utf-8", "replace").splitlines())
    return {key.strip(): tidy(value.strip().strip("\"'")) for key, equals, value in pairs if equals}


def read_packages(contents: Contents) -> tuple[Package, ...]:
    """Every package that dpkg's database has and that is not gone, sorted by name and architecture."""
    status = (contents.read(STATUS) or b"").decode("utf-8", "replace")
    lists = _lists(contents)
    found = []
    for fields in paragraphs(status.split("\n")):
        state = fields.get("Status", "")
        if "Package" not in fields or state.endswith(GONE):
            continue
        package = package_of({"Version": "", **fields})
        lines = lists.get((package.name, package.architecture), lists.get((package.name, "")))
        found.append(
            Package(
                package=package,
                state=state,
                summary=fields.get("Description", "").partition("\n")[0],
                depends=(*_relations(fields.get("Pre-Depends", "")), *_relations(fields.get("Depends", ""))),
                provides=tuple(name for names in _relations(fields.get("Provides", "")) for name in names),
                listed=tuple(_leaves(lines)) if lines is not None else None,
            )
        )
    return tuple(sorted(found, key=lambda item: (item.package.name, item.package.architecture)))


def _lists(contents: Contents) -> dict[tuple[str, str], list[str]]:
    """The lines of every list of files by (package, architecture); the latter is empty where the name has none."""
    found = {}
    for path, text in contents.texts.items():
        match = INFO.match(path)
        if match is not None and match["what"] == "list":
            name = path.rpartition("/")[2].removesuffix(".list")
            plain, _, architecture = name.partition(":")
            found[plain, architecture] = text.decode("utf-8", "surrogateescape").splitlines()
    return found


def _relations(text: str) -> Iterator[tuple[str, ...]]:
    for item in text.split(","):
        names = tuple(match["name"] for part in item.split("|") if (match := RELATION.match(part)))
        if names:
            yield names


def _leaves(lines: Sequence[str]) -> Iterator[str]:
    paths = sorted({line.strip("/") for line in lines} - {"", "."})
    folders = {path.rpartition("/")[0] for path in paths}
    return (path for path in paths if path not in folders)


def components(contents: Contents, packages: Sequence[Package], base: str, known: Knowledge) -> Iterator[Component]:
    """A component for each package; ``base`` is the reference of the system they make up."""
    providers: dict[str, list[str]] = defaultdict(list)
    for item in packages:
        for name in (item.package.name, *item.provides):
            providers[name].append(item.ref)
    release = release_of(contents)
    namespace = release.get("ID", "debian").lower()
    distro = release.get("VERSION_CODENAME", "") or release.get("VERSION_ID", "")
    for item in packages:
        package = item.package
        needs = {next((ref for name in names for ref in providers[name]), "") for names in item.depends} - {
            "",
            item.ref,
        }
        notes = {
            "source-package": package.source,
            "source-version": package.source_version,
            "architecture": package.architecture,
        }
        yield Component(
            ref=item.ref,
            kind="debian",
            name=tidy(package.name),
            version=tidy(package.version),
            purl=purl(
                "deb",
                tidy(package.name),
                tidy(package.version),
                namespace=namespace,
                qualifiers={"arch": tidy(package.architecture), "distro": distro},
            ),
            summary=tidy(item.summary),
            licence=licence_of(contents, package.name, _siblings(item, packages), known),
            inside=base,
            depends=tuple(sorted(needs)),
            notes={key: tidy(value) for key, value in notes.items()},
        )


def _siblings(item: Package, packages: Sequence[Package]) -> list[str]:
    """Names of the packages of the same source and version that a package needs, the nearest first."""
    same = {
        other.package.name: other
        for other in packages
        if (other.package.source, other.package.source_version) == (item.package.source, item.package.source_version)
    }
    pending = [item.package.name]
    for name in pending:
        needs = (need for names in same[name].depends for need in names if need in same)
        pending += [need for need in dict.fromkeys(needs) if need not in pending]
    return pending[1:]


def count(contents: Contents, packages: Sequence[Package]) -> Iterator[Finding]:
    """Packages whose files are not there, or that are not wholly installed."""
    if contents.read(STATUS) is None:
        yield error_finding(
            "sbom-no-dpkg",
            f"/{STATUS}",
            "the image has no database of dpkg: its system packages cannot be known",
            {},
            "keep var/lib/dpkg/status in the base",
        )
    left_out = _left_out(contents)
    for item in packages:
        name = tidy(item.package.name)
        if not item.state.endswith(" installed"):
            yield error_finding(
                "sbom-package-state", name, "dpkg did not finish installing it", {"state": tidy(item.state)}, AGAIN
            )
        if item.listed is None:
            yield error_finding(
                "sbom-package-files", name, "in dpkg's database, without a list of its files", {}, AGAIN
            )
            continue
        gone = [path for path in item.listed if not contents.exists(path)]
        unexplained = [path for path in gone if not left_out(_real(contents, path))]
        if unexplained or (gone and len(gone) == len(item.listed)):
            yield Finding(
                rule="sbom-package-files",
                # a package that the base empties on purpose is told, and does not make the image a wrong one
                severity=Severity.ERROR if unexplained else Severity.NOTE,
                subject=name,
                message=f"in dpkg's database, and {len(gone)} of its {len(item.listed)} files are not in the image"
                + ("" if unexplained else ": its base leaves them out"),
                evidence={"first": tidy(", ".join(f"/{path}" for path in (unexplained or gone)[:SHOWN]))},
                fix=AGAIN if unexplained else "",
            )


def _real(contents: Contents, path: str) -> str:
    """``path`` with the links in its folder followed: ``lib/x`` of a merged system is ``usr/lib/x``."""
    folder, _, name = path.rpartition("/")
    while folder and (found := resolve(contents.tree, folder)) is None:
        folder, _, above = folder.rpartition("/")
        name = f"{above}/{name}"
    return f"{found}/{name}" if folder and found else name


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the bases that the image's own Orbit knows leave out on purpose."""

    definitions: tuple[Dropped, ...]

    def __call__(self, path: str) -> bool:
        """Whether a base leaves out ``path``."""
        return any(
            any(fnmatch.fnmatchcase(path, pattern) for pattern in item.drop)
            and not any(fnmatch.fnmatchcase(path, pattern) for pattern in item.keep)
            for item in self.definitions
        )


def _left_out(contents: Contents) -> LeftOut:
    found = []
    for path, text in sorted(contents.texts.items()):
        match = OWN_DATA.search(f"/{path}")
        if match is not None and match[1] == "containers":
            try:
                found.append(msgspec.convert(parse_toml(text, Path(path)), Dropped))
            except (InputError, msgspec.ValidationError):
                continue  # what it leaves out is not known: its files count as missing
    return LeftOut(tuple(found))
