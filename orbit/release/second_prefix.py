"""The proof of an environment's archive: unpacked under another path for another user, audited, and run there.

That an environment can be moved is a promise until it was moved. :func:`prove` unpacks the archive as the user who will
use it, judges the result by every rule of the audit, and runs the CPU smoke list in it: on a read-only mount, without
network, with the folders in which builders keep caches and sources covered. What comes out is one document,
:class:`SecondPrefix`, the predicate ``urn:orbit:predicate:second-prefix:1`` of a release.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from orbit import __version__
from orbit.audit.run import audit_environment
from orbit.core import proc
from orbit.core.console import Progress
from orbit.core.files import open_regular, remove_tree
from orbit.core.findings import Finding, Skipped
from orbit.core.records import Record, load_json
from orbit.env.archive_list import MANIFEST, Manifest
from orbit.env.hydrate import Hydrated, Options, check_prefix, hydrate, occupant
from orbit.errors import CommandFailed, ExitCode, InputError, RefusedError
from orbit.image.oci import read_layout
from orbit.image.runtime import ENVIRONMENT_LABEL, LOCK_LABEL, REVISION_LABEL
from orbit.image.smoke.follow import Follower
from orbit.image.smoke.report import SmokeRun
from orbit.image.smoke.run import START_S, complete, load_list, make_context, start_result
from orbit.profile.model import Profile, load_profile
from orbit.release.evidence import SECOND_PREFIX_SCHEMA, Result, utc_now
from orbit.release.second_place import Place, as_user, choose_place, make_parents, user
from orbit.smoke.model import FAILED, SKIPPED, CheckResult, Context, SmokeList, plan_of
from orbit.smoke.report import IN_PLACE


class SecondPrefix(Record, frozen=True, kw_only=True):
    """What was done with one archive on one machine, and what came of it."""

    schema: str = SECOND_PREFIX_SCHEMA
    orbit: str = __version__
    result: Result
    reason: str = ""
    """Why it failed; empty when it passed."""
    archive: str
    """``sha256:...`` of the archive."""
    archive_bytes: int
    environment: str
    """Identity of the environment inside."""
    profile: str
    lock: str
    """sha256 of uv.lock."""
    image: str = ""
    """Digest of the image that holds the same environment; empty when none was named."""
    prefix: str
    """In words: how long the path was. The path itself is of one machine and says nothing to others."""
    first_prefix_bytes: int
    """Length of the path the environment was compiled for."""
    second_prefix_bytes: int
    uid: int
    real_ids: bool
    """Whether that was the kernel's own user id, so that modes and owners counted."""
    engine: str
    """``bubblewrap``, or ``in-place`` where there was none."""
    engine_version: str = ""
    read_only: bool
    """Whether the environment was mounted so that nobody could write to it."""
    network: bool
    """Whether the checks had any."""
    files: int
    bytes: int
    audit: dict[str, int]
    """The audit's numbers, for that user."""
    findings: tuple[Finding, ...]
    """Everything the audit found that is fatal."""
    runs: tuple[SmokeRun, ...]
    skipped: tuple[Skipped, ...]
    started: str
    """UTC, ISO 8601."""
    finished: str
    seconds: dict[str, float]
    """``hydrate``, ``audit`` and ``smoke``."""

    @property
    def exit_code(self) -> ExitCode:
        """0 proved, 1 something failed, 3 nothing failed and something could not be looked at."""
        if self.result is Result.FAILED:
            return ExitCode.FINDINGS
        return ExitCode.OK if self.result is Result.PASSED else ExitCode.MISSING


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be proved, and where."""

    archive: Path
    prefix: Path
    """A new folder, or one that holds an environment which is replaced."""
    uid: int | None = None
    """Whose environment it will be; None: nobody (65534) for root, else the caller."""
    image: Path | None = None
    """An OCI layout that must hold the same environment."""
    profile: Profile | None = None
    """Whose rules and checks; None: the one the archive names."""
    keep: bool = False
    """Leave the environment there."""


def prove(request: Request, *, progress: Progress) -> SecondPrefix:
    """Unpack, audit and run. The environment is removed at the end unless ``keep``.

    Raises what :func:`orbit.env.hydrate.hydrate` raises, :class:`InputError` when the image is another environment's,
    and :class:`RefusedError` for a user the caller cannot become.
    """
    started, seconds = utc_now().isoformat(), dict[str, float]()
    prefix = check_prefix(request.prefix)
    if occupant(prefix) is not None:
        raise RefusedError(
            f"{prefix}: an environment is there", fix="name a new folder: the proof removes it at the end"
        )
    who = user(request.uid)
    made = make_parents(prefix, who)
    try:
        with _timed(seconds, "hydrate"):
            done = _hydrate_as(request.archive, prefix, who, progress)
        manifest = load_json(prefix / MANIFEST, Manifest)
        digest = image_digest(request.image, manifest) if request.image else ""
        profile = request.profile or load_profile(manifest.profile)
        with _timed(seconds, "audit"):
            report = audit_environment(prefix, profile, uid=who, progress=progress)
        with _timed(seconds, "smoke"):
            place = choose_place(prefix, who)
            runs, not_run = _smoke(place, manifest, profile, progress)
    finally:
        if not request.keep:
            remove_tree(prefix)
            for folder in made:
                with contextlib.suppress(OSError):
                    folder.rmdir()
    skipped = (*done.skipped, *not_run, *_skipped_checks(runs), *place.lacks())
    result, reason = verdict(report.findings, runs, skipped)
    return without_path(
        SecondPrefix(
            result=result,
            reason=reason,
            archive=f"sha256:{done.archive_sha256}",
            archive_bytes=done.archive_bytes,
            environment=manifest.environment,
            profile=profile.name,
            lock=manifest.lock,
            image=digest,
            prefix=f"another path of {len(os.fsencode(prefix))} bytes",
            first_prefix_bytes=len(os.fsencode(manifest.prefix)),
            second_prefix_bytes=len(os.fsencode(prefix)),
            uid=who,
            real_ids=place.real_ids,
            engine=place.engine,
            engine_version=place.version,
            read_only=place.engine != IN_PLACE,
            network=place.engine == IN_PLACE,
            files=done.files,
            bytes=done.bytes,
            audit=report.counts(),
            findings=tuple(finding for finding in report.findings if finding.fatal),
            runs=runs,
            skipped=skipped,
            started=started,
            finished=utc_now().isoformat(),
            seconds=seconds,
        ),
        prefix,
    )


@contextlib.contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[name] = round(time.monotonic() - began, 2)


def verdict(findings: Sequence[Finding], runs: Sequence[SmokeRun], skipped: Sequence[Skipped]) -> tuple[Result, str]:
    """What it comes to, and why when it is not a proof. Nothing run is no proof; neither is anything left out."""
    fatal = [finding for finding in findings if finding.fatal]
    failed = [result for run in runs for result in run.results if result.result == FAILED]
    if fatal:
        return Result.FAILED, f"audit: {len(fatal)} finding(s), {fatal[0].rule}: {fatal[0].message}"
    if failed:
        return Result.FAILED, f"smoke: {len(failed)} check(s) failed, {failed[0].check}: {failed[0].detail}"
    if skipped:
        return Result.SKIPPED, f"not looked at: {skipped[0].what}: {skipped[0].reason}"
    return (Result.PASSED, "") if runs else (Result.SKIPPED, "the profile names no smoke list")


def without_path(document: SecondPrefix, prefix: Path) -> SecondPrefix:
    """The document with every mention of the second path as ``{prefix}``."""
    text = json.dumps(os.fspath(prefix), ensure_ascii=False)[1:-1].encode()
    return msgspec.json.decode(msgspec.json.encode(document).replace(text, b"{prefix}"), type=SecondPrefix)


def image_digest(layout: Path, manifest: Manifest) -> str:
    """Digest of the image in ``layout``. Raises :class:`InputError` unless it holds the archive's environment."""
    image = read_layout(layout)
    labels = image.config.config.labels
    wanted = {ENVIRONMENT_LABEL: manifest.environment, LOCK_LABEL: manifest.lock}
    if manifest.orbit:
        wanted[REVISION_LABEL] = manifest.orbit
    for name, value in wanted.items():
        if labels.get(name) != value:
            raise InputError(
                f"{layout}: {name} is {labels.get(name)}, and {value} in the archive",
                fix="make the archive of the environment that is in that image",
            )
    return image.digest


