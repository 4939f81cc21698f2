"""What can be said of anybody's lock: is every file fixed by content, from one place, installable on the platform.

The rules of Orbit's own lock (``orbit.profile.rules``) also compare it with ``env/lock-policy.toml``; these here need
no policy. Both use the same ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from packaging.specifiers import SpecifierSet

from orbit.audit.locks.lock_formats import Listed
from orbit.audit.locks.sdist import SdistFacts
from orbit.core.findings import Finding, Severity
from orbit.profile.lock import Package
from orbit.profile.model import Profile

COMMIT = re.compile(r"^[0-9a-f]{40}$|^[0-9a-f]{64}$")
SOURCE_OPTION = re.compile(r"^(-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host|--no-index)\b")
SHOWN = 6


def generic_findings(listed: Listed, profile: Profile) -> Iterator[Finding]:
    """Findings about a lock that no policy of Orbit is about."""
    yield from _fixed(listed)
    yield from _places(listed)
    if listed.format != "requirements":
        yield from _wheels(listed.packages, profile)
    if listed.lock is not None:
        yield from _python(listed.lock.requires_python, profile)


def _fixed(listed: Listed) -> Iterator[Finding]:
    """``lock-hash``: every file by sha256, every repository by commit."""
    bare = [p.name for p in listed.packages if _is_bare(p)]
    if listed.format == "requirements":
        bare = [*listed.unhashed]
    if bare:
        yield Finding(
            rule="lock-hash",
            severity=Severity.WARNING,
            subject=listed.path.name,
            message=f"{len(bare)} packages are not fixed by sha256: the index decides what is installed",
            evidence={"packages": _some(bare)},
            fix="make the lock anew with hashes (uv lock, uv export, pip-compile --generate-hashes)",
        )
    if listed.unpinned:
        yield Finding(
            rule="lock-hash",
            severity=Severity.WARNING,
            subject=listed.path.name,
            message=f"{len(listed.unpinned)} lines name no one version: this is a request, not a lock",
            evidence={"lines": _some(listed.unpinned)},
            fix="lock it: uv pip compile --generate-hashes",
        )
    for package in listed.packages:
        if package.source.kind == "git" and not COMMIT.match(package.source.commit):
            yield Finding(
                rule="lock-hash",
                severity=Severity.ERROR,
                subject=package.name,
                message="from a repository without a commit: whatever is there on the day is installed",
                evidence={"source": _public(package.source.url)},
                fix="name the full commit",
            )


def _is_bare(package: Package) -> bool:
    used = package.wheel or package.sdist
    return package.source.kind in ("registry", "url", "path") and used is not None and not used.sha256


def _places(listed: Listed) -> Iterator[Finding]:
    """``lock-source``: transport that anybody on the way can change, and names that two places may serve."""
    urls = [(p.name, artifact.url) for p in listed.packages for artifact in (p.wheel or p.sdist,) if artifact]
    plain = sorted({name for name, url in urls if url.startswith("http://")})
    if plain:
        yield Finding(
            rule="lock-source",
            severity=Severity.NOTE,
            subject=listed.path.name,
            message=f"{len(plain)} packages come over plain HTTP",
            evidence={"packages": _some(plain)},
            fix="use HTTPS; with sha256 in the lock a changed file is refused, without it is installed",
        )
    options = [line for line in listed.options if SOURCE_OPTION.match(line)]
    if any(line.startswith(("--extra-index-url", "--find-links", "-f")) for line in options):
        yield Finding(
            rule="lock-source",
            severity=Severity.WARNING,
            subject=listed.path.name,
            message="names are looked up in several places: the highest version anywhere wins, whoever uploaded it",
            evidence={"options": _some(_public(line) for line in options)},
            fix="use one index, or a lock that names the file and its sha256",
        )
    places = Counter(p.source.url for p in listed.packages if p.source.kind == "registry" and p.source.url)
    if len(places) > 1:
        counts = ", ".join(f"{count} from {_public(url)}" for url, count in places.most_common(SHOWN))
        yield Finding(
            rule="lock-source",
            severity=Severity.NOTE,
            subject=listed.path.name,
            message=f"packages come from {len(places)} indexes",
            evidence={"indexes": counts},
            fix="nothing, when each is meant; otherwise name the index of each package explicitly",
        )


def _wheels(packages: Iterable[Package], profile: Profile) -> Iterator[Finding]:
    """``lock-wheel``: what has no wheel here is compiled while installing, or cannot be installed at all."""
    built = [p for p in packages if p.built and p.sdist is not None]
    stuck = [p for p in packages if p.built and p.sdist is None and p.wheels]
    if built:
        yield Finding(
            rule="lock-wheel",
            severity=Severity.NOTE,
            subject=", ".join(p.name for p in built[:SHOWN]),
            message=f"{len(built)} packages have no wheel for CPython {profile.python} on Linux x86-64: to be compiled",
            evidence={"packages": _some(f"{p.name} {p.version}" for p in built)},
            fix="build them once, on a machine with the compiler, into wheels",
        )
    for package in stuck:
        yield Finding(
            rule="lock-wheel",
            severity=Severity.ERROR,
            subject=package.name,
            message=f"no wheel for CPython {profile.python} on Linux x86-64 with glibc 2.36, and no source archive",
            evidence={"wheels": _some(wheel.filename for wheel in package.wheels)},
            fix="take a version with a wheel for this platform",
        )


def _python(requires: str, profile: Profile) -> Iterator[Finding]:
    """``lock-python``: a lock for another Python is judged for one that it does not install."""
    if requires and not SpecifierSet(requires).contains(f"{profile.python}.99"):
        yield Finding(
            rule="lock-python",
            severity=Severity.WARNING,
            subject=profile.name,
            message=f"the lock is for Python {requires}; judged for {profile.python}, for which it installs nothing",
            fix="choose a profile for that Python",
        )


def sdist_findings(packages: Iterable[Package], sdists: Mapping[str, SdistFacts]) -> Iterator[Finding]:
    """``lock-sdist``: source archives that cannot be built because their sources were left out."""
    for package in packages:
        facts = sdists.get(package.sdist.filename) if package.sdist and package.built else None
        if facts is not None and facts.hollow:
            yield Finding(
                rule="lock-sdist",
                severity=Severity.ERROR,
                subject=package.name,
                message=f"its setup.py names {len(facts.named)} native sources, and none of them is in the archive",
                evidence={"version": package.version, "sources": _some(facts.absent)},
                fix="take it from its repository at a fixed commit",
            )


def _some(items: Iterable[str]) -> str:
    every = list(dict.fromkeys(items))
    rest = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + rest


def _public(url: str) -> str:
    """A URL without credentials."""
    return re.sub(r"//[^/@\s]*@", "//", url)
