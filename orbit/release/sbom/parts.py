"""The parts of an image that no package database lists: Orbit's kernels, interpreters, the base system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from orbit.audit.facts import join
from orbit.core.records import compact_json, content_key, parse_toml
from orbit.errors import InputError
from orbit.kernels.manifest import BuildManifest
from orbit.release.sbom.contents import OWN_DATA, Contents
from orbit.release.sbom.debian import Package, release_of
from orbit.release.sbom.knowledge import Knowledge
from orbit.release.sbom.model import Component, Licence, LicenceText, tidy
from orbit.release.sbom.purl import purl
from orbit.release.sbom.record import Stated

LIBRARY_FOLDER = re.compile(r"^(?:(?P<home>.+)/)?lib/python(?P<version>3\.\d{1,3})/os\.py$")
LICENCE_FILE = "lib/python{version}/LICENSE.txt"
BASE = "base"


class Recipe(msgspec.Struct, frozen=True):
    """The part of a recipe that says which distribution it makes."""

    name: str = ""
    dist: str = ""


def kernels(
    contents: Contents, stated: Stated, references: Mapping[str, str], manifests: Sequence[BuildManifest]
) -> Iterator[Component]:
    """A component for each distribution that Orbit compiled, with the device code its build left in it.

    Of ``manifests`` those count whose wheel is, by its sha256, the one the environment record names.
    """
    if stated.record is None:
        return
    recipes = _recipes(contents)
    wheels = {item.name: item.sha256 for item in stated.record.distributions}
    built = {manifest.wheel_sha256: manifest for manifest in manifests}
    for item in stated.record.kernels:
        recipe, sha256 = recipes.get(item.dist, ("", ""))
        notes = {
            "recipe": tidy(recipe),
            "recipe-sha256": sha256,
            "requested": " ".join(item.requested),
            "found": tidy(compact_json(item.found).decode(), 4000),
        } | _origin(built.get(wheels.get(item.dist, "")))
        yield Component(
            ref=f"kernel:{item.dist}",
            kind="kernel",
            name=tidy(item.dist),
            version=tidy(item.version),
            purl=purl("generic", f"{tidy(item.dist)}-kernels", tidy(item.version)),
            licence=Licence(unknown="as the distribution it is in"),
            inside=references.get(item.dist, ""),
            paths=tuple(sorted(f"/{_place(references.get(item.dist, ''), binary.file)}" for binary in item.found)),
            notes={key: value for key, value in notes.items() if value},
        )


def _origin(manifest: BuildManifest | None) -> dict[str, str]:
    """What the build manifest says of source and compiler."""
    if manifest is None:
        return {}
    source = manifest.source
    return {
        "source": f"{source.kind} {tidy(source.url or source.file)} {source.commit}".strip(),
        "source-sha256": source.identity,
        "manifest": content_key(manifest),
        "compiler": tidy(manifest.compiler),
    }


def _place(reference: str, file: str) -> str:
    return tidy(join(reference.strip("/").rpartition("/")[0], file), 1000)


def _recipes(contents: Contents) -> dict[str, tuple[str, str]]:
    """(name, sha256 of the file) of the recipe of each distribution, from the data of the Orbit in the image."""
    found = {}
    for path, text in sorted(contents.texts.items()):
        match = OWN_DATA.search(f"/{path}")
        if match is None or match[1] != "kernels/recipes":
            continue
        try:
            recipe = msgspec.convert(parse_toml(text, Path(path)), Recipe)
        except (InputError, msgspec.ValidationError):
            continue
        found[recipe.dist or recipe.name] = (recipe.name, contents.sha256(path))
    return found


def interpreters(contents: Contents, stated: Stated, known: Knowledge) -> Iterator[Component]:
    """A component for each CPython that no Debian package owns, by its standard library."""
    for path in sorted(contents.tree.entries):
        match = LIBRARY_FOLDER.match(path) if path.endswith("/os.py") else None
        if match is None or contents.owners.of(path).kind == "debian":
            continue
        home = match["home"] or ""
        own = stated.record is not None and home == stated.home
        version = stated.record.python if own and stated.record is not None else ""
        place = join(home, LICENCE_FILE.format(version=match["version"]))
        fact = contents.tree.entries.get(place)
        texts = (LicenceText(path=f"/{place}", sha256=contents.sha256(place), size=fact.size),) if fact else ()
        spdx = known.texts.get(texts[0].sha256, "") if texts else ""
        why = "" if spdx else "no metadata says it, and its licence text is not one of those known"
        notes = {"series": match["version"], "tree": stated.record.interpreter if own and stated.record else ""}
        yield Component(
            ref=f"/{join(home, 'lib/python' + match['version'])}",
            kind="interpreter",
            name="cpython",
            version=version,
            purl=purl("generic", "cpython", version),
            licence=Licence(expression=spdx, unknown=why, texts=texts),
            depends=tuple(_system(contents, stated)) if own else (),
            paths=(f"/{join(home, 'lib/python' + match['version'])}",),
            notes={key: value for key, value in notes.items() if value},
        )


def _system(contents: Contents, stated: Stated) -> list[str]:
    """References of the Debian packages whose libraries the interpreter loads."""
    sonames = set(stated.record.system_libraries) if stated.record else set()
    names = {
        contents.owners.of(path).name
        for path, item in contents.objects.items()
        if item.dynamic is not None and item.dynamic.soname in sonames and contents.owners.of(path).kind == "debian"
    }
    return sorted(names)


def base(contents: Contents, packages: tuple[Package, ...]) -> Component | None:
    """The system the image stands on, as its os-release names it; None for an image without one."""
    release = release_of(contents)
    if not release and not packages:
        return None
    layers = sorted(
        {contents.layers[path] for path in contents.layers if path in ("var/lib/dpkg/status", "usr/lib/os-release")}
    )
    diff_ids = " ".join(contents.ref.layers[number].diff_id for number in layers)
    name = release.get("ID", "system")
    return Component(
        ref=BASE,
        kind=BASE,
        name=name,
        version=release.get("VERSION_ID", ""),
        summary=release.get("PRETTY_NAME", ""),
        licence=Licence(unknown="the licences of its packages"),
        notes={"layers": diff_ids, "codename": release.get("VERSION_CODENAME", "")},
    )
