#!/usr/bin/env python3
"""Simulate the job server's policy in virtual time on machines of any size: how near to the ideal, is memory kept?

    .venv/bin/python tests/bench/bench_jobs.py [--seeds 5] [--json]
    .venv/bin/python tests/bench/bench_jobs.py --real 2000    steps through a real socket: what admission costs

One package has units of the size of flash-attn's (72 units, two architectures, cicc then ptxas for each, then one host
compile; 2-10 GiB a step), two small ones are built beside it. Memory of a step grows to its peak. Ways of building:

``fixed``  without a job server: MAX_JOBS units at once by the recipe's worst case (10 GiB an architecture), package
           after package, all architectures of a unit at once, units in the order of the source list
``fresh``  the job server when nothing was measured yet: every step reserves what the recipe says
``known``  the job server with estimates of an earlier run, each up to 5 % off

``bound`` is the least time of any schedule: all work over all cores, the longest unit, or memory times seconds over the
budget. ``reserving`` is the least time of any that keeps a step's peak free from its start, as admission must who does
not know when memory will be used. Deterministic: the same seeds give the same numbers.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from orbit.kernels.jobs.policy import (
    GIB,
    Limits,
    Running,
    State,
    Waiting,
    decide,
    inflight,
    machine_limits,
    packages_at_once,
)
from orbit.kernels.jobs.server import JobServer
from tests.kernels.jobs.writers import Client, estimator

MACHINES = ((2, 24), (16, 128), (64, 256))
GROWING = 0.8
"""Share of a step's time in which its memory grows; then it has its peak."""
RECIPE_GIB = {"flash-attn": 10.0, "mamba-ssm": 6.0, "te-torch": 3.0}


@dataclass(frozen=True, slots=True)
class Step:
    """One compiler call of the simulated package."""

    seconds: float
    peak_gib: float


@dataclass(frozen=True, slots=True)
class Unit:
    """One translation unit: a chain for each architecture, then the host compile."""

    package: str
    chains: tuple[tuple[Step, ...], ...]
    host: Step

    def steps(self) -> list[Step]:
        """All of them."""
        return [*(step for chain in self.chains for step in chain), self.host]

    def longest_s(self) -> float:
        """The way through it."""
        return max((sum(s.seconds for s in chain) for chain in self.chains), default=0.0) + self.host.seconds


def packages(seed: int) -> dict[str, list[Unit]]:
    """Random packages: skewed times and sizes, large steps long."""
    rng = random.Random(seed)

    def unit(package: str, low: float, high: float, mean_s: float) -> Unit:
        size = rng.betavariate(1.6, 2.5)  # most units are in the lower half
        chains = []
        for _ in range(2 if mean_s > 30 else 0):
            cicc = Step(mean_s * (0.4 + 1.2 * size) * rng.uniform(0.8, 1.2), low + (high - low) * 0.6 * size)
            ptxas = Step(mean_s * (0.3 + 2.4 * size) * rng.uniform(0.8, 1.2), low + (high - low) * size)
            chains.append((cicc, ptxas))
        return Unit(package, tuple(chains), Step(rng.uniform(20, 60), rng.uniform(1, 2.5)))

    return {
        "flash-attn": [unit("flash-attn", 2, 10, 300) for _ in range(72)],
        "mamba-ssm": [unit("mamba-ssm", 1, 6, 150) for _ in range(9)],
        "te-torch": [unit("te-torch", 1, 3, 0) for _ in range(30)],
    }


@dataclass(slots=True)
class Outcome:
    """What a simulated run came to."""

    wall_s: float = 0.0
    peak_gib: float = 0.0
    busy_s: float = 0.0
    reserved_gib: float = 0.0


@dataclass(order=True, slots=True)
class Event:
    """Something that happens at a time."""

    at: float
    number: int
    then: Callable[[], None] = field(compare=False)