def _hydrate_as(archive: Path, prefix: Path, uid: int, progress: Progress) -> Hydrated:
    """Unpack as that user, in a process of its own when it is another one."""
    with open_regular(archive) as source:

        def work() -> Hydrated:
            if not os.access(prefix.parent, os.W_OK | os.X_OK):
                raise RefusedError(
                    f"{prefix.parent}: user {uid} may not write there",
                    fix="name a folder in a new one that this user may enter, e.g. /var/tmp/second/env",
                )
            return hydrate(source, str(archive), prefix, Options(), progress=progress)

        if uid == os.geteuid():
            return work()
        return msgspec.json.decode(as_user(uid, lambda: msgspec.json.encode(work())), type=Hydrated)


def for_environment(plan: SmokeList) -> SmokeList:
    """A list made for an image, as far as it is about the environment in it.

    Folders of the image's base (``/usr``, ``/home``) are the machine's here and say nothing about the archive.
    """
    checks = []
    for check in plan.checks:
        kept = dict(check.parameters)
        for name in ("folders", "read_only"):
            if name in kept:
                kept[name] = [item for item in kept[name] if str(item).startswith("{prefix}")]
        if "root_only" in kept:
            kept["root_only"] = []
        checks.append(replace(check, parameters=kept))
    return replace(plan, checks=tuple(checks))


