"""Hold nix/wheels.toml against what is installed: which wheel asks the loader for whose library, who owns a file twice.

    .venv/bin/python -m tests.nix.needs PREFIX [PROFILE]

PREFIX is an environment that `orbit env create` made (site-packages with the RECORD of every distribution), PROFILE its
profile (default: cu130). Prints one line per thing that Nix would not know, and nothing when it knows all.
Exit status: 0 nothing to say; 1 lines were printed; 2 not an environment.
"""

from __future__ import annotations

import csv
import fnmatch
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.audit.binary.dynamic import read_dynamic
from orbit.audit.binary.elf import open_if_elf

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = re.compile(r"\.so(\.|$)")
LIBC = "libc6"
"""The Debian package that every environment of Nix stands on, too."""
PYTHON = "libpython3.*"
"""Brought by the interpreter."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What a folder of packages holds, by distribution."""

    needs: Mapping[str, frozenset[str]]
    """Sonames that files of a distribution ask for and that are not its own."""
    owners: Mapping[str, frozenset[str]]
    """Name of a library -> distributions that have a file of that name."""
    twice: Mapping[str, frozenset[str]]
    """Path -> distributions that recorded it with different content."""


@dataclass(frozen=True, slots=True)
class Known:
    """What Nix knows: nix/wheels.toml and the expectations it reads."""

    libraries: Mapping[str, tuple[str, ...]]
    collisions: frozenset[str]
    """Paths."""
    system: frozenset[str]
    """Sonames that nixpkgs brings."""
    missing: tuple[str, ...]
    """Shell patterns of sonames that nobody brings, and rightly so."""


def normal(name: str) -> str:
    """A distribution's name as locks spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def records(site: Path) -> Iterator[tuple[str, str, str]]:
    """(distribution, path, hash) of every recorded file that has a hash."""
    for record in sorted(site.glob("*.dist-info/RECORD")):
        name = normal(record.parent.name.split("-")[0])
        with open(record, encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                if len(row) > 1 and row[1]:
                    yield name, row[0], row[1]


def read_installed(site: Path) -> Installed:
    """Read RECORD files and the dynamic sections of libraries; no file is executed."""
    needs: dict[str, set[str]] = defaultdict(set)
    own: dict[str, set[str]] = defaultdict(set)
    owners: dict[str, set[str]] = defaultdict(set)
    hashes: dict[str, dict[str, str]] = defaultdict(dict)
    for dist, path, digest in records(site):
        hashes[path][dist] = digest
        file = site / path
        if not LIBRARY.search(file.name) or not file.is_file():
            continue
        own[dist].add(file.name)
        owners[file.name].add(dist)
        with open_if_elf(file) as elf:
            dynamic = read_dynamic(elf) if elf else None
        if dynamic:
            needs[dist].update(dynamic.needed)
    return Installed(
        needs={dist: frozenset(wanted - own[dist]) for dist, wanted in needs.items()},
        owners={name: frozenset(dists) for name, dists in owners.items()},
        twice={path: frozenset(by) for path, by in hashes.items() if len(set(by.values())) > 1},
    )


def read_known(profile: str) -> Known:
    """The same data that nix/profiles.nix reads."""
    wheels = _toml("nix/wheels.toml")
    system = _toml("kernels/expectations/system.toml")
    expectations = ["vendor.toml", *_toml(f"env/profiles/{profile}.toml")["expectations"]]
    absent = [entry for name in expectations for entry in _toml(f"kernels/expectations/{name}").get("absent", ())]
    return Known(
        libraries={dist: tuple(names) for dist, names in wheels["libraries"].items()},
        collisions=frozenset(entry["path"] for entry in wheels["collisions"]),
        system=frozenset(
            soname
            for entry in system["base"]
            if entry["package"] == LIBC or entry["package"] in wheels["nixpkgs"]
            for soname in entry["sonames"]
        ),
        missing=(*system["driver"], *(soname for entry in absent for soname in entry["sonames"])),
    )


def unknown(installed: Installed, known: Known) -> Iterator[str]:
    """One line per thing that Nix would not know."""
    for dist, wanted in sorted(installed.needs.items()):
        for soname in sorted(wanted):
            brought = installed.owners.get(soname, frozenset())
            if brought & {dist, *known.libraries.get(dist, ())} or soname in known.system:
                continue
            if any(fnmatch.fnmatch(soname, pattern) for pattern in (*known.missing, PYTHON)):
                continue
            by = f"; {', '.join(sorted(brought))} has it" if brought else ""
            yield f"{dist}: {soname} is in none of its libraries (nix/wheels.toml, [libraries]){by}"
    for path, dists in sorted(installed.twice.items()):
        if path not in known.collisions:
            yield f"{path}: different in {', '.join(sorted(dists))} (nix/wheels.toml, [[collisions]])"


def _toml(name: str) -> dict[str, Any]:
    with open(ROOT / name, "rb") as file:
        return tomllib.load(file)


def main(argv: list[str]) -> int:
    """Compare and print."""
    sites = sorted(Path(argv[0]).glob("lib/python3.*/site-packages")) if argv else []
    if len(sites) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    lines = list(unknown(read_installed(sites[0]), read_known(argv[1] if len(argv) > 1 else "cu130")))
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
