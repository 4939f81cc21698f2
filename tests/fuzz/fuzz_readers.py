"""Coverage-guided fuzzing of every reader of the audit (https://github.com/google/atheris).

    uv run --group fuzz python -m tests.fuzz.fuzz_readers READER [--seconds N] [libFuzzer options]
    uv run --group fuzz python -m tests.fuzz.fuzz_readers all --seconds 120

A reader may refuse an input with :class:`orbit.errors.OrbitError` and nothing else; more than five seconds or 1 GB for
one input is a failure too. Seeds are written by tests/writers, so there is no corpus to keep; an input that breaks a
reader is left in the current folder (``crash-...``) and belongs, made small, into the reader's own test.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["orbit.audit", "orbit.core", "orbit.profile", "packaging"]):
    from tests.fuzz import readers

from orbit.errors import OrbitError

TIMEOUT_S, MEMORY_MB = 5, 1024


@dataclass(frozen=True)
class Count:
    """What one reader went through."""

    reader: str
    seconds: float
    status: int
    report: str


def fuzz(name: str, arguments: list[str]) -> None:
    """Fuzz one reader in this process until libFuzzer ends it."""
    reader = readers.READERS[name]

    def one(data: bytes) -> None:
        with contextlib.suppress(OrbitError):
            reader.read(data)

    with tempfile.TemporaryDirectory(prefix="orbit-fuzz-") as corpus:
        for number, seed in enumerate(reader.seeds()):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        limits = [f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}", "-max_len=65536", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *limits, *arguments, corpus], one)
        atheris.Fuzz()


def run_one(name: str, seconds: int) -> Count:
    """Fuzz one reader in a process of its own for ``seconds``."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.fuzz_readers", name, f"-max_total_time={seconds}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return Count(name, time.monotonic() - began, done.returncode, done.stderr)


def summary(count: Count) -> str:
    """One line for a reader: inputs tried, features reached, how it ended."""
    stats = dict(line.removeprefix("stat::").split(": ", 1) for line in count.report.splitlines() if "stat::" in line)
    runs = stats.get("number_of_executed_units", "?").strip()
    reached = next(
        (line.split("ft: ")[1].split()[0] for line in reversed(count.report.splitlines()) if "ft: " in line), "?"
    )
    return f"{count.reader:12} {runs:>10} inputs  {reached:>6} features  {count.seconds:6.0f} s  exit {count.status}"


def main(argv: Iterable[str] | None = None) -> int:
    """Fuzz one reader, or all of them one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=("all", *readers.READERS))
    parser.add_argument("--seconds", type=int, default=60)
    args, rest = parser.parse_known_args(list(argv) if argv is not None else None)
    if args.reader != "all":
        if not any(option.startswith("-max_total_time") for option in rest):
            rest.append(f"-max_total_time={args.seconds}")
        fuzz(args.reader, rest)
        return 0
    failed = 0
    for name in readers.READERS:
        count = run_one(name, args.seconds)
        print(summary(count), flush=True)
        if count.status:
            failed = 1
            print(count.report[-4000:])
    return failed


if __name__ == "__main__":
    sys.exit(main())
