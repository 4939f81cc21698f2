"""How the audit's time grows with files, with fatbin containers and with symbols.

    python -m tests.bench.bench_scaling [--rounds N]

Writes environments that differ in one size only, audits each N times without a fact cache, and prints medians of CPU
and wall seconds with the time per unit: a column of equal times per unit is linear growth.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from orbit.audit.run import audit_environment
from orbit.profile.model import load_profile
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

SIZES = {
    "files": (1_000, 10_000, 100_000),
    "containers": (1_000, 10_000, 100_000),
    "symbols": (1_000, 10_000, 100_000),
}


def write_files(env: EnvironmentWriter, count: int) -> None:
    """``count`` small modules in packages of a hundred."""
    env.add("many", {f"many/p{number // 100}/m{number % 100}.py": b"x = 1\n" for number in range(count)})


def write_containers(env: EnvironmentWriter, count: int) -> None:
    """One extension with ``count`` containers of two images."""
    section = write_section(write_container("sm_90a", "sm_100a") * count)
    env.add("ext", {"ext/_c.so": write_elf(sections=[(".nv_fatbin", section)])})


def write_symbols(env: EnvironmentWriter, count: int) -> None:
    """A library that exports ``count`` versioned symbols, and one that imports all of them."""
    names = [f"function_of_the_library_{number}" for number in range(count)]
    env.add("lib", {"lib/libp.so.1": write_elf(soname="libp.so.1", exports=[Export(name, "V1") for name in names])})
    wants = [Import(name, "V1", "libp.so.1") for name in names]
    env.add("user", {"user/_c.so": write_elf(needed=["libp.so.1"], runpath="$ORIGIN/../lib", imports=wants)})


WRITERS: dict[str, Callable[[EnvironmentWriter, int], None]] = {
    "files": write_files,
    "containers": write_containers,
    "symbols": write_symbols,
}


def cpu_seconds() -> float:
    """User and system time of this process and of its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(prefix: Path, rounds: int) -> tuple[float, float]:
    """Median (CPU, wall) seconds of an audit."""
    profile = load_profile("probe")
    samples = []
    for _ in range(rounds):
        cpu, wall = cpu_seconds(), time.perf_counter()
        audit_environment(prefix, profile)
        samples.append((cpu_seconds() - cpu, time.perf_counter() - wall))
    return statistics.median(s[0] for s in samples), statistics.median(s[1] for s in samples)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"{'what':<12}{'count':>10}{'CPU s':>9}{'wall s':>9}{'CPU us per unit':>18}")
    for what, counts in SIZES.items():
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                env = EnvironmentWriter(Path(folder) / "e")
                WRITERS[what](env, count)
                cpu, wall = measure(env.prefix, args.rounds)
            print(f"{what:<12}{count:>10}{cpu:>9.3f}{wall:>9.3f}{cpu / count * 1e6:>18.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
