"""``python -m orbit.smoke [LIST...]``: run smoke lists with this interpreter, here.

That is how an image is checked where no engine can be started: inside a job that already runs in it (Slurm, HTCondor,
Kubernetes, Ray). A LIST is a name of containers/smoke or a file; without one, those of the profile and ``job`` are run.
With ``-`` list and context come as JSON on stdin (that is how ``orbit image smoke`` starts it in an image).
Results: one line each on stderr (not with ``-``). Exit status: 0 all good, 1 a check failed, 2 bad usage, 3 nothing
failed but something could not be checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from orbit.core.files import write_atomic
from orbit.core.junit import to_xml
from orbit.core.paths import data_file
from orbit.errors import ExitCode, InputError, OrbitError
from orbit.smoke.checks import require_known_kinds
from orbit.smoke.machine import look, started_now
from orbit.smoke.model import FAILED, SKIPPED, CheckResult, Context, SmokeList, parse_context, parse_list
from orbit.smoke.report import IN_PLACE, ListRun, document, suite
from orbit.smoke.runner import CHILD_FLAG, Machine, child_main, run_list
from orbit.smoke.watch import ORPHANS

DEFAULT_PROFILE = "cu130"
ENVIRONMENT = Path("share", "orbit", "environment.json")
JOB_LIST = "job"
IMAGE = "ORBIT_IMAGE_DIGEST"
"""Variable that names the image this runs in, when ``--image`` does not."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the lists named on the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == [CHILD_FLAG]:
        return child_main(json.load(sys.stdin))
    args = _parser().parse_args(arguments)
    started = started_now()
    try:
        args.image = _digest(args.image or os.environ.get(IMAGE, ""))
        piped = args.list == ["-"]
        profile, plans, context = ("", *_read_plan()) if piped else _read_files(args)
        plans = _only(plans, args.only)
        machine = Machine.examine()
        with open(args.out or os.devnull, "w", encoding="utf-8") as out:
            runs = [_run(plan, context, machine, out, args, quiet=piped) for plan in plans]
        _write(args, runs, profile, started)
    except OrbitError as error:
        print(f"orbit.smoke: error: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"orbit.smoke: error: {error.filename or args.out}: {error.strerror}", file=sys.stderr)
        return ExitCode.REFUSED
    return exit_code([result for run in runs for result in run.results])


def _run(
    plan: SmokeList, context: Context, machine: Machine, out: TextIO, args: argparse.Namespace, *, quiet: bool
) -> ListRun:
    began = time.monotonic()
    results = []
    for result in run_list(plan, context, machine=machine):
        results.append(result)
        text = json.dumps(result.as_dict())
        print(text, file=out, flush=True)
        if not quiet:
            print(_line(result), file=sys.stderr, flush=True)
        if args.json == "-":
            # engines mix the two streams; a line of its own starts after whatever was half-written before
            print(f"\n{text}", flush=True)
    seconds = round(time.monotonic() - began, 2)
    return ListRun(list=plan.name, uid=os.getuid(), seconds=seconds, results=tuple(results))


def _write(args: argparse.Namespace, runs: Sequence[ListRun], profile: str, started: str) -> None:
    if args.json not in ("", "-"):
        report = document(
            runs,
            profile=profile,
            image=args.image,
            environment=str(_environment().get("identity", "")),
            started=started,
            machine=look(),
        )
        write_atomic(Path(args.json), json.dumps(report, indent=2).encode() + b"\n")
    if args.junit:
        properties = {"profile": profile, "engine": IN_PLACE}
        suites = [suite(run.list, run.uid, run.seconds, run.results, properties) for run in runs]
        write_atomic(Path(args.junit), to_xml("orbit smoke", suites))


def exit_code(results: Sequence[CheckResult]) -> int:
    """Exit status for a set of results. No result at all is not success."""
    kinds = {result.result for result in results}
    if FAILED in kinds:
        return ExitCode.FINDINGS
    return ExitCode.MISSING if SKIPPED in kinds or not results else ExitCode.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m orbit.smoke", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("list", nargs="*", metavar="LIST", help="name or file of a smoke list; - for JSON on stdin")
    parser.add_argument(
        "--profile",
        default="",
        metavar="NAME|PATH",
        help="whose targets are compared with (default: the environment's)",
    )
    parser.add_argument(
        "--prefix",
        default="",
        help="every module must lie below this folder (default: the environment's, if it is one)",
    )
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run only this check; repeatable")
    parser.add_argument(
        "--json", nargs="?", const="-", default="", metavar="FILE",
        help="the report as JSON in FILE; without FILE one object per check on stdout",
    )  # fmt: skip
    parser.add_argument(
        "--image",
        default="",
        metavar="DIGEST",
        help=f"digest of the image this runs in, for the report (default: ${IMAGE})",
    )
    parser.add_argument("--junit", default="", metavar="FILE", help="the report as JUnit XML in FILE")
    parser.add_argument("--out", default="", metavar="FILE", help="one JSON object per check in FILE, as they come")
    return parser


def _read_plan() -> tuple[list[SmokeList], Context]:
    plan = json.load(sys.stdin)
    smoke = parse_list(plan["list"], "smoke list on stdin")
    require_known_kinds(smoke, "smoke list on stdin")
    return [smoke], parse_context(plan["context"])


def _read_files(args: argparse.Namespace) -> tuple[str, list[SmokeList], Context]:
    record = _environment()
    named = args.profile or record.get("profile", DEFAULT_PROFILE)
    profile = _toml(Path(named) if named.endswith(".toml") else data_file("env", "profiles", f"{named}.toml"))
    plans = [_list(name) for name in args.list or [*profile["smoke"], *profile.get("smoke_gpu", ()), JOB_LIST]]
    keys = ("name", "capability", "sass", "feature")
    targets = [{key: target[key] for key in keys} for target in profile["targets"]]
    prefix = args.prefix or (sys.prefix if record else "")
    context = {"prefix": prefix, "cuda": profile["cuda"], "targets": targets, "in_place": True}
    return str(profile["name"]), plans, parse_context(context)


def _digest(text: str) -> str:
    """The digest of an image, or nothing. Raises :class:`InputError` for anything else."""
    if text and not DIGEST.fullmatch(text):
        raise InputError(f"{text!r} is no image digest", fix="write sha256: and 64 hex digits, as a registry shows it")
    return text


def _environment() -> dict[str, Any]:
    """The record of the environment this interpreter belongs to; empty when it belongs to none."""
    try:
        record = json.loads((sys.prefix / ENVIRONMENT).read_bytes())
    except OSError:
        return {}
    return record if isinstance(record, dict) else {}


def _list(name: str) -> SmokeList:
    path = Path(name) if name.endswith(".toml") else data_file("containers", "smoke", f"{name}.toml")
    smoke = parse_list(_toml(path), str(path))
    require_known_kinds(smoke, str(path))
    return smoke


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix="smoke lists lie in containers/smoke") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}", fix="correct the syntax at the place named") from None


def _only(plans: Sequence[SmokeList], names: Sequence[str]) -> list[SmokeList]:
    known = {check.name for smoke in plans for check in smoke.checks}
    unknown = sorted(set(names) - known)
    if unknown:
        raise InputError(f"no check named {', '.join(unknown)}", fix=f"known checks: {', '.join(sorted(known))}")
    if not names:
        return list(plans)
    kept = [replace(smoke, checks=tuple(check for check in smoke.checks if check.name in names)) for smoke in plans]
    return [smoke for smoke in kept if smoke.checks]


def _line(result: CheckResult) -> str:
    return f"{result.result:12} {result.seconds:7.1f}s  {result.check}" + (
        f": {result.detail}" if result.detail else ""
    )


if __name__ == "__main__":
    if CHILD_FLAG not in sys.argv:
        ORPHANS.adopt()
    sys.exit(main())
