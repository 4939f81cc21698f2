"""Files into frozen evidence: every one hashed, read strictly and held against the others.

Nothing here decides. A file that cannot be read, that is not as it was sealed or that contradicts another one becomes a
:class:`orbit.release.gate.facts.Problem`; one that is not there stays None, and the requirement that needs it says so.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from orbit.audit.reports.report import TargetReport
from orbit.core.console import Progress
from orbit.core.files import sha256_file
from orbit.core.records import indented_json, load_json
from orbit.errors import InputError, OrbitError
from orbit.image.oci import Layout, read_layout, verify_layers
from orbit.image.smoke.report import SmokeReport
from orbit.image.smoke.run import load_list
from orbit.kernels.recipe import load_recipe
from orbit.profile.model import Profile
from orbit.profile.place import lock_path
from orbit.release.attest.trust import Trust
from orbit.release.evidence import (
    KERNELS_FILE,
    KERNELS_SCHEMA,
    STAGE_SCHEMA,
    SUMMARY_SCHEMA,
    KernelManifests,
    StageRecord,
    Summary,
    render_markdown,
)
from orbit.release.gate.attestations import read_attestations
from orbit.release.gate.contradict import contradictions
from orbit.release.gate.facts import (
    CLEAN_ROOM_FILE,
    CLEAN_ROOM_SCHEMA,
    SECOND_PREFIX_FILE,
    CleanRoom,
    Documents,
    Evidence,
    ImageFacts,
    Problem,
    SbomFacts,
)
from orbit.release.gate.sboms import read_sbom
from orbit.release.sbom.write import FILES as SBOM_FILES
from orbit.release.seal import LAYOUT, SEAL, Seal, differences, hash_files, read_seal
from orbit.smoke.report import SCHEMA as SMOKE_SCHEMA

NEVER_MADE = "make the run with this version of Orbit: ./orbitw ship"


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything lies."""

    root: Path
    """The checkout: lock, recipes, smoke lists."""
    run: Path
    """The run's folder, ``dist/<profile>``."""
    attestations: Path | None = None
    """Folder of ``*.intoto.json``; None: there is none."""


def collect(
    places: Places,
    profile: Profile,
    *,
    trust: Trust,
    now: dt.datetime,
    documents: Documents | None,
    progress: Progress,
) -> Evidence:
    """Everything there is about one run. Never stops at a bad file: all that is wrong is known at once.

    Raises :class:`InputError` when ``places.run`` is no folder of a run at all, or the checkout cannot be read.
    """
    if not places.run.is_dir():
        raise InputError(
            f"{places.run}: no such folder", fix=f"make a run first: ./orbitw ship --profile {profile.name}"
        )
    reader = _Reader(places.run)
    layout = _read_image(reader, progress)
    summary = reader.json("summary.json", Summary, schema=SUMMARY_SCHEMA)
    evidence = Evidence(
        profile=profile,
        folder=str(places.run),
        lock_sha256=_lock_hash(profile, places.root),
        recipes={name: load_recipe(name) for name in (*profile.kernels.core, *profile.kernels.extended)},
        smoke_lists={name: load_list(name) for name in (*profile.smoke, *profile.smoke_gpu)},
        seal=_read_seal(reader),
        summary=summary,
        image=_image_facts(layout) if layout else None,
        manifests=_manifests(reader),
        audit=reader.json("audit.json", TargetReport),
        image_audit=reader.json("image-audit.json", TargetReport),
        smoke=_smoke(reader),
        sboms=tuple(_read_sboms(reader)),
        clean_room=reader.json(CLEAN_ROOM_FILE, CleanRoom, schema=CLEAN_ROOM_SCHEMA),
        second_prefix=_second_prefix(reader, places.attestations),
        documents=documents,
    )
    problems = [*reader.problems, *_sealed(reader, evidence), *_stage_files(reader, summary), *_strangers(places.run)]
    evidence = replace(evidence, files=reader.hashes())
    if places.attestations is not None:
        believed, refused, hashes = read_attestations(places.attestations, trust, digest=evidence.digest, now=now)
        problems += refused
        evidence = replace(evidence, attestations=believed, files={**evidence.files, **hashes})
    return replace(evidence, problems=tuple(dict.fromkeys([*problems, *contradictions(evidence)])))


