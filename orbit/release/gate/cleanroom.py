"""The clean room: a fresh clone of the commit, empty caches, nothing of the caller, and only declared hosts.

``./orbitw ship`` runs there as anybody would run it, and the image must have the candidate's digest. Layout of a room::

    .orbit-clean-room      says that this folder may be emptied
    clone/                 the commit
    cache/ uv/ home/ tmp/  ORBIT_CACHE, UV_CACHE_DIR, HOME, TMPDIR
    dist/                  the run
    log                    everything that was printed
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.core import proc
from orbit.core.beside import Beside
from orbit.core.console import Progress
from orbit.core.files import exclusive, sha256_file
from orbit.core.paths import folder_named
from orbit.errors import ExitCode, MissingError, OrbitError, RefusedError
from orbit.image.diff.records import ImageDiff
from orbit.image.diff.run import Options as DiffOptions
from orbit.image.diff.run import diff_images
from orbit.image.diff.text import render as render_diff
from orbit.profile.model import Profile
from orbit.release.evidence import utc_now
from orbit.release.gate.candidate import Candidate
from orbit.release.gate.facts import CleanRoom
from orbit.release.gate.fence import Seen, fence, upstream
from orbit.release.gate.inside import FAILED as NOT_CLOSED
from orbit.release.gate.inside import Order
from orbit.release.gate.model import CleanRoomPolicy
from orbit.release.gate.room import (
    clone,
    declared_hosts,
    empty_room,
    make_room,
    passed_on,
    require_commit,
    room_environment,
)
from orbit.release.seal import SEAL, read_seal

LOCK = "clean-room.lock"
DIFFERENCES = 200
"""Lines of an image comparison that are kept."""
POLL_S = 0.5
ERROR = "orbit: error: "
STOPS: Mapping[int, type[OrbitError]] = {ExitCode.MISSING: MissingError, ExitCode.REFUSED: RefusedError}
"""Statuses of the run inside that say nothing about the image: they end the gate with the same status."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller may choose."""

    place: Path
    """Folder for the room; made, and emptied afterwards."""
    keep: bool = False
    """Leave the room as it is when it is done."""
    fence: str = "auto"
    """``auto``: a namespace where the machine allows one, else the proxy alone; ``none``: no fence at all."""


@dataclass(frozen=True, slots=True)
class Job:
    """One clean room: what is built again, from where, under which rules."""

    candidate: Candidate
    profile: Profile
    root: Path
    """The checkout that is cloned."""
    policy: CleanRoomPolicy
    options: Options
    progress: Progress

    @property
    def place(self) -> Path:
        """Folder of the room. Raises :class:`InputError` for one that cannot be a folder."""
        return folder_named("--room", str(self.options.place))


def clean_room(job: Job) -> CleanRoom:
    """Build the candidate's commit from nothing and compare the digests.

    A build that fails, and another image, are results. Raises :class:`RefusedError` when another gate is in the room,
    when it holds something else, for a dirty checkout or a full disk; :class:`MissingError` when a source, a tool or
    the commit is not there.
    """
    commit, place = job.candidate.commit, job.place
    require_commit(job.root, commit)
    with exclusive(place.parent / f".{place.name}.{LOCK}", f"orbit gate in {place}"):
        empty_room(place)
        try:
            make_room(place)
            job.progress.step(f"clean room: cloning {commit[:12]} into {place / 'clone'}")
            clone(job.root, commit, place / "clone")
            return _built(job)
        finally:
            if not job.options.keep:
                job.progress.step(f"clean room: emptying {place}")
                empty_room(place)


def ship_command(candidate: Candidate, profile: Profile, place: Path) -> tuple[str, ...]:
    """What is run in the clone."""
    return ("./orbitw", "ship", "--profile", profile.name, "--kernels", candidate.tier, "--dist", str(place / "dist"))


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ran:
    """How the command ended, and what it asked for."""

    status: int
    log: str
    fence: str
    fence_reason: str
    seen: Seen


def _built(job: Job) -> CleanRoom:
    candidate, profile, place = job.candidate, job.profile, job.place
    started, began = utc_now(), time.monotonic()
    ran = _run(ship_command(candidate, profile, place), job)
    stop = STOPS.get(ran.status)
    if stop is not None:
        raise stop(f"the clean room cannot be built: {_said(ran)}", fix=_fix(ran))
    made = place / "dist" / profile.name
    seal = read_seal(made) if ran.status == 0 else None
    digest = seal.image if seal else ""
    result = "failed" if seal is None else "same" if digest == candidate.digest else "different"
    room = CleanRoom(
        profile=profile.name,
        commit=candidate.commit,
        candidate=candidate.digest,
        digest=digest,
        tier=candidate.tier,
        result=result,
        reason=_said(ran) if seal is None else "",
        fence=ran.fence,
        fence_reason=ran.fence_reason,
        contacted=dict(ran.seen.contacted),
        refused=dict(ran.seen.refused),
        environment=tuple(sorted(passed_on(job.policy))),
        run_evidence=sha256_file(made / SEAL) if seal else "",
        started=started.isoformat(),
        finished=utc_now().isoformat(),
        seconds=round(time.monotonic() - began, 1),
    )
    return _explained(room, candidate, made, job.progress) if result == "different" else room