class Simulation:
    """Virtual time: build tools that keep units in flight, and the real policy deciding about their steps."""

    def __init__(
        self,
        limits: Limits,
        total_gib: float,
        estimate: Callable[[str, Step], tuple[float, float]],
        in_use_gib: float = 1.0,
    ) -> None:
        self.limits, self.estimate = limits, estimate
        self.total, self.in_use = total_gib, in_use_gib
        self.now, self.numbers, self.events = 0.0, 0, list[Event]()
        self.waiting: dict[int, tuple[str, Step, float, float, Callable[[], None]]] = {}
        self.running: dict[int, tuple[str, Step, float]] = {}
        self.out = Outcome()

    def later(self, delay_s: float, then: Callable[[], None]) -> None:
        """Do ``then`` after virtual seconds."""
        self.numbers += 1
        heapq.heappush(self.events, Event(self.now + delay_s, self.numbers, then))

    def ask(self, package: str, step: Step, rest_s: float, then: Callable[[], None]) -> None:
        """A step asks to start; ``then`` happens at its end."""
        self.numbers += 1
        self.waiting[self.numbers] = (package, step, rest_s, self.now, then)

    def used_gib(self, number: int, at: float) -> float:
        """What a step holds at a time."""
        _package, step, began = self.running[number]
        return step.peak_gib * min(1.0, (at - began) / (GROWING * step.seconds))

    def admit(self) -> None:
        """Start what the policy says."""
        if not self.waiting:
            return
        used = {number: self.used_gib(number, self.now) for number in self.running}
        capacity = self.total - self.in_use  # available now plus what ours hold
        decision = decide(
            State(
                self.limits,
                tuple(
                    Running(package, int(self.estimate(package, step)[1] * GIB), int(used[n] * GIB), self.now - began)
                    for n, (package, step, began) in self.running.items()
                ),
                tuple(
                    Waiting(n, package, int(self.estimate(package, step)[1] * GIB), rest_s, self.now - asked)
                    for n, (package, step, rest_s, asked, _) in self.waiting.items()
                ),
                int(capacity * GIB),
            )
        )
        for number in decision.start:
            package, step, _rest, _asked, then = self.waiting.pop(number)
            self.running[number] = (package, step, self.now)
            self.out.busy_s += step.seconds
            self.later(step.seconds, lambda n=number, t=then: self.end(n, t))
        reserved = sum(self.estimate(p, s)[1] for p, s, _ in self.running.values())
        self.out.reserved_gib = max(self.out.reserved_gib, reserved)

    def end(self, number: int, then: Callable[[], None]) -> None:
        """A step has ended."""
        del self.running[number]
        then()

    def run(self) -> Outcome:
        """Until nothing is left."""
        self.admit()
        while self.events:
            event = heapq.heappop(self.events)
            # memory is highest just before something ends
            held = sum(self.used_gib(number, event.at) for number in self.running)
            self.out.peak_gib = max(self.out.peak_gib, held)
            self.now = event.at
            event.then()
            while self.events and self.events[0].at == self.now:
                heapq.heappop(self.events).then()
            self.admit()
        assert not self.waiting, "steps were left waiting"
        self.out.wall_s = self.now
        return self.out


class Build:
    """ninja for one package: keeps ``jobs`` units in flight, in the order of the source list."""

    def __init__(self, simulation: Simulation, units: list[Unit], jobs: int, ended: Callable[[], None]) -> None:
        self.simulation, self.todo, self.left, self.ended = simulation, list(reversed(units)), len(units), ended
        for _ in range(jobs):
            self.next()

    def next(self) -> None:
        """Start one more unit."""
        if self.todo:
            self.start(self.todo.pop())

    def start(self, unit: Unit) -> None:
        """All architectures at once, their steps one after another, then the host compile."""
        open_chains = [len(unit.chains)]
        ask = self.simulation.ask

        def expect(step: Step) -> float:
            return self.simulation.estimate(unit.package, step)[0]

        def host() -> None:
            ask(unit.package, unit.host, expect(unit.host), self.done)

        def link(chain: tuple[Step, ...], at: int) -> None:
            if at < len(chain):
                rest = sum(expect(step) for step in (*chain[at:], unit.host))
                ask(unit.package, chain[at], rest, lambda: link(chain, at + 1))
                return
            open_chains[0] -= 1
            if open_chains[0] == 0:
                host()

        for chain in unit.chains:
            link(chain, 0)
        if not unit.chains:
            host()

    def done(self) -> None:
        """A unit has ended."""
        self.left -= 1
        self.next()
        if self.left == 0:
            self.ended()


def served(found: dict[str, list[Unit]], cores: int, total_gib: float, known: bool, seed: int) -> Outcome:
    """All packages behind the job server."""
    rng = random.Random(seed)
    noise: dict[int, float] = {}

    def estimate(package: str, step: Step) -> tuple[float, float]:
        if not known:
            return 300.0, RECIPE_GIB[package]
        off = noise.setdefault(id(step), rng.uniform(0.95, 1.05))
        return step.seconds * off, step.peak_gib * off * 1.05

    simulation = Simulation(machine_limits(cores, int(total_gib * GIB)), total_gib, estimate)
    order = sorted(found, key=lambda name: -sum(s.seconds for unit in found[name] for s in unit.steps()))

    def begin() -> None:
        if order:
            Build(simulation, found[order.pop(0)], inflight(cores), begin)

    for _ in range(packages_at_once(cores)):
        begin()
    return simulation.run()


