"""Make a record in an environment: its Python, its variables, this copy of Orbit behind its own packages."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from orbit.core.paths import PACKAGE
from orbit.core.proc import run
from orbit.env.activate import activation_of, apply, default_state, state_folders
from orbit.errors import CommandFailed, ExitCode, InputError, MissingError
from orbit.qualify.environment import RECORD
from orbit.qualify.model import Kind, load_definition
from orbit.qualify.options import image_of, words
from orbit.qualify.paths import cases_of
from orbit.qualify.records import Qualification, load_record
from orbit.qualify.settings import settings_of

PYTHONS = ("bin/python3.12", "bin/python3", "bin/python")


def plan(args: argparse.Namespace) -> dict[str, object]:
    """What would run, without running anything. Raises :class:`InputError` for options that cannot be."""
    definition = load_definition(args.definition)
    kinds: tuple[Kind, ...] = ("cpu", "cuda") if args.device == "auto" else (args.device,)
    return {
        "definition": f"{definition.name} {definition.identity[:12]}",
        "python": str(python_of(args.prefix)) if args.prefix else sys.executable,
        "settings": str(settings_of(args.set)),
        "image": image_of(args) or "not named",
        **{f"cases on {kind}": ", ".join(" ".join(case) for case in cases_of(definition, kind, args.path))
           for kind in kinds},
        "runs of each": args.repeats,
        "out": str(args.out),
    }  # fmt: skip


def python_of(prefix: Path) -> Path:
    """The interpreter of an environment. Raises :class:`InputError` when there is none."""
    for name in PYTHONS:
        if (prefix / name).is_file():
            return prefix.absolute() / name
    raise InputError(f"{prefix}: no environment (no {PYTHONS[0]} in it)", fix="make one: orbit env create")


def record_in(prefix: Path, args: argparse.Namespace) -> Qualification:
    """Record with the environment at ``prefix``, as the options say.

    Raises :class:`MissingError` when that environment cannot run it, with the end of what it said.
    """
    python = python_of(prefix)
    program = f"import sys; sys.path.append({str(PACKAGE.parent)!r}); from orbit.qualify.__main__ import main; "
    before = args.out.stat().st_mtime_ns if args.out.exists() else 0
    done = run(
        [python, "-P", "-s", "-c", f"{program}sys.exit(main())", *words(args)],
        doing=f"qualifying {prefix}",
        env=environment_of(prefix),
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    written = args.out.exists() and args.out.stat().st_mtime_ns != before
    if done.returncode not in (ExitCode.OK, ExitCode.FINDINGS, ExitCode.MISSING) or not written:
        lines = said.strip().splitlines()[-8:]
        what = f"{prefix}: no record was made (status {done.returncode})\n" + "\n".join(f"  | {line}" for line in lines)
        if done.returncode == ExitCode.USAGE:
            raise InputError(what, fix="correct what the last line names")
        if done.returncode in (ExitCode.MISSING, ExitCode.FINDINGS):
            raise MissingError(what, fix="it needs torch and msgspec in that environment: orbit env create")
        raise CommandFailed(what, argv=[str(python)], status=done.returncode, tail="")
    return load_record(args.out)


def environment_of(prefix: Path) -> dict[str, str]:
    """Variables of a process there: the activation contract, where it is one of Orbit's environments."""
    if not (prefix / RECORD).is_file():
        return {}
    state = default_state()
    variables = activation_of(prefix, state)
    for folder in state_folders(variables, state):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return apply(variables, {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ})