class _Reader:
    """Reads files of one folder; what is wrong with them is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self._hashes: dict[str, str] | None = None

    def hashes(self) -> dict[str, str]:
        """sha256 of every file, read once."""
        if self._hashes is None:
            own = self.folder / SEAL
            self._hashes = hash_files(self.folder) | ({SEAL: sha256_file(own)} if own.is_file() else {})
        return self._hashes

    def json[T](self, name: str, kind: type[T], *, schema: str | int | None = None) -> T | None:
        """The file as ``kind``; None when it is not there or cannot be read."""
        if not (self.folder / name).is_file():
            return None
        return self.guarded(name, lambda: _load(self.folder / name, kind, schema))

    def guarded[T](self, name: str, read: Callable[[], T]) -> T | None:
        """What ``read`` returns; None, and a problem of the file, when it raises."""
        try:
            return read()
        except (OrbitError, OSError) as error:
            what = error.what if isinstance(error, OrbitError) else (error.strerror or str(error))
            self.problems.append(Problem(name, what.removeprefix(f"{self.folder / name}: ")))
            return None


def _load[T](path: Path, kind: type[T], schema: str | int | None) -> T:
    value = load_json(path, kind)
    found = getattr(value, "schema", schema)
    if schema is not None and found != schema:
        raise InputError(f"{path}: schema {found!r} is not known; this version of orbit reads {schema!r}")
    data = path.read_bytes()
    if data != indented_json(msgspec.json.decode(data)):  # whatever version of a record it is
        raise InputError(f"{path}: is not spelt as Orbit spells it: it was edited")
    return value


def _lock_hash(profile: Profile, root: Path) -> str:
    path = lock_path(profile, root)
    if not path.is_file():
        raise InputError(f"{path}: no such file", fix="run the gate in the checkout that the image was made from")
    return sha256_file(path)


def _read_seal(reader: _Reader) -> Seal | None:
    if not (reader.folder / SEAL).is_file():
        what = "is not there: nothing says that the other files are as the run left them"
        reader.problems.append(Problem(SEAL, what, NEVER_MADE, absent=True))
        return None
    return reader.guarded(SEAL, lambda: read_seal(reader.folder))


def _sealed(reader: _Reader, evidence: Evidence) -> Iterator[Problem]:
    """What is not as it was sealed."""
    if evidence.seal is None:
        return
    found = {name: digest for name, digest in reader.hashes().items() if name != SEAL}
    for name, what in differences(evidence.seal.files, found).items():
        yield Problem(name, what)


def _stage_files(reader: _Reader, summary: Summary | None) -> Iterator[Problem]:
    """Each stage has its own file, equal to what the summary says; the page says the same for people."""
    if summary is None:
        return
    wanted: set[str] = set()
    for number, stage in enumerate(summary.stages, start=1):
        name = f"{number:02d}-{stage.stage}.json"
        wanted.add(name)
        before = len(reader.problems)
        record = reader.json(name, StageRecord, schema=STAGE_SCHEMA)
        if len(reader.problems) > before:
            yield reader.problems[-1]
        elif record is None:
            yield Problem(name, "is not there, and the summary has that stage", absent=True)
        elif record != stage:
            yield Problem(name, "says something else of that stage than summary.json")
    for path in sorted(reader.folder.glob("[0-9][0-9]-*.json")):
        if path.name not in wanted:
            yield Problem(path.name, "is the record of a stage that the summary does not have")
    page = reader.folder / "summary.md"
    if not page.is_file():
        yield Problem("summary.md", "is not there", absent=True)
    elif page.read_bytes() != render_markdown(summary).encode():
        yield Problem("summary.md", "does not say what summary.json says, or another version of Orbit wrote it")


def _strangers(folder: Path) -> Iterator[Problem]:
    """What no run leaves in its folder."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or path.name.startswith(".") or (path.is_dir() and path.name != LAYOUT):
            yield Problem(path.name, "is nothing that a run leaves in its folder", "take it out of the folder")


def _read_image(reader: _Reader, progress: Progress) -> Layout | None:
    folder = reader.folder / LAYOUT
    if not folder.exists():
        return None
    layout = reader.guarded(LAYOUT, lambda: read_layout(folder))
    if layout is not None:
        progress.step(f"hashing {len(layout.layers)} layers")
        reader.guarded(LAYOUT, lambda: verify_layers(layout, progress=progress))
    return layout


def _image_facts(layout: Layout) -> ImageFacts:
    return ImageFacts(
        digest=layout.digest,
        labels=layout.config.config.labels,
        layers=len(layout.layers),
        pull_bytes=sum(layer.size for layer in layout.layers),
    )


def _second_prefix(reader: _Reader, attestations: Path | None) -> dict[str, Any] | None:
    """The proof in the run; else the one that lies with the attestations, made here and not yet taken in."""
    own = reader.json(SECOND_PREFIX_FILE, dict[str, Any])
    given = attestations / SECOND_PREFIX_FILE if attestations is not None else None
    if own is not None or given is None or not given.is_file():
        return own
    return reader.guarded(SECOND_PREFIX_FILE, lambda: load_json(given, dict[str, Any]))


def _manifests(reader: _Reader) -> tuple[Any, ...] | None:
    found = reader.json(KERNELS_FILE, KernelManifests, schema=KERNELS_SCHEMA)
    return found.manifests if found else None


def _smoke(reader: _Reader) -> SmokeReport | None:
    return reader.json("smoke.json", SmokeReport, schema=SMOKE_SCHEMA)


def _read_sboms(reader: _Reader) -> Iterator[SbomFacts]:
    for form, name in SBOM_FILES.items():
        if (reader.folder / name).is_file():
            found = reader.guarded(name, functools.partial(read_sbom, reader.folder / name, form))
            if found is not None:
                yield found
