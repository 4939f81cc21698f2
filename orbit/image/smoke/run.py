"""Smoke: run the checks of ``containers/smoke`` inside a finished image and report what they say.

The list and what it compares with go in as JSON on stdin, results come out as JSON lines; what runs inside is the
image's own copy of ``orbit.smoke``. A check without a result is a failed check: an early end never looks like success.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from orbit.core import proc
from orbit.core.console import Progress
from orbit.core.files import remove_tree
from orbit.core.findings import Skipped
from orbit.core.paths import data_file, data_root
from orbit.core.records import content_key, dump_json, load_json
from orbit.core.store import Entry, Store
from orbit.errors import CommandFailed, InputError, MissingError
from orbit.image.oci import Layout, read_layout
from orbit.image.rootfs import unpack_image
from orbit.image.runtime import ENVIRONMENT_LABEL
from orbit.image.smoke.devices import Devices, host_devices, with_cache
from orbit.image.smoke.docker import Docker, find_docker, find_podman, open_docker, open_podman
from orbit.image.smoke.engine import Choice, Engine, find_bubblewrap, find_unshare, open_engine
from orbit.image.smoke.follow import Follower
from orbit.image.smoke.report import SmokeReport, SmokeRun
from orbit.profile.lock import read_lock
from orbit.profile.model import Profile
from orbit.profile.place import lock_path
from orbit.smoke.checks import require_known_kinds
from orbit.smoke.machine import look, started_now
from orbit.smoke.model import FAILED, PASSED, CheckResult, Context, SmokeList, Target, parse_list, plan_of

FORMAT = 3
KIND = "smoke"
SMOKE_TAG = "smoke"
"""Tag of the image in an engine that takes it in."""
REPORT_FILE = "report.json"
START_S = 120.0
"""Time allowed beyond the checks' own limits: starting the container and the interpreter."""
FINDERS = {
    "docker": (find_docker,),
    "podman": (find_podman,),
    "bubblewrap": (find_bubblewrap,),
    "unshare": (find_unshare,),
    "auto": (find_docker, find_podman, find_bubblewrap, find_unshare),
}

LOADING: dict[str, Callable[..., Docker]] = {"docker": open_docker, "podman": open_podman}
"""Engines that take an image in and unpack it themselves."""


def load_list(name: str) -> SmokeList:
    """Read ``containers/smoke/<name>.toml``; :class:`InputError` names file, check and key."""
    path = data_file("containers", "smoke", f"{name}.toml")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(sorted(item.stem for item in path.parent.glob("*.toml")))
        raise InputError(f"no smoke list named {name!r}", fix=f"known lists: {known}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}", fix="correct the syntax at the place named") from None
    smoke = parse_list(data, str(path))
    require_known_kinds(smoke, str(path))
    if smoke.name != name:
        raise InputError(f"{path}: name = {smoke.name!r} but the file is called {name}.toml", fix="make them equal")
    return smoke