def _smoke(
    place: Place, manifest: Manifest, profile: Profile, progress: Progress
) -> tuple[tuple[SmokeRun, ...], tuple[Skipped, ...]]:
    """Run the profile's CPU lists in the environment; what of them was not run."""
    if not manifest.orbit:
        why = "the archive was made without Orbit's own files, which run the checks"
        return (), tuple(Skipped(what=f"smoke {name}", reason=why) for name in profile.smoke)
    context = replace(make_context(profile), prefix=os.fspath(place.prefix), in_place=True, uid=place.uid)
    plans = [for_environment(load_list(name)) for name in profile.smoke]
    return tuple(_run(place, plan, context, profile.python, progress) for plan in plans), ()


def _run(place: Place, plan: SmokeList, context: Context, python: str, progress: Progress) -> SmokeRun:
    progress.step(f"smoke: {plan.name}, {len(plan.checks)} checks as uid {place.uid}, {place.engine}")
    programs = f"{place.prefix}/bin"
    words = [f"{programs}/orbit-entrypoint", f"{programs}/python{python}", "-P", "-m", "orbit.smoke", "-", "--json"]
    order = json.dumps(plan_of(plan, context)).encode()
    began = time.monotonic()
    limit_s = START_S + sum(check.timeout_s for check in plan.checks)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(_log_file())
        follower = stack.enter_context(Follower(log, plan, progress))
        try:
            argv = place.argv(words, plan.conditions)
            done = proc.run(argv, doing="checks", stdin=order, log=log, timeout_s=limit_s, check=False)
            ending = f"ended with status {done.returncode}"
        except CommandFailed:
            ending = f"no end after {limit_s:.0f} s"
    results: tuple[CheckResult, ...] = (
        start_result(follower.results, ending, follower.noise()),
        *complete(plan, follower.results, ending, follower.noise() if follower.results else ""),
    )
    return SmokeRun(list=plan.name, uid=place.uid, seconds=round(time.monotonic() - began, 2), results=results)


@contextlib.contextmanager
def _log_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="orbit-second-prefix-") as folder:
        log = Path(folder) / "log"
        log.touch()
        yield log


def _skipped_checks(runs: Sequence[SmokeRun]) -> tuple[Skipped, ...]:
    return tuple(
        Skipped(what=f"smoke {run.list}/{result.check} as uid {run.uid}", reason=result.detail)
        for run in runs
        for result in run.results
        if result.result == SKIPPED
    )
