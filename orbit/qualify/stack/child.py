"""One run, in a process of its own: an order comes on stdin, each case leaves a file (:mod:`orbit.qualify.trials`)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
import torch

from orbit.core.files import write_atomic
from orbit.core.records import compact_json
from orbit.qualify.judge import Trial
from orbit.qualify.paths import find_path
from orbit.qualify.records import Settings
from orbit.qualify.stack.identity import identity_of
from orbit.qualify.stack.kernels import missing, ops_of
from orbit.qualify.stack.network import run_all
from orbit.qualify.stack.recorder import Recorder
from orbit.qualify.tape import Tape
from orbit.qualify.trials import IDENTITY_FILE, Blobs, Order, write_trial


def main() -> None:
    """Run the order on stdin."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    folder = Path(order.folder)
    pin(order.settings)
    write_atomic(folder / IDENTITY_FILE, compact_json(identity_of(order.kind)))
    blobs = Blobs(folder)
    for number, (path, dtype) in enumerate(order.cases):
        write_trial(folder, number, run_case(order, path, dtype, blobs))


def pin(settings: Settings) -> None:
    """Make torch do what the settings say. The variables were set before this process began."""
    torch.set_num_threads(settings.threads)
    torch.use_deterministic_algorithms(settings.deterministic)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = settings.tf32
    torch.backends.cudnn.allow_tf32 = settings.tf32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = settings.reduced_precision


def run_case(order: Order, path: str, dtype: str, blobs: Blobs) -> Trial:
    """One case; whatever its kernels raise is its result."""
    chosen = find_path(path)
    reason = missing(chosen)
    if reason:
        return Trial(path=path, dtype=dtype, status="skipped", reason=reason)
    tape = Tape(blobs, order.definition.keep_bytes)
    kind = getattr(torch, dtype)
    began = time.monotonic()
    try:
        ops = ops_of(chosen, order.settings, kind, order.kind)
        where = (kind, order.kind)
        phases = run_all(Recorder(tape), ops, order.definition, where, trains=chosen.trains)
    except Exception as error:  # noqa: BLE001 - whatever the kernels raise is the result
        text = " ".join(str(error).split())[:400]
        return Trial(path=path, dtype=dtype, status="failed", reason=f"{type(error).__name__}: {text}")
    return Trial(
        path=path,
        dtype=dtype,
        status="ran",
        phases=tuple(phases),
        seconds=round(time.monotonic() - began, 3),
        entries=tuple(tape.entries),
    )
