"""The command line: one thin module per sub-command. Parse, call, render, exit code; heavy imports inside ``run``.

A command module has ``NAME``, ``HELP``, ``configure(parser)`` and ``run(args) -> int``. This module is the only place
where an exception becomes an exit status.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from orbit import __version__
from orbit.errors import ExitCode, InputError, OrbitError

if TYPE_CHECKING:
    from orbit.kernels.build import Limit

COMMANDS = (
    "ship",
    "lock",
    "kernels",
    "env",
    "audit",
    "image",
    "cache",
    "qualify",
    "gate",
    "launch",
    "fingerprint",
    "preflight",
    "doctor",
    "completion",
)


def build_parser() -> argparse.ArgumentParser:
    """The whole command tree (also what shell completion is made from)."""
    parser = argparse.ArgumentParser(
        prog="orbit",
        description="One lockfile in, one verified GPU training image out.",
        epilog="exit codes: 0 clean, 1 findings or failed checks, 2 bad input, 3 something needed is missing, "
        "4 refused, 70 defect in orbit",
    )
    parser.add_argument("--version", action="version", version=f"orbit {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"orbit.cli.{name}")
        child = subparsers.add_parser(name, help=module.HELP, description=module.__doc__)
        module.configure(child)
        child.set_defaults(run=module.run)
    return parser


def add_actions(parser: argparse.ArgumentParser, package: str, actions: Mapping[str, str]) -> None:
    """A command of several actions: each is a module of ``package``, with its line in the help of the command."""
    children = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    for name, text in actions.items():
        module = importlib.import_module(f"{package}.{name}")
        child = children.add_parser(name, help=text, description=module.__doc__)
        module.configure(child)
        child.set_defaults(act=module.run)


def run_action(args: argparse.Namespace) -> int:
    """Run the action that was chosen."""
    status: int = args.act(args)
    return status


def add_profile_option(parser: argparse.ArgumentParser) -> None:
    """``--profile NAME``, the same everywhere."""
    parser.add_argument("--profile", default="cu130", metavar="NAME", help="profile in env/profiles (default: cu130)")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """``--json``, the same everywhere."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout")


def add_tier_option(parser: argparse.ArgumentParser) -> None:
    """``--kernels core|all``, the same everywhere."""
    parser.add_argument(
        "--kernels",
        choices=("core", "all"),
        default="core",
        help="core: the default recipes; all: also those for big machines (default: core)",
    )


def add_limit_options(parser: argparse.ArgumentParser) -> None:
    """``--jobs`` and ``--memory`` of everything that compiles."""
    parser.add_argument("--jobs", type=int, metavar="N", help="compiler steps at once (default: all cores)")
    parser.add_argument(
        "--memory", type=float, metavar="GIB", help="memory for compilers, in GiB (default: all but a margin)"
    )


def limit_of(args: argparse.Namespace) -> Limit:
    """What :func:`add_limit_options` collected. Raises :class:`InputError` for numbers that allow nothing."""
    from orbit.kernels.build import Limit

    if args.jobs is not None and args.jobs < 1:
        raise InputError(f"--jobs {args.jobs}: at least one is needed", fix="leave it out to use all cores")
    if args.memory is not None and not 0 < args.memory < float("inf"):
        raise InputError(f"--memory {args.memory:g}: some is needed", fix="leave it out to use what the machine has")
    return Limit(jobs=args.jobs, memory_gib=args.memory)


def print_json(value: object) -> None:
    """``value`` as indented JSON on stdout, keys sorted, paths as strings."""
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=_path_as_string, order="sorted")
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def _path_as_string(value: object) -> str:
    """For msgspec, which knows no paths."""
    from pathlib import PurePath

    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError(f"no JSON for {type(value).__name__}")


def _interrupt(_number: int, _frame: object) -> None:
    """Let a polite stop (SIGTERM, from a scheduler or ``docker stop``) unwind like Ctrl-C does."""
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        args = build_parser().parse_args(argv)
        status: int = args.run(args)
    except OrbitError as error:
        print(f"orbit: error: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("orbit: interrupted; nothing half-written was kept, the next run goes on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except OSError as error:
        from orbit.core.files import from_os_error

        wrapped = from_os_error(error, "running this command")
        print(f"orbit: error: {wrapped}", file=sys.stderr)
        return wrapped.code
    except Exception as error:  # noqa: BLE001 - the edge of the program: a defect is reported as one, with its trace
        import traceback

        traceback.print_exc()
        print(
            f"orbit: internal error: {error!r}\n  fix: this is a defect in orbit; please report the lines above",
            file=sys.stderr,
        )
        return ExitCode.INTERNAL
    return status
