"""Run a smoke list: every check in its own process, so that a crash or a hang is one failed check and not the end."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orbit.core.guard import GUARD
from orbit.core.proc import Stop, run
from orbit.errors import CommandFailed
from orbit.smoke.checks import load_kind
from orbit.smoke.judge import DRIVER_LIBRARY, Outcome, judge
from orbit.smoke.model import SKIPPED, Check, CheckResult, Context, SmokeList, parse_context
from orbit.smoke.watch import ORPHANS, MemoryWatch, descendants, limit_own_memory

Runner = Callable[[Check, Context], Outcome]
CHILD_FLAG = "--child"
COUNT_DEVICES = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count, value = ctypes.c_int(0), ctypes.c_int(0)
status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
words = []
for index in range(count.value):
    pair = []
    for attribute in (75, 76):  # compute capability, major and minor (cuda.h)
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, index)
        pair.append(str(value.value))
    words.append(".".join(pair))
print(status, *words)
"""
CUDA_ERRORS = {
    100: "no device: was --gpus or the GPU resource given?",
    802: "the NVSwitch fabric is not ready: nvidia-fabricmanager of the host is missing or not of the driver's version",
    803: "the driver's library and its kernel module are of different versions: another libcuda.so.1 comes first",
    804: "a forward-compatibility libcuda.so.1 on hardware or with a driver that does not allow it",
}
"""Answers of cuInit that have a known cause outside the image (cuda.h)."""


class Machine:
    """What this machine offers to checks; asked once, in a process of its own because drivers can crash too."""

    def __init__(self, has_driver: bool, reason: str, capabilities: Sequence[str] = ()) -> None:
        self.has_driver = has_driver
        self.no_gpu_reason = reason
        """Why there is no usable CUDA device; empty when there is one."""
        self.capabilities = tuple(capabilities)
        """Compute capability of each device, ``9.0``."""

    @staticmethod
    def examine() -> Machine:
        """Look for the driver library and for a device it can use."""
        done = run(
            [sys.executable, "-c", COUNT_DEVICES],
            doing="looking for CUDA devices",
            env=dict(os.environ),
            timeout_s=60,
            check=False,
        )
        words = done.stdout.decode(errors="replace").split()
        if done.returncode != 0 or not words:
            missing = DRIVER_LIBRARY in done.stderr.decode(errors="replace")
            reason = f"no NVIDIA driver here ({DRIVER_LIBRARY} cannot be loaded)" if missing else "the driver crashed"
            return Machine(has_driver=not missing, reason=reason)
        status, *capabilities = words
        if status != "0":
            cause = CUDA_ERRORS.get(int(status), "")
            reason = f"{DRIVER_LIBRARY} answers with CUDA error {status}" + (f" ({cause})" if cause else "")
            return Machine(has_driver=True, reason=reason)
        reason = "" if capabilities else "the driver sees no CUDA device"
        return Machine(has_driver=True, reason=reason, capabilities=capabilities)

    def lacks(self, check: Check, context: Context) -> str:
        """Why ``check`` cannot be asked here; empty when it can."""
        if check.needs != "gpu":
            return ""
        if self.no_gpu_reason:
            return self.no_gpu_reason
        if len(self.capabilities) < check.gpus:
            return f"needs {check.gpus} GPUs, {len(self.capabilities)} here"
        if check.target:
            wanted = {target.capability for target in context.targets if target.name == check.target}
            if not wanted & set(self.capabilities[:1]):
                return f"is for {check.target}, this device has compute capability {self.capabilities[0]}"
        return ""


def run_list(
    smoke: SmokeList, context: Context, *, machine: Machine, runner: Runner | None = None
) -> Iterator[CheckResult]:
    """The result of each check, in the list's order, as it becomes known."""
    for check in smoke.checks:
        reason = machine.lacks(check, context)
        if reason:
            yield CheckResult(check=check.name, kind=check.kind, result=SKIPPED, seconds=0.0, detail=reason)
        else:
            outcome = (runner or run_check)(check, context)
            yield judge(check, outcome, has_driver=machine.has_driver)


def run_check(check: Check, context: Context) -> Outcome:
    """Run one check in a child that starts in an empty folder and is stopped, with all it started, at its limits.

    What it left running, also in a session of its own, is ended when this process adopts orphans
    (:class:`orbit.smoke.watch.Orphans`).
    """
    began = time.monotonic()
    GUARD.start()
    before = descendants(os.getpid())
    with tempfile.TemporaryDirectory(prefix="smoke-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        work = folder / "work"
        work.mkdir()
        log, answer = folder / "log", folder / "answer.json"
        order = json.dumps({"check": asdict(check), "context": asdict(context), "answer": str(answer)})
        status, limit, timed_out = 0, "", False
        stop = Stop()
        watch = MemoryWatch(stop, check.memory_budget_mb, spared=before)
        try:
            with watch, stop.covers():
                status = _run_child(check, order, work, log)
        except CommandFailed as error:
            status, timed_out = error.status, True
        except KeyboardInterrupt:
            if not watch.exceeded:
                raise
        if watch.exceeded:
            limit = f"used {watch.peak_mb} MB of memory, its budget is {check.memory_budget_mb} MB"
        left = ORPHANS.end(before)
        said: dict[str, Any] = json.loads(answer.read_text()) if answer.is_file() else {}
        output = log.read_text(errors="replace") if log.is_file() else ""
    return Outcome(
        status=status,
        seconds=time.monotonic() - began,
        answered=bool(said),
        error=said.get("error", ""),
        chain=said.get("chain", ""),
        facts=said.get("facts", {}) | ({"processes_left": left} if left else {}),
        output=output,
        timed_out=timed_out,
        limit=limit,
        peak_mb=watch.peak_mb,
    )


def _run_child(check: Check, order: str, work: Path, log: Path) -> int:
    return run(
        [sys.executable, "-P", "-m", "orbit.smoke", CHILD_FLAG],
        doing=f"check {check.name}",
        env=dict(os.environ),
        cwd=work,
        timeout_s=check.timeout_s,
        log=log,
        stdin=order.encode(),
        check=False,
    ).returncode


def child_main(order: Mapping[str, Any]) -> int:
    """Inside the child: run the check, write the answer beside and rename it, so a crash leaves none."""
    check = Check(**order["check"])
    context = parse_context(order["context"])
    if check.needs == "cpu":  # what a GPU's driver maps is no use of memory
        limit_own_memory(check.memory_budget_mb)
    answer: dict[str, Any]
    try:
        facts = load_kind(check.kind)(check.parameters, context)
        answer = {"facts": facts}
    except BaseException as error:  # noqa: BLE001 - whatever the package under test raises is the result
        traceback.print_exc()
        answer = {"error": one_line(error), "chain": chain_text(error), "facts": getattr(error, "facts", {})}
    path = Path(order["answer"])
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(answer))
    partial.rename(path)
    return 0


def one_line(error: BaseException) -> str:
    """Kind and message of an exception in one line (a bare CheckError is only its message)."""
    text = " ".join(str(error).split())
    if type(error).__name__ == "CheckError":
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def chain_text(error: BaseException) -> str:
    """All exceptions behind ``error``, each with its kind and whole message."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        parts.append(f"{type(current).__name__}: {current}")
        current = current.__cause__ or current.__context__
    return "\n".join(parts)
