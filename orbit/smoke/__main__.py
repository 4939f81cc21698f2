"""``python -m orbit.smoke LIST.toml``: run a smoke list with this interpreter, here.

With ``-`` the list and its context come as JSON on stdin (that is how ``orbit image smoke`` starts it in an image).
Results: one line each on stderr (not with ``-``), JSON lines on stdout with ``--json``. Exit status: 0 all good,
1 a check failed, 3 nothing failed but something could not be checked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orbit.core.paths import data_file
from orbit.errors import ExitCode, InputError, OrbitError
from orbit.smoke.checks import require_known_kinds
from orbit.smoke.model import FAILED, SKIPPED, CheckResult, Context, SmokeList, parse_context, parse_list
from orbit.smoke.runner import CHILD_FLAG, Machine, child_main, run_list


def main(argv: Sequence[str] | None = None) -> int:
    """Run the list named on the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == [CHILD_FLAG]:
        return child_main(json.load(sys.stdin))
    args = _parser().parse_args(arguments)
    try:
        smoke, context = _read_plan() if args.list == "-" else _read_files(args)
        smoke = _only(smoke, args.only)
    except OrbitError as error:
        print(f"orbit.smoke: error: {error}", file=sys.stderr)
        return error.code
    results = []
    with open(args.out, "w", encoding="utf-8") if args.out else open("/dev/null", "w", encoding="utf-8") as out:
        for result in run_list(smoke, context, machine=Machine.examine()):
            results.append(result)
            text = json.dumps(result.as_dict())
            print(text, file=out, flush=True)
            if args.list != "-":
                print(_line(result), file=sys.stderr, flush=True)
            if args.json:
                # engines mix the two streams; a line of its own starts after whatever was half-written before
                print(f"\n{text}", flush=True)
    return exit_code(results)


def exit_code(results: Sequence[CheckResult]) -> int:
    """Exit status for a set of results. No result at all is not success."""
    kinds = {result.result for result in results}
    if FAILED in kinds:
        return ExitCode.FINDINGS
    return ExitCode.MISSING if SKIPPED in kinds or not results else ExitCode.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m orbit.smoke", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "list", metavar="LIST", help="a smoke list (containers/smoke/NAME.toml), or - for JSON on stdin"
    )
    parser.add_argument(
        "--profile", default="cu130", metavar="NAME|PATH", help="profile whose targets are compared with"
    )
    parser.add_argument("--prefix", default="", help="every module must lie below this folder (default: do not ask)")
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run only this check; repeatable")
    parser.add_argument("--json", action="store_true", help="one JSON object per check on stdout")
    parser.add_argument("--out", default="", metavar="FILE", help="write the JSON lines to FILE as well")
    return parser


def _read_plan() -> tuple[SmokeList, Context]:
    plan = json.load(sys.stdin)
    smoke = parse_list(plan["list"], "smoke list on stdin")
    require_known_kinds(smoke, "smoke list on stdin")
    return smoke, parse_context(plan["context"])


def _read_files(args: argparse.Namespace) -> tuple[SmokeList, Context]:
    path = Path(args.list)
    smoke = parse_list(_toml(path), str(path))
    require_known_kinds(smoke, str(path))
    named = Path(args.profile)
    profile = _toml(named if named.suffix == ".toml" else data_file("env", "profiles", f"{args.profile}.toml"))
    keys = ("name", "capability", "sass", "feature")
    targets = [{key: target[key] for key in keys} for target in profile["targets"]]
    return smoke, parse_context({"prefix": args.prefix, "cuda": profile["cuda"], "targets": targets})


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix="smoke lists lie in containers/smoke") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}", fix="correct the syntax at the place named") from None


def _only(smoke: SmokeList, names: Sequence[str]) -> SmokeList:
    known = {check.name for check in smoke.checks}
    unknown = sorted(set(names) - known)
    if unknown:
        raise InputError(f"no check named {', '.join(unknown)}", fix=f"known checks: {', '.join(sorted(known))}")
    if not names:
        return smoke
    kept = tuple(check for check in smoke.checks if check.name in names)
    return SmokeList(name=smoke.name, checks=kept, uids=smoke.uids, description=smoke.description)


def _line(result: CheckResult) -> str:
    return f"{result.result:12} {result.seconds:7.1f}s  {result.check}" + (
        f": {result.detail}" if result.detail else ""
    )


if __name__ == "__main__":
    sys.exit(main())