def fixed(found: dict[str, list[Unit]], cores: int, total_gib: float) -> Outcome:
    """MAX_JOBS from the recipe's memory, package after package; nobody admits, all architectures of a unit at once."""
    free = Limits(cores=10**6, budget_bytes=2**62, margin_bytes=0)
    total = Outcome()
    for name, units in found.items():
        # ``plan.parallel_jobs``: the recipe's memory times architectures
        jobs = max(1, min(cores, int((total_gib - 1) / (RECIPE_GIB[name] * max(1, len(units[0].chains))))))
        simulation = Simulation(free, 1e9, lambda _package, step: (step.seconds, step.peak_gib))
        Build(simulation, units, jobs, lambda: None)
        out = simulation.run()
        total.wall_s += out.wall_s
        total.busy_s += out.busy_s
        total.peak_gib = max(total.peak_gib, out.peak_gib)
    return total


def bound_s(found: dict[str, list[Unit]], limits: Limits, share: float) -> float:
    """The least time any schedule needs in which a step takes ``share`` of its peak, on average over its time."""
    units = [unit for one in found.values() for unit in one]
    steps = [step for unit in units for step in unit.steps()]
    return max(
        sum(step.seconds for step in steps) / limits.cores,
        max(unit.longest_s() for unit in units),
        sum(share * step.seconds * step.peak_gib for step in steps) * GIB / limits.budget_bytes,
    )


def measure(cores: int, total_gib: int, seeds: int) -> list[dict[str, Any]]:
    """One row per way of building."""
    limits = machine_limits(cores, total_gib * GIB)
    rows: dict[str, list[tuple[Outcome, tuple[float, float]]]] = {"fixed": [], "fresh": [], "known": []}
    for seed in range(seeds):
        found = packages(seed)
        least = (bound_s(found, limits, 1 - GROWING / 2), bound_s(found, limits, 1.0))
        rows["fixed"].append((fixed(found, cores, total_gib), least))
        rows["fresh"].append((served(found, cores, total_gib, False, seed), least))
        rows["known"].append((served(found, cores, total_gib, True, seed), least))
    return [
        {
            "cores": cores,
            "gib": total_gib,
            "way": way,
            "bound_h": round(statistics.mean(least for _, (least, _) in outs) / 3600, 2),
            "reserving_h": round(statistics.mean(least for _, (_, least) in outs) / 3600, 2),
            "wall_h": round(statistics.mean(out.wall_s for out, _ in outs) / 3600, 2),
            "over_bound": round(statistics.mean(out.wall_s / least for out, (least, _) in outs), 3),
            "cores_used": round(statistics.mean(out.busy_s / (out.wall_s * cores) for out, _ in outs), 3),
            "peak_gib": round(max(out.peak_gib for out, _ in outs), 1),
            "fits": all(out.peak_gib <= total_gib for out, _ in outs),
        }
        for way, outs in rows.items()
    ]


def real(steps: int) -> None:
    """Let 32 threads send ``steps`` steps through a server of 16 cores; what each costs in CPU and wall time."""
    each = steps // 32
    limits = Limits(cores=16, budget_bytes=64 * GIB, margin_bytes=0)
    waits: list[float] = []

    def work(path: str) -> None:
        for number in range(each):
            client = Client(path)
            began = time.monotonic()
            assert client.ask(source=f"{number}.cu").answer() == "go\n"
            waits.append(time.monotonic() - began)
            client.report()

    with JobServer(limits) as server, server.build(estimator(memory=GIB // 4)):
        began, cpu = time.monotonic(), time.process_time()
        threads = [threading.Thread(target=work, args=(server.path,)) for _ in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    done = len(server.lines("a"))
    print(
        f"{done} steps by 32 clients on 16 cores: {1e6 * cpu_s / done:.0f} us CPU a step, clients included; "
        f"{1e6 * wall_s / done:.0f} us wall; the longest waited {1e3 * max(waits):.1f} ms"
    )


def main() -> int:
    """Print the table; status 1 when the job server let the memory be exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--real", type=int, default=0, metavar="STEPS")
    args = parser.parse_args()
    if args.real:
        real(args.real)
        return 0
    rows = [row for cores, gib in MACHINES for row in measure(cores, gib, args.seeds)]
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(
                f"{row['cores']:>3} cores {row['gib']:>4} GiB  {row['way']:6} bound {row['bound_h']:5.2f} h, reserving "
                f"{row['reserving_h']:5.2f} h, took {row['wall_h']:5.2f} h = {row['over_bound']:5.3f} x bound, "
                f"cores used {row['cores_used']:5.1%}, peak {row['peak_gib']:5.1f} GiB "
                f"{'fits' if row['fits'] else 'DOES NOT FIT'}"
            )
    return 0 if all(row["fits"] for row in rows if row["way"] != "fixed") else 1


if __name__ == "__main__":
    sys.exit(main())
