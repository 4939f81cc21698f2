"""Facts of the driver as values, and the asking of it with a limit: a fabric that is not ready is asked again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.proc import own_python, run
from orbit.errors import CommandFailed
from orbit.launch.preflight.aside import LateError, aside
from orbit.launch.preflight.below import names, text
from orbit.launch.preflight.driver import NOT_READY
from orbit.launch.preflight.rules import Times

PROGRAM = "orbit.launch.preflight.driver"
GRACE_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU that CUDA shows this process."""

    name: str
    uuid: str
    capability: str
    memory: int
    status: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU of this container, as the management library sees it. None: it does not tell."""

    index: int
    status: int = 0
    name: str = ""
    uuid: str = ""
    total: int = 0
    used: int = 0
    ecc: int | None = None
    """Memory errors that could not be corrected, since the driver was loaded."""
    rows_pending: int | None = None
    rows_failed: int | None = None
    pages_pending: int | None = None
    compute_mode: int | None = None
    temperature: int | None = None
    mig: int | None = None
    slowed: bool | None = None
    links: int | None = None
    """Active NVLinks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Everything known of the GPUs here."""

    problem: str = ""
    """Why the driver could not even be asked: it crashed or hung."""
    missing: str = ""
    """Why ``libcuda.so.1`` cannot be loaded."""
    status: int = 0
    """Of cuInit."""
    waited_s: float = 0.0
    """For the fabric."""
    release: str = ""
    """``580.65.06``; of the kernel module, where the management library does not say."""
    module: str = ""
    """Release of the kernel module (/proc/driver/nvidia/version); empty where that is not shown."""
    cuda: str = ""
    library: str = ""
    """The libcuda that is really used."""
    devices: tuple[Device, ...] = ()
    cards: tuple[Card, ...] = ()
    files: tuple[str, ...] = ()
    """``nvidia0``, ``nvidiactl``, ... of /dev."""
    xids: tuple[tuple[str, int], ...] = ()


def ask_driver(
    root: Path,
    times: Times,
    *,
    ask: Callable[[float], Mapping[str, Any]] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Driver:
    """Ask until the fabric is ready, at most ``times.fabric_s``; a driver without an answer is a problem, no wait."""
    began = clock()
    asking = ask or _ask
    while True:
        try:
            said = aside(lambda: asking(times.driver_s)).value(times.driver_s + GRACE_S)
        except (LateError, CommandFailed, ValueError, OSError) as error:
            return _here(root, problem=getattr(error, "what", str(error)), waited_s=clock() - began)
        if said["cuda"]["status"] != NOT_READY or clock() - began + times.fabric_every_s > times.fabric_s:
            break
        sleep(times.fabric_every_s)
    waited = clock() - began if said["cuda"]["status"] == NOT_READY else 0.0
    cuda, nvml = said["cuda"], said["nvml"]
    return _here(
        root,
        missing=cuda["missing"],
        status=cuda["status"],
        waited_s=waited,
        release=nvml.get("release", ""),
        cuda=cuda.get("release", ""),
        library=said["mapped"],
        devices=tuple(Device(**device) for device in cuda["devices"]),
        cards=tuple(Card(**card) for card in nvml["devices"]),
        xids=tuple((str(device), int(number)) for device, number in said["xids"]),
    )


def module_release(root: Path) -> str:
    """Release of the driver's kernel module below ``root``; empty where it does not show."""
    for path in ("sys/module/nvidia/version", "proc/driver/nvidia/version"):
        for word in text(root, path).split():
            if word[:1].isdigit() and word.count(".") >= 1 and word.replace(".", "").isdigit():
                return word
    return ""


def _here(root: Path, **values: Any) -> Driver:
    module = module_release(root)
    values["release"] = values.get("release") or module
    files = tuple(name for name in names(root, "dev") if name.startswith("nvidia") or name == "dxg")
    return Driver(**values, module=module, files=files)


def _ask(limit_s: float) -> Mapping[str, Any]:
    """In a fresh process: a driver that failed once in a process stays failed there."""
    done = run(own_python(PROGRAM), doing="asking the GPU driver", env=dict(os.environ), timeout_s=limit_s, check=False)
    if done.returncode != 0:
        tail = " ".join(done.stderr.decode(errors="replace").strip().splitlines()[-1:])
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        raise CommandFailed(
            f"asking the GPU driver ended with {how} {tail}".rstrip(), argv=[], status=done.returncode, tail=tail
        )
    answer: Mapping[str, Any] = json.loads(done.stdout)
    return answer
