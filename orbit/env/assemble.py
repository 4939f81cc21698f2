"""The steps that make an environment: interpreter, wheels, compiled files, RECORDs, checks, seal.

With a source (:mod:`orbit.env.takeover`) the same steps are done for what is new; everything else is linked from it.
The result is the same to the byte, mode and time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from orbit.core import proc, tools
from orbit.core.console import Progress
from orbit.core.files import remove_tree
from orbit.core.records import dump_json
from orbit.core.store import Entry
from orbit.env import bytecode, install, installed, interpreter, record, relocate, scripts, takeover, tree, verify
from orbit.env.contents import hash_files, write_contents
from orbit.env.cuda_home import link_farm, toolkit_folders
from orbit.env.installed import Installed
from orbit.env.takeover import LIBRARY, SITE, Source
from orbit.errors import CheckFailed
from orbit.profile.lock import Lock
from orbit.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Parts:
    """What an environment is made of."""

    profile: Profile
    lock: Lock
    plan: install.Plan
    python: Entry
    identity: str
    """Content key of everything it is made of."""
    makers: Mapping[str, Any]
    """See :func:`makers`."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """What was installed, and not taken over."""

    dists: tuple[Installed, ...]
    """With RECORDs as the installer wrote them."""
    contested: Mapping[str, tuple[str, ...]]
    """Paths (relative to site-packages) that several of them claim with different content."""
    scripts: frozenset[str]
    """Paths (relative to site-packages) of the scripts that were rewritten."""
    files: frozenset[str]
    """Paths relative to the prefix: everything that is there now."""


def makers(python: Entry) -> dict[str, Any]:
    """What of this machine an environment was made with: its outputs hold it, files taken over need the same.

    ``uv`` writes the scripts; that nothing names ``found_at`` was checked for those folders only.
    """
    said = proc.run([tools.uv(), "--version"], doing="asking uv for its version").stdout
    return {"uv": said.decode().split()[1], "found_at": list(python.record.inputs["found_at"])}


class Clock:
    """Seconds of each step, and a line when it begins."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, text: str) -> Iterator[None]:
        """Time a block as ``name`` and announce it with ``text``."""
        self.progress.step(text)
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 2)


def build(parts: Parts, source: Source | None, folder: Path, progress: Progress) -> dict[str, Any]:
    """Make the environment in ``folder``; return the entry's outputs. Raises :class:`takeover.Unusable`."""
    clock = Clock(progress)
    prefix = folder / "prefix"
    site = prefix / SITE
    with clock.step("interpreter", f"interpreter: CPython {parts.python.record.outputs['version']}"):
        interpreter.copy_interpreter(parts.python, prefix)
        site.mkdir(exist_ok=True)
        own = frozenset(tree.listing(prefix)[0])
    with clock.step("install", "wheels"):
        keep, fresh = _install(parts, source, own, folder, progress)
    changed = None
    linked: dict[str, str] = {}
    if source is not None:
        with clock.step("link", f"taking over {len(keep)} distributions of environment {source.key[:12]}"):
            changed, linked = _link(source, prefix, keep, fresh, own)
    with clock.step("compile", "byte-compiling on all cores"):
        uncompiled = _compile(parts, source, prefix, changed, progress)
    with clock.step("records", "scripts, RECORD files, CUDA_HOME"):
        _records(prefix, fresh)
        contested = _contested(source, keep, fresh, prefix)
        notes = describe(parts, contested, uncompiled)
        dump_json(prefix / record.RECORD_PATH, notes)
    with clock.step("seal", "fixing modes and times"):
        sealed = tree.seal(prefix, shared=linked)
        tree.write_lines(folder / tree.MANIFEST, sealed.lines)
        if sealed.touched:
            raise takeover.Unusable(f"{sealed.touched[0]} was changed")
    with clock.step("check", "checking that nothing names this machine"):
        looked_at = (*sealed.own, *sealed.links)
        check_names_no_host(prefix, parts.plan, fresh.dists, host_paths(folder, parts.python), looked_at)
    with clock.step("contents", "hashing what no RECORD states"):
        known = {path: source.contents[path] for path in linked} if source else {}
        write_contents(folder, _contents(prefix, fresh, sealed.own) | known)
    return {
        "identity": parts.identity,
        "distributions": len(notes.distributions),
        "taken_over": len(keep),
        "files": sealed.num_files,
        "bytes": sealed.num_bytes,
        "uncompiled": len(uncompiled),
        "contested": len(contested),
        "skipped": len(parts.plan.skipped),
        "makers": dict(parts.makers),
        "seconds": clock.seconds,
    }


