"""Make a record with this interpreter, here: where torch is installed, or inside an image."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import cast

from orbit.core.console import Console, Progress
from orbit.core.proc import own_python, run
from orbit.core.records import compact_json
from orbit.errors import CommandFailed, ExitCode, MissingError
from orbit.qualify.environment import own_environment
from orbit.qualify.model import Kind, load_definition
from orbit.qualify.options import image_of
from orbit.qualify.paths import cases_of
from orbit.qualify.records import Qualification, save_record
from orbit.qualify.settings import settings_of
from orbit.qualify.trials import Order, make_record

CHILD = "orbit.qualify.stack.child"
DEVICES = "orbit.qualify.stack.devices"
TIMEOUT_S = 1800.0
"""Of one process: all cases once. The first use of a kernel may compile it."""
STATUS = {"passed": ExitCode.OK, "failed": ExitCode.FINDINGS, "unproven": ExitCode.MISSING}
PINNED = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONHASHSEED": "0"}
"""Variables that must be set before the first use of a device. cuBLAS is repeatable with a workspace of its own
(https://docs.nvidia.com/cuda/cublas/, "Results Reproducibility")."""


def record_here(args: argparse.Namespace, progress: Progress | None = None) -> Qualification:
    """Record as the options say and write the record. Raises what :func:`orbit.qualify.trials.make_record` does."""
    shown = progress or Console()
    definition = load_definition(args.definition)
    settings = settings_of(args.set)
    image = image_of(args)
    kind = device_kind(args.device)
    record = make_record(
        definition,
        args.out,
        start=start_process,
        cases=list(cases_of(definition, kind, args.path)),
        kind=kind,
        settings=settings,
        repeats=args.repeats,
        image=image,
        profile=args.profile or str(own_environment().get("profile", "")),
        progress=shown,
    )
    save_record(args.out, record)
    return record


def start_process(order: Order) -> str:
    """Run an order in a fresh interpreter. Returns how it ended, when not well."""
    pinned = PINNED if order.settings.deterministic else {}
    try:
        done = run(
            own_python(CHILD),
            doing="running the frozen batch",
            env={**os.environ, **pinned, "OMP_NUM_THREADS": str(order.settings.threads)},
            cwd=Path(order.folder),
            timeout_s=TIMEOUT_S,
            stdin=compact_json(order),
            check=False,
        )
    except CommandFailed as late:
        return late.what
    if done.returncode == 0:
        return ""
    tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    ended = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    return ": ".join([ended, *tail])


def device_kind(asked: str) -> Kind:
    """``cpu`` or ``cuda``; ``auto`` takes a GPU where torch sees one. Raises :class:`MissingError` without torch."""
    if asked != "auto":
        return cast("Kind", asked)
    done = run(
        own_python(DEVICES), doing="looking for torch and a GPU", env=dict(os.environ), timeout_s=300, check=False
    )
    said = done.stdout.decode(errors="replace").split()
    if done.returncode != 0 or said[:1] != ["devices"]:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise MissingError(
            f"torch cannot be used here: {' '.join(tail) or 'no answer'}",
            fix="name an environment that has it: orbit qualify record --prefix PREFIX; or run this in the image",
        )
    return "cuda" if said[1] != "0" else "cpu"