def run_smoke(
    profile: Profile, layout: Path, lists: Sequence[str], store: Store, *, engine: str = "auto", progress: Progress
) -> SmokeReport:
    """Run ``lists`` in the image of the OCI layout at ``layout``, each as every user it names.

    ``engine``: ``docker``, ``podman``, ``bubblewrap``, ``unshare``, or ``auto``: the first of these that works.
    A clean report is kept in the store and reused while image, lists and engine are the same; lists that need a GPU are
    always run. Without any engine ``auto`` reports every list as skipped; an engine asked for by name that does not
    work raises :class:`MissingError`.
    """
    plans = tuple(load_list(name) for name in lists)
    if not plans:
        raise InputError(f"profile {profile.name} names no smoke list", fix='add smoke = ["cpu"] to the profile')
    image = read_layout(layout)
    context = make_context(profile)
    choice = choose(engine)
    if isinstance(choice, str):
        return _nothing_run(profile, image, plans, choice)
    uses_gpu = any(check.needs == "gpu" for plan in plans for check in plan.checks)
    key: dict[str, Any] = {
        "format": FORMAT,
        "image": image.digest,
        "lists": content_key([asdict(plan) for plan in plans]),
        "context": content_key(asdict(context)),
        "engine": choice.name,
        "real_ids": choice.real_ids,
    }
    found = None if uses_gpu else store.find(KIND, key)
    if found is not None:
        for layer in image.layers:
            image.blob(layer)  # there, and of its size: what is not must not pass because its twin did
        return _reused(found)
    started = started_now()
    runs = _run_all(choice, profile, image, plans, context, store=store, gpu=uses_gpu, progress=progress)
    report = SmokeReport(
        profile=profile.name,
        image=image.digest,
        engine=choice.name,
        engine_version=choice.version,
        real_ids=choice.real_ids,
        runs=runs,
        environment=image.config.config.labels.get(ENVIRONMENT_LABEL, ""),
        started=started,
        machine=look(),
    )
    if report.passed and not report.skipped() and not uses_gpu:
        _keep(store, key, report)
    return report


def choose(engine: str) -> Choice | str:
    """The first engine that works; else a sentence with the reason of each."""
    if engine not in FINDERS:
        raise InputError(f"no engine named {engine!r}", fix=f"known engines: {', '.join(sorted(FINDERS))}")
    reasons = []
    for finder in FINDERS[engine]:
        found = finder()
        if isinstance(found, Choice):
            return found
        reasons.append(found)
    text = "; ".join(reasons)
    if engine != "auto":
        raise MissingError(f"engine {engine} cannot be used: {text}", fix="install it, or leave the choice to orbit")
    return text


def make_context(profile: Profile) -> Context:
    """What the checks compare with: the profile's targets and release, and the lock's versions when there is a lock."""
    lock: dict[str, tuple[str, ...]] = {}
    path = lock_path(profile, data_root())
    if path.is_file():
        for package in read_lock(path).closure(profile.extras):
            lock[package.name] = (*lock.get(package.name, ()), package.version)
    targets = tuple(
        Target(name=target.name, capability=target.capability, sass=target.sass, feature=target.feature)
        for target in profile.targets
    )
    return Context(prefix=profile.image.prefix, cuda=profile.cuda, targets=targets, lock=lock)


def _run_all(
    choice: Choice,
    profile: Profile,
    image: Layout,
    plans: Sequence[SmokeList],
    context: Context,
    *,
    store: Store,
    gpu: bool,
    progress: Progress,
) -> tuple[SmokeRun, ...]:
    """Open the image with the engine and run every list as every user it names."""
    devices = host_devices() if gpu else Devices()
    folder = store.scratch("smoke-driver")
    try:
        if choice.name in LOADING:
            opened: Engine = LOADING[choice.name](
                choice, image.path, f"{profile.image.name}:{SMOKE_TAG}", progress=progress
            )
        else:
            tree = unpack_image(image, store, progress=progress)
            opened = open_engine(choice, image, tree)
            devices = with_cache(devices, choice.program, tree.path, folder)
        python = f"{profile.image.prefix}/bin/python{profile.python}"
        runner = _Runner(engine=opened, python=python, context=context, devices=devices, store=store, progress=progress)
        return tuple(runner.run(plan, uid) for plan in plans for uid in plan.uids)
    finally:
        remove_tree(folder)