def describe(
    parts: Parts,
    contested: tuple[record.Contested, ...],
    uncompiled: tuple[str, ...],
) -> record.EnvironmentRecord:
    """What the environment will say of itself."""
    python = parts.python.record.outputs
    return record.EnvironmentRecord(
        schema=record.SCHEMA,
        identity=parts.identity,
        profile=parts.profile.name,
        lock=parts.lock.sha256,
        prefix=parts.profile.image.prefix,
        python=python["version"],
        interpreter=python["tree"],
        system_libraries=tuple(python["system_libraries"]),
        distributions=parts.plan.distributions(),
        skipped=parts.plan.skipped,
        contested=contested,
        uncompiled=uncompiled,
        kernels=record.kernels_of(parts.plan.built),
    )


def _install(
    parts: Parts, source: Source | None, own: frozenset[str], folder: Path, progress: Progress
) -> tuple[frozenset[str], Fresh]:
    """Install what is not taken over; the names that are, and what was installed.

    ``own`` are the paths of the interpreter. The last owner by name writes each contested path last.
    """
    prefix, scratch, python = folder / "prefix", folder / "scratch", parts.profile.python
    scratch.mkdir()
    keep = source.same if source else frozenset()
    todo: Collection[str] = {dist.name for dist in parts.plan.distributions()} - keep
    while True:
        part = parts.plan.part(todo)
        progress.step(f"installing {len(part.prebuilt)} prebuilt and {len(part.built)} built wheels")
        install.check_wheels(part.built)
        install.install_prebuilt(part, prefix, scratch)
        install.install_built(part.built, prefix)
        dists = installed.read_installed(prefix / SITE)
        todo = takeover.to_renew(source, keep, dists, own) if source else ()
        if not todo:
            break
        keep = keep.difference(todo)
    contested = installed.contested_paths(dists)
    mended = _mend(parts.plan, prefix, python, scratch=scratch, contested=contested, progress=progress)
    settle_contested(parts.plan, prefix, scratch, dists, contested=contested, mended=mended)
    remove_tree(scratch)
    installed.drop_host_notes(dists)
    rewritten = scripts.relocate_scripts(prefix)
    changed = frozenset(os.path.relpath(prefix / "bin" / name, prefix / SITE) for name in rewritten)
    return keep, Fresh(dists, contested, changed, frozenset(tree.listing(prefix)[0]))


def _mend(
    plan: install.Plan, prefix: Path, python: str, *, scratch: Path, contested: Container[str], progress: Progress
) -> frozenset[str]:
    """Install again, around uv's cache, what is not what its wheel states; which distributions that were.

    Raises :class:`CheckFailed` if in vain.
    """
    wrong = verify.drifted(prefix, python, contested=contested)
    for name, paths in wrong.items():
        progress.step(f"{name}: {paths[0]} is not what the wheel holds (uv's cache was written to); fetching it again")
        install.reinstall(plan, name, prefix, scratch, cached=False)
    if wrong and (left := verify.drifted(prefix, python, contested=contested, only=wrong)):
        name, paths = next(iter(left.items()))
        raise CheckFailed(
            f"{name}: {len(paths)} installed file(s) differ from the wheel even when fetched again, e.g. {paths[0]}",
            fix="something on this machine edits installed files while they are written: find and stop it",
        )
    return frozenset(wrong)


def settle_contested(
    plan: install.Plan,
    prefix: Path,
    scratch: Path,
    dists: Iterable[Installed],
    *,
    contested: Mapping[str, tuple[str, ...]],
    mended: Container[str],
) -> None:
    """Make each contested path (relative to site-packages) the last owner's by name; ``mended`` ones are fetched anew.

    In order of name: whoever is installed later owns, of what it writes over, only what it wins. Raises
    :class:`CheckFailed` when a path stays wrong.
    """
    by_name = {dist.name: dist for dist in dists}
    won: dict[str, list[str]] = {}
    for path, names in contested.items():
        won.setdefault(names[-1], []).append(path)

    def wrong(name: str) -> list[str]:
        stated = {path: installed.stated(by_name[name], path) for path in won[name]}
        site = prefix / SITE
        return [p for p in won[name] if not (site / p).is_file() or installed.digest_of(site / p)[0] != stated[p]]

    for name in sorted(won):
        if wrong(name):
            install.reinstall(plan, name, prefix, scratch, cached=name not in mended)
    for name in sorted(won):
        if left := wrong(name):
            raise CheckFailed(
                f"{left[0]}: claimed by {', '.join(contested[left[0]])}, and not what the wheel of {name} holds",
                fix="something on this machine edits installed files while they are written: find and stop it",
            )