def _explained(room: CleanRoom, candidate: Candidate, made: Path, progress: Progress) -> CleanRoom:
    """With what the two images differ in, down to the part of a file."""
    progress.step("clean room: another image; looking for the difference")
    found = diff_images(str(candidate.run / "image"), str(made / "image"), DiffOptions(), progress)
    lines = render_diff(found, limit=None).splitlines()
    return msgspec.structs.replace(room, reason=summed_up(found), differences=tuple(lines[:DIFFERENCES]))


def summed_up(found: ImageDiff) -> str:
    """The difference in a sentence."""
    layers = [layer.right or layer.left for layer in found.layers if layer.change != "same"]
    files = sum(found.counts.values())
    causes = ", ".join(f"{cause} ({count})" for cause, count in list(found.causes.items())[:3])
    said = f"{len(layers)} layer(s) differ ({', '.join(layers[:5])}), {files} file(s)" if layers else "documents differ"
    return f"{said}; causes: {causes}" if causes else said


def _run(argv: tuple[str, ...], job: Job) -> _Ran:
    """Run a command in the clone behind the fence."""
    place, home = job.place, str(job.place / "clone")
    hosts = declared_hosts(place / "clone", job.profile, job.policy)
    environment = room_environment(place, job.policy)
    log = place / "log"
    if job.options.fence == "none":
        own = proc.clean_env()
        kept = {name: own[name] for name in own if name.lower() in proc.PROXY_VARIABLES}
        order = Order(argv=argv, cwd=home, environment={**environment, **kept}, socket="", namespace=False)
        status = _ordered(order, log, job.progress)
        return _Ran(status, _tail(log), "none", "--fence none was given", Seen({}, {}, {}))
    with fence(place, hosts, upstream()) as wall:
        reason = why_no_namespace()
        job.progress.step(f"clean room: {' '.join(argv)}, {len(hosts)} declared hosts, fence {_kind(reason)}")
        order = Order(argv=argv, cwd=home, environment=environment, socket=str(wall.path), namespace=not reason)
        status = _ordered(order, log, job.progress)
        return _Ran(status, _tail(log), _kind(reason), reason, wall.seen())


def _kind(reason: str) -> str:
    return "proxy" if reason else "namespace"


def why_no_namespace() -> str:
    """Why this machine gives us no network namespace; empty when it does. Tried, not guessed."""
    order = Order(argv=("true",), cwd="/", environment={"PATH": os.defpath}, socket="", namespace=True)
    done = proc.run(
        proc.own_python("orbit.release.gate.inside"),
        doing="trying a network namespace",
        stdin=msgspec.json.encode(order),
        check=False,
    )
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"status {done.returncode}"


def _ordered(order: Order, log: Path, progress: Progress) -> int:
    """Start the first process of the room; its status when all is done."""
    log.touch()
    with _Told(log, progress):
        done = proc.run(
            proc.own_python("orbit.release.gate.inside"),
            doing="building in the clean room",
            stdin=msgspec.json.encode(order),
            log=log,
            check=False,
        )
    if done.returncode == NOT_CLOSED:
        raise RefusedError(f"the clean room could not be closed: {_tail(log)}", fix="try --fence none, which says so")
    return done.returncode


class _Told(Beside):
    """Passes the lines of a growing log on as progress."""

    def __init__(self, log: Path, progress: Progress) -> None:
        super().__init__("clean-room-log")
        self._log, self._progress = log, progress

    def work(self, ended: threading.Event) -> None:
        """Read until the block is over, and then the rest."""
        with open(self._log, encoding="utf-8", errors="replace") as file:
            rest = ""
            last = False
            while not last:
                last = ended.wait(POLL_S)
                *lines, rest = (rest + file.read()).split("\n")
                for line in lines:
                    if line.strip():
                        self._progress.step(f"clean room: | {line.strip()}")


def _tail(log: Path, lines: int = 40) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _said(ran: _Ran) -> str:
    """What the run said when it stopped: its own error, else its last line; and hosts nobody declared."""
    lines = [line for line in ran.log.splitlines() if line.strip()]
    error = next((line for line in reversed(lines) if line.startswith((ERROR, "orbitw: error: "))), "")
    said = error.partition("error: ")[2] or (lines[-1].strip() if lines else f"status {ran.status}")
    undeclared = f"; not declared, and refused: {', '.join(ran.seen.refused)}" if ran.seen.refused else ""
    failed = "".join(f"; {host}: {why}" for host, why in ran.seen.failed.items())
    return f"{said}{undeclared}{failed}"


def _fix(ran: _Ran) -> str:
    """The next step that the run gave."""
    lines = [line.strip() for line in ran.log.splitlines()]
    own = next((line.removeprefix("fix: ") for line in reversed(lines) if line.startswith("fix: ")), "")
    if ran.seen.refused:
        return f"declare the hosts in ci/gate.toml, [cleanroom], if they are right; {own}".rstrip("; ")
    return own or "see what it said"