@dataclass(frozen=True, slots=True)
class _Runner:
    """Everything the runs of one report share."""

    engine: Engine
    python: str
    context: Context
    devices: Devices
    store: Store
    progress: Progress

    def run(self, plan: SmokeList, uid: int) -> SmokeRun:
        """Run one list as one user."""
        self.progress.step(f"smoke: {plan.name}, {len(plan.checks)} checks as uid {uid} with {self.engine.name}")
        order = json.dumps(plan_of(plan, replace(self.context, uid=uid)))
        words = [self.python, "-P", "-m", "orbit.smoke", "-", "--json"]
        argv = self.engine.argv(uid, words, self.devices, plan.conditions)
        folder = self.store.scratch(f"smoke-{plan.name}-{uid}")
        log = folder / "log"
        log.touch()
        began = time.monotonic()
        limit_s = START_S + sum(check.timeout_s for check in plan.checks)
        try:
            with Follower(log, plan, self.progress) as follower:
                ending = _start(argv, order, log, limit_s)
            started = start_result(follower.results, ending, follower.noise())
            noise = follower.noise() if follower.results else ""  # else it is told where the start failed
            results = (started, *complete(plan, follower.results, ending, noise))
        finally:
            remove_tree(folder)
        seconds = round(time.monotonic() - began, 2)
        return SmokeRun(
            list=plan.name, uid=uid, seconds=seconds, results=(*results, *mode_result(self.engine.closed, uid))
        )


def _start(argv: Sequence[str], order: str, log: Path, limit_s: float) -> str:
    """Run to the end; how it ended, in words."""
    try:
        done = proc.run(
            argv, doing="running checks in the image", stdin=order.encode(), log=log, timeout_s=limit_s, check=False
        )
    except CommandFailed:
        return f"no end after {limit_s:.0f} s"
    return f"ended with status {done.returncode}"


def start_result(found: Sequence[CheckResult], ending: str, noise: str) -> CheckResult:
    """Whether the entry point was run and became the command: the first thing an image can get wrong."""
    if found:
        return CheckResult(check="start", kind="start", result=PASSED, seconds=0.0, detail="the entry point ran")
    last = noise.strip().splitlines()[-1:] or ["no output"]
    detail = f"the container did not start: {ending}: {last[0]}"
    return CheckResult(check="start", kind="start", result=FAILED, seconds=0.0, detail=detail, tail=noise)


def complete(plan: SmokeList, found: Sequence[CheckResult], ending: str, noise: str) -> tuple[CheckResult, ...]:
    """Exactly one result per check, in the list's order: what has none failed, with how the run ended."""
    by_name = {result.check: result for result in found}
    return tuple(
        by_name.get(check.name)
        or CheckResult(
            check=check.name,
            kind=check.kind,
            result=FAILED,
            seconds=0.0,
            detail=f"no result: the run in the image {ending}",
            tail=noise,
        )
        for check in plan.checks
    )


def mode_result(closed: Sequence[str] | None, uid: int) -> tuple[CheckResult, ...]:
    """For an unpacked image and a user that is not root: whether the modes in the layers let every user read all.

    It is the whole proof where user ids are mapped to the caller's, who owns the files.
    """
    if closed is None or uid == 0:
        return ()
    shown = ", ".join(closed[:5]) + (f" and {len(closed) - 5} more" if len(closed) > 5 else "")
    result = FAILED if closed else PASSED
    detail = f"not readable for every user: {shown}" if closed else "every path of every layer is readable by any user"
    return (CheckResult(check="modes", kind="modes", result=result, seconds=0.0, detail=detail),)


def _nothing_run(profile: Profile, image: Layout, plans: Sequence[SmokeList], reason: str) -> SmokeReport:
    return SmokeReport(
        profile=profile.name,
        image=image.digest,
        engine="",
        engine_version="",
        real_ids=False,
        runs=(),
        not_run=tuple(Skipped(what=f"smoke {plan.name}", reason=reason) for plan in plans),
    )


def _keep(store: Store, key: dict[str, Any], report: SmokeReport) -> None:
    def work(place: Path) -> dict[str, int]:
        dump_json(place / REPORT_FILE, report)
        return report.counts()

    store.obtain(KIND, key, work)


def _reused(entry: Entry) -> SmokeReport:
    report = load_json(entry.path / REPORT_FILE, SmokeReport)
    return SmokeReport(**{name: getattr(report, name) for name in report.__struct_fields__} | {"reused": True})
