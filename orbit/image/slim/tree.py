"""A whole environment without the device code that no target of its profile can load.

The slimmed environment is an entry of the store of its own. What is not touched is linked from the environment it was
made of; a library that was slimmed before is linked from where that left it. RECORD states the new hashes,
``share/orbit/slim.json`` the old ones: what was changed, by which policy, and what was left and why.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.console import Progress
from orbit.core.digests import record_digest
from orbit.core.files import require_free, sha256_file, tree_hash
from orbit.core.paths import PACKAGE, data_file
from orbit.core.records import Record, content_key, convert, dump_json
from orbit.core.store import Entry, Store
from orbit.env import installed, takeover, tree
from orbit.env.contents import hash_files, read_contents, write_contents
from orbit.env.record import RECORD_PATH, read_environment
from orbit.env.takeover import SITE
from orbit.errors import RefusedError
from orbit.image.slim.facts import ArchBytes, FilePlan, Layout, SlimmedFile
from orbit.image.slim.plan import NO_CODE, apply_plan, plan_file
from orbit.profile.model import GpuTarget, Profile, SlimPolicy

FORMAT = 1
"""Raised when equal environments come out in another form."""
KIND = "slim-env"
FILE_KIND = "slim-file"
EVIDENCE_PATH = "share/orbit/slim.json"
SCHEMA = "orbit.image.slim/1"
CHANGED = "stop whatever writes to that tree and run the same command again"


class SlimFile(Record, frozen=True, kw_only=True):
    """One file with device code, and what became of it."""

    path: str
    """Relative to site-packages."""
    distribution: str
    layout: Layout
    """``none``: left as it was."""
    why_not: str
    """Why it was left, or kept its length; else empty."""
    original_sha256: str
    sha256: str
    """Equal to ``original_sha256`` when it was left."""
    original_size: int
    size: int
    removed_entries: int
    removed_bytes: int
    """Device code taken out; for ``holes`` these bytes are zeros now."""
    archs: tuple[ArchBytes, ...]


class SlimRecord(Record, frozen=True, kw_only=True):
    """``share/orbit/slim.json``: everything that distinguishes a slimmed environment from the one it was made of."""

    schema: str = SCHEMA
    environment: str
    """Identity of the environment it was made of."""
    targets: tuple[str, ...]
    """Compute capabilities."""
    policy: SlimPolicy
    files: tuple[SlimFile, ...]
    """Every file with device code, sorted by path."""

    @property
    def changed(self) -> tuple[SlimFile, ...]:
        """The files that were slimmed."""
        return tuple(item for item in self.files if item.layout != "none")


@dataclasses.dataclass(frozen=True, slots=True)
class _Owned:
    """A file that may have device code, with its owner."""

    path: str
    distribution: str


def slim_file(plan: FilePlan, owner: str, sha256: str) -> SlimFile:
    """What a plan makes of its file; ``sha256`` is that of the file afterwards, empty while nothing is written."""
    return SlimFile(
        path=plan.path,
        distribution=owner,
        layout=plan.layout,
        why_not=plan.why_not,
        original_sha256=plan.sha256,
        sha256=sha256 if plan.layout != "none" else plan.sha256,
        original_size=plan.size,
        size=plan.new_size,
        removed_entries=plan.removed_entries,
        removed_bytes=plan.removed_bytes,
        archs=plan.by_arch(),
    )


def slim_environment(
    profile: Profile, environment: Entry, store: Store, *, policy: SlimPolicy, progress: Progress
) -> Entry:
    """``environment`` without device code that no target of ``profile`` loads: found in the store, or made.

    The entry has what one of :func:`orbit.env.create.create_environment` has. Raises
    :class:`orbit.image.slim.facts.SlimRefused` and :class:`orbit.audit.binary.elf.MalformedBinary` for a library that
    cannot be read or did not come out as planned, :class:`RefusedError` when the environment changes meanwhile or the
    disk is full; nothing is kept then.
    """
    inputs = slim_inputs(profile, environment, policy)
    found = store.find(KIND, inputs)
    if found is not None:
        harm = tree.damage(found.path / "prefix", found.path / tree.MANIFEST)
        if not harm:
            return found
        progress.step(f"slim environment {found.record.key[:12]} in the store is damaged ({harm}): made again")
        store.discard(found.path)
    identity = content_key(inputs)
    work = _Work(profile, environment, store, policy, identity, inputs["code"], progress)
    return store.obtain(KIND, inputs, work)


def slim_inputs(profile: Profile, environment: Entry, policy: SlimPolicy) -> dict[str, Any]:
    """Everything a slimmed environment is made of; its content key is the identity of the result."""
    return {
        "format": FORMAT,
        "environment": read_environment(environment.path / "prefix").identity,
        "targets": capabilities(profile.targets),
        "policy": msgspec.to_builtins(policy),
        "rules": sha256_file(data_file("kernels", "slim.toml")),
        "loading": sha256_file(data_file("kernels", "capabilities.toml")),
        "code": code_hash(),
    }


def capabilities(targets: Sequence[GpuTarget]) -> list[str]:
    """Compute capabilities of the targets, each once, in their order."""
    return list(dict.fromkeys(target.capability for target in targets))


def code_hash() -> str:
    """Hash over the code that decides what is removed and how a file is written."""
    return tree_hash(PACKAGE / "image" / "slim")


def plan_tree(
    prefix: Path, profile: Profile, policy: SlimPolicy, *, progress: Progress
) -> tuple[tuple[FilePlan, str], ...]:
    """(plan, owner) of every file with device code below ``prefix``, sorted by path. Nothing is changed."""
    site = prefix / SITE
    candidates = list(_candidates(site))
    progress.step(f"slim: reading {len(candidates)} libraries")

    def plan(item: _Owned) -> FilePlan:
        return plan_file(
            site / item.path, profile.targets, policy=policy, name=item.path, distribution=item.distribution
        )

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        plans = list(pool.map(plan, candidates))
    found = [(plan, item.distribution) for plan, item in zip(plans, candidates, strict=True) if plan.why_not != NO_CODE]
    return tuple(sorted(found, key=lambda item: item[0].path))


def _candidates(site: Path) -> Iterator[_Owned]:
    """Files that a distribution owns and whose name a library has; links are not followed."""
    for dist in installed.read_installed(site):
        for line in dist.lines:
            name = line.path.rpartition("/")[2]
            if ".so" in name and not line.path.startswith("../"):
                path = site / line.path
                if path.is_file() and not path.is_symlink():
                    yield _Owned(line.path, dist.name)


@dataclasses.dataclass(frozen=True, slots=True)
class _Work:
    """Makes one slimmed environment."""

    profile: Profile
    environment: Entry
    store: Store
    policy: SlimPolicy
    identity: str
    code: str
    """See :func:`code_hash`."""
    progress: Progress

    def __call__(self, folder: Path) -> dict[str, Any]:
        source = self.environment.path / "prefix"
        plans = plan_tree(source, self.profile, self.policy, progress=self.progress)
        todo = [plan for plan, _ in plans if plan.layout != "none"]
        require_free(self.store.root, sum(plan.new_size for plan in todo), "the slimmed libraries")
        slimmed = {plan.path: self._obtain(plan, number, todo) for number, plan in enumerate(todo, start=1)}
        written = {path: _written(entry) for path, entry in slimmed.items()}
        files = tuple(slim_file(plan, owner, written.get(plan.path, "")) for plan, owner in plans)
        dists = [dist for dist in installed.read_installed(source / SITE) if any(r.path in slimmed for r in dist.lines)]
        prefix = folder / "prefix"
        prefix.mkdir()
        shared = self._link(prefix, {*slimmed, *(f"{dist.info.name}/RECORD" for dist in dists)})
        shared |= self._place(prefix, slimmed)
        moved = [dataclasses.replace(dist, info=prefix / SITE / dist.info.name) for dist in dists]
        installed.rewrite(prefix / SITE, moved, changed=slimmed, lost={})
        self._describe(prefix, files)
        sealed = tree.seal(prefix, shared=shared)
        if sealed.touched:
            raise RefusedError(f"{source / sealed.touched[0]}: changed while it was taken over", fix=CHANGED)
        tree.write_lines(folder / tree.MANIFEST, sealed.lines)
        write_contents(folder, self._contents(prefix, files, sealed))
        return {
            "identity": self.identity,
            "files": sealed.num_files,
            "bytes": sealed.num_bytes,
            "slimmed": len(slimmed),
            "removed_bytes": sum(item.removed_bytes for item in files),
        }

    def _obtain(self, plan: FilePlan, number: int, todo: Sequence[FilePlan]) -> Entry:
        """The slimmed file of ``plan``, as an entry with ``file/data``."""
        site = self.environment.path / "prefix" / SITE
        inputs = {"format": FORMAT, "plan": content_key(plan), "code": self.code}

        def work(place: Path) -> dict[str, Any]:
            (place / "file").mkdir()
            done = apply_plan(plan, site / plan.path, place / "file" / "data")
            outputs: dict[str, Any] = msgspec.to_builtins(done)
            return outputs

        entry = self.store.obtain(FILE_KIND, inputs, work)
        self.progress.advance("libraries slimmed", number, len(todo))
        return entry

    def _link(self, prefix: Path, left: Collection[str]) -> dict[str, str]:
        """All but ``left`` (relative to site-packages), linked; each with the rest of its line in the manifest."""
        source = self.environment.path
        manifest = dict(line.split("\t", 1) for line in tree.read_lines(source / tree.MANIFEST))
        gone = {RECORD_PATH, *(f"{SITE}/{path}" for path in left)}
        folders = [path for path, rest in manifest.items() if takeover.is_folder(rest)]
        try:
            return takeover.link(source / "prefix", manifest, prefix, manifest.keys() - gone - set(folders), folders)
        except takeover.Unusable as problem:
            raise RefusedError(f"{source}: {problem}", fix=CHANGED) from None

    def _place(self, prefix: Path, slimmed: Mapping[str, Entry]) -> dict[str, str]:
        """The slimmed files, linked from their entries; with what their line in the manifest will be."""
        lines = {}
        for path, entry in slimmed.items():
            data = entry.path / "file" / "data"
            os.utime(data, ns=(tree.EPOCH_NS, tree.EPOCH_NS))
            os.link(data, prefix / SITE / path)
            lines[f"{SITE}/{path}"] = tree.state_of(data)
        return lines

    def _describe(self, prefix: Path, files: tuple[SlimFile, ...]) -> None:
        """The environment's own record under its new identity, and the evidence."""
        record = read_environment(self.environment.path / "prefix")
        evidence = SlimRecord(
            environment=record.identity,
            targets=tuple(capabilities(self.profile.targets)),
            policy=self.policy,
            files=files,
        )
        dump_json(prefix / RECORD_PATH, msgspec.structs.replace(record, identity=self.identity))
        dump_json(prefix / EVIDENCE_PATH, evidence)

    def _contents(self, prefix: Path, files: Iterable[SlimFile], sealed: tree.Sealed) -> dict[str, str]:
        """sha256 of every file: as the environment says, but for what is new."""
        known = read_contents(self.environment.path)
        new = {f"{SITE}/{item.path}": _as_recorded(item.sha256) for item in files if item.layout != "none"}
        return known | hash_files(prefix, sealed.own) | new


def _written(entry: Entry) -> str:
    """sha256 of the file in an entry of a slimmed file."""
    return convert(entry.record.outputs, SlimmedFile, f"{entry.path}: outputs").sha256


def _as_recorded(digest: str) -> str:
    """A hex digest as RECORD spells it, without its algorithm."""
    return record_digest(bytes.fromhex(digest))