def _link(
    source: Source, prefix: Path, keep: frozenset[str], fresh: Fresh, own: frozenset[str]
) -> tuple[frozenset[str], dict[str, str]]:
    """Take over what can be; the folders to compile anew, and the files linked."""
    brought = (fresh.files - own).union(*(takeover.paths_of(dist) for dist in fresh.dists))
    changed = takeover.changed_folders(source, keep, brought)
    files, folders = takeover.to_link(source, keep, changed, brought, own)
    return changed, takeover.link(source.prefix, source.manifest, prefix, files, folders)


def _compile(
    parts: Parts,
    source: Source | None,
    prefix: Path,
    changed: frozenset[str] | None,
    progress: Progress,
) -> tuple[str, ...]:
    """Compile all, or what lies in the folders ``changed``; every source without compiled form, sorted."""
    only = None if changed is None else [folder[len(LIBRARY) + 1 :] for folder in changed]
    failed = bytecode.compile_tree(prefix, parts.profile.image.prefix, only=only, progress=progress)
    found = {failure.path for failure in failed}
    if source is not None and changed is not None:
        there = (path for path in source.record.uncompiled if path.rpartition("/")[0] not in changed)
        found |= {path for path in there if os.path.exists(prefix / path)}
    return tuple(sorted(found))


def _records(prefix: Path, fresh: Fresh) -> None:
    """Make the new RECORDs true, and the CUDA_HOME."""
    site = prefix / SITE
    lost: dict[str, set[str]] = {}
    for path, names in fresh.contested.items():
        for name in names[:-1]:
            lost.setdefault(name, set()).add(path)
    installed.rewrite(site, fresh.dists, changed=fresh.scripts, lost=lost)
    if toolkit_folders(site):
        link_farm(site, prefix / "cuda", relative=True)


def _contested(source: Source | None, keep: frozenset[str], fresh: Fresh, prefix: Path) -> tuple[record.Contested, ...]:
    """All contested paths in the order of their path in site-packages."""
    found = list(installed.as_contested(prefix / SITE, prefix, fresh.contested))
    if source is not None:
        found += takeover.still_contested(source, keep)
    return tuple(sorted(found, key=lambda item: os.path.relpath(item.path, SITE)))


def _contents(prefix: Path, fresh: Fresh, sizes: Mapping[str, int]) -> dict[str, str]:
    """sha256 of the files ``sizes``: as the RECORDs of new distributions now say, else read.

    Contested paths are read, too: they were not compared with a RECORD.
    """
    found: dict[str, str] = {}
    for dist in fresh.dists:
        for line in installed.read_record(dist.info).lines:
            path = takeover.in_prefix(line.path)
            if line.digest.startswith("sha256=") and line.path not in fresh.contested and path in sizes:
                found[path] = line.digest.removeprefix("sha256=")
    return found | hash_files(prefix, {path: size for path, size in sizes.items() if path not in found})


def host_paths(folder: Path, python: Entry) -> tuple[bytes, ...]:
    """Paths of this machine that must not be in an environment: where it is made and where its Python came from."""
    found = [os.fspath(folder), *python.record.inputs["found_at"]]
    return tuple(sorted({os.fsencode(path) for path in found}))


def check_names_no_host(
    prefix: Path, plan: install.Plan, fresh: Iterable[Installed], needles: tuple[bytes, ...], paths: Iterable[str]
) -> None:
    """Raise :class:`CheckFailed` when one of ``paths`` (relative), which were all made here, names this machine.

    Looked at: the interpreter, scripts, compiled files, RECORDs and everything of a wheel built here. Files that come
    unchanged from a published wheel cannot know this machine.
    """
    built = {canonicalize_name(wheel.dist) for wheel in plan.built}
    published = {
        f"{SITE}/{line.path}"
        for dist in fresh
        if dist.name not in built
        for line in dist.lines
        if line.digest and not line.path.startswith("../")
    }
    left = list(relocate.find_paths(prefix, needles, [path for path in paths if path not in published]))
    if left:
        shown = "\n".join(f"  | {place}" for place in left[:10])
        raise CheckFailed(
            f"{len(left)} places in the environment name paths of this machine:\n{shown}",
            fix="for a wheel built here, its recipe must not compile its build folder in; else report it",
        )
