"""Python distributions of an image: every dist-info folder, held against the environment record and its own RECORD."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from orbit.audit.facts import Distribution, join
from orbit.audit.images.image_layout import CACHE, SITE
from orbit.audit.installed.dists import read_dist, read_headers
from orbit.core.findings import Finding, error_finding
from orbit.env.record import Distribution as Wanted
from orbit.image.inspect.kinds import LICENCE, MAY_BE_NAMED
from orbit.image.inspect.owners import DEBIAN, PYTHON
from orbit.release.sbom.contents import Contents
from orbit.release.sbom.knowledge import Knowledge
from orbit.release.sbom.licences import licence_of
from orbit.release.sbom.model import Component, Licence, LicenceText, tidy
from orbit.release.sbom.purl import purl
from orbit.release.sbom.record import AGAIN, Stated

OWN = "orbit"
"""The distribution that an image has and no environment record names: Orbit itself is a layer of its own."""
NO_TEXTS = (".py", ".pyc", ".pyi", ".so", ".h")
SHOWN = 5


def installed(contents: Contents) -> tuple[Distribution, ...]:
    """Every dist-info folder of the image, those inside other distributions as well, in order of folder."""
    folders = sorted(
        path
        for path, fact in contents.tree.entries.items()
        if path.endswith(".dist-info") and fact.is_folder and not CACHE.search(path)
    )
    return tuple(read_dist(folder, contents.read) for folder in folders)


def is_top(dist: Distribution) -> bool:
    """Whether it lies in a site-packages folder, and not inside a distribution."""
    return SITE.match(dist.site) is not None and dist.site.count("/site-packages") + dist.site.count("-packages/") <= 1


def reference(dist: Distribution) -> str:
    """The reference of a distribution: unique by its folder."""
    return f"/{dist.folder}"


def components(
    contents: Contents, dists: Sequence[Distribution], stated: Stated, known: Knowledge
) -> Iterator[Component]:
    """A component for each of ``dists``, without what it depends on."""
    wanted = {item.name: item for item in stated.record.distributions} if stated.record else {}
    tops = {dist.name: reference(dist) for dist in dists if is_top(dist)}
    below: dict[str, list[str]] = defaultdict(list)
    for path in contents.tree.entries:
        folder, mark, _ = path.partition(".dist-info/")
        if mark:
            below[f"{folder}.dist-info"].append(path)
    for dist in dists:
        headers = read_headers(contents.read(f"{dist.folder}/METADATA"))
        top = is_top(dist)
        item = wanted.get(dist.name) if top else None
        owner = contents.owners.of(f"{dist.folder}/METADATA")
        notes = {"origin": item.origin, "wheel": item.wheel} if item else {}
        if owner.kind == DEBIAN:
            notes["debian-package"] = owner.name
        texts, missing = _texts(contents, dist, headers, below[dist.folder])
        yield Component(
            ref=reference(dist),
            kind=OWN if top and dist.name == OWN else "python" if top else "vendored-python",
            name=tidy(dist.name),
            version=tidy(dist.version),
            purl=purl("pypi", tidy(dist.name), tidy(dist.version)),
            sha256=item.sha256 if item else "",
            summary=tidy(dist.summary),
            licence=licence_of(dist.name, dist.version, headers=headers, texts=texts, missing=missing, known=known)
            if headers
            else UNREADABLE,
            inside=tops.get(owner.name, "") if not top and owner.kind == PYTHON else "",
            paths=(f"/{dist.folder}",),
            notes=notes,
        )


UNREADABLE = Licence(unknown="METADATA cannot be read")


def _texts(
    contents: Contents, dist: Distribution, headers: Mapping[str, list[str]], below: Sequence[str]
) -> tuple[list[LicenceText], list[str]]:
    """(licence files of a distribution, names of those its metadata lists and that are not there)."""
    paths = {path for path in below if "/licenses/" in path or _is_text(path)}
    paths |= {row.path for row in dist.rows if _is_text(row.path)}
    missing = []
    for name in headers.get("license-file", ()):
        places = [join(dist.folder, "licenses", name), join(dist.folder, name)]
        found = next((place for place in places if contents.exists(place)), None)
        if found is None:
            missing.append(tidy(name))
        else:
            paths.add(found)
    texts = []
    for path in sorted(paths):
        fact = contents.tree.entries.get(path)
        if fact is not None and not fact.is_folder:
            texts.append(LicenceText(path=tidy(f"/{path}", 1000), sha256=contents.sha256(path), size=fact.size))
    return texts, missing


def _is_text(path: str) -> bool:
    return MAY_BE_NAMED.search(path) is not None and LICENCE.search(path) is not None and not path.endswith(NO_TEXTS)


def count(contents: Contents, dists: Sequence[Distribution], stated: Stated) -> Iterator[Finding]:
    """What the record, the dist-info folders and the files say differently."""
    tops = [dist for dist in dists if is_top(dist)]
    if not tops:
        yield error_finding("sbom-no-python", "*.dist-info", "no installed Python distribution in the image", {}, AGAIN)
    if stated.record is not None:
        yield from _against_record(contents, tops, stated, {item.name: item for item in stated.record.distributions})
    for dist in dists:
        if is_top(dist):
            yield from _files(contents, dist)


def _against_record(
    contents: Contents, tops: Sequence[Distribution], stated: Stated, wanted: Mapping[str, Wanted]
) -> Iterator[Finding]:
    lead = f"{stated.home}/" if stated.home else ""
    found: dict[str, list[Distribution]] = defaultdict(list)
    for dist in tops:
        if dist.folder.startswith(lead):
            found[dist.name].append(dist)
    for name, item in wanted.items():
        if name not in found:
            yield error_finding(
                "sbom-dist-missing",
                name,
                "the environment record names it, and the image has no dist-info of it",
                {"version": item.version, "wheel": item.wheel},
                AGAIN,
            )
    for name, dists in found.items():
        versions = sorted({dist.version for dist in dists})
        if len(dists) > 1:
            folders = ", ".join(tidy(dist.folder) for dist in dists)
            yield error_finding("sbom-dist-twice", name, "more than one dist-info of it", {"folders": folders}, AGAIN)
        if name in wanted and versions != [wanted[name].version]:
            yield error_finding(
                "sbom-dist-version",
                name,
                "another version than the environment record names",
                {"record": wanted[name].version, "image": tidy(", ".join(versions))},
                AGAIN,
            )
    yield from _strangers(contents, tops, wanted, lead)


def _strangers(
    contents: Contents, tops: Sequence[Distribution], wanted: Mapping[str, Wanted], lead: str
) -> Iterator[Finding]:
    """Distributions that the record does not name, but Orbit itself and those of Debian packages."""
    for dist in tops:
        here = dist.folder.startswith(lead)
        if here and (dist.name in wanted or dist.name == OWN):
            continue
        if contents.owners.of(f"{dist.folder}/METADATA").kind != DEBIAN:
            yield error_finding(
                "sbom-dist-unrecorded",
                tidy(dist.name),
                "in the image, and not in the environment record",
                {"version": tidy(dist.version), "folder": tidy(f"/{dist.folder}")},
                "install it through the lock, or leave it out",
            )


def _files(contents: Contents, dist: Distribution) -> Iterator[Finding]:
    """Whether a distribution is what its dist-info says: readable metadata, every listed file there."""
    if contents.read(f"{dist.folder}/METADATA") is None:
        yield error_finding(
            "sbom-dist-unreadable",
            tidy(dist.name),
            "no METADATA that can be read",
            {"folder": tidy(dist.folder)},
            AGAIN,
        )
    if not dist.rows:
        debian = contents.owners.of(f"{dist.folder}/METADATA").kind == DEBIAN
        if not debian:
            yield error_finding(
                "sbom-dist-unreadable",
                tidy(dist.name),
                "no RECORD that lists its files",
                {"problem": tidy(dist.problem)},
                AGAIN,
            )
        return
    gone = [row.path for row in dist.rows if not contents.exists(row.path)]
    if gone:
        yield error_finding(
            "sbom-dist-files",
            tidy(dist.name),
            f"{len(gone)} of {len(dist.rows)} files of its RECORD are not in the image",
            {"first": tidy(", ".join(f"/{path}" for path in gone[:SHOWN]))},
            AGAIN,
        )
