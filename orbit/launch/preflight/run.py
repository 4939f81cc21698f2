"""All checks of one node. What can block runs beside the rest, each with a limit of its own."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.errors import OrbitError
from orbit.launch.fingerprint.model import Fingerprint
from orbit.launch.preflight import gpu_tests
from orbit.launch.preflight.aside import Answer, LateError, aside
from orbit.launch.preflight.cgroup import read_cgroup
from orbit.launch.preflight.coverage import read_coverage
from orbit.launch.preflight.gpu_facts import Driver, ask_driver
from orbit.launch.preflight.gpus import judge_gpus
from orbit.launch.preflight.handles import Taken, judge_handles, try_take
from orbit.launch.preflight.identity import judge_identity, read_identity
from orbit.launch.preflight.interfaces import Network, judge_network, read_network
from orbit.launch.preflight.limits import judge_bounds, raise_open_files, read_bounds
from orbit.launch.preflight.memory import judge_memory, read_memory
from orbit.launch.preflight.model import Check, Demand, Measured, NodeReport
from orbit.launch.preflight.mounts import read_mounts
from orbit.launch.preflight.ports import judge_ports, read_ports
from orbit.launch.preflight.processors import judge_processors, read_processors
from orbit.launch.preflight.proxy import judge_proxy
from orbit.launch.preflight.rdma import judge_rdma, read_rdma
from orbit.launch.preflight.rules import Rules, load_rules
from orbit.launch.preflight.say import failed, passed, skipped
from orbit.launch.preflight.settings import judge_settings
from orbit.launch.preflight.stack_checks import judge_answers, measured_of
from orbit.launch.preflight.storage import GRACE_S, Places, Tried, find_places, judge_storage, try_folders
from orbit.smoke.machine import started_now

ROOT = Path("/")
DEVICES = "the devices were not tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is asked beside the rest because it can block."""

    network: Answer[Network]
    files: Answer[dict[str, Tried]]
    taken: Answer[Taken]
    driver: Answer[Driver] | None
    fingerprint: Answer[Fingerprint] | None


def check_node(
    demand: Demand,
    *,
    rank: int,
    host: str,
    env: Mapping[str, str] | None = None,
    root: Path = ROOT,
    prefix: Path | None = None,
    devices: bool | None = None,
    cpu: bool = False,
    several: bool | None = None,
    fingerprint: Callable[[], Fingerprint] | None = None,
) -> NodeReport:
    """Hold this node against ``demand``; nothing is changed but the soft limit of open files, which is raised.

    ``prefix``: the environment that runs here (default: the interpreter's own). ``devices``: whether GPUs are tested
    through torch (default: when GPUs are demanded); with ``cpu`` the same runs on processors, and no check of a GPU.
    ``several``: whether the job has other nodes (default: when it has a head or a shared folder). ``fingerprint``:
    how to make that of this node. ``root`` and ``env`` stand for the machine in tests. Never raises for what it finds.
    """
    began, started, rules = time.monotonic(), started_now(), load_rules()
    if env is None:
        env = os.environ
    if root == ROOT:
        raise_open_files()
    mounts, cgroup = read_mounts(root), read_cgroup(root)
    places = find_places(demand, env, os.getuid())
    gpus = bool(demand.gpus) and not cpu
    beside = Beside(
        network=aside(functools.partial(read_network, root, demand.head, rules.times.name_s)),
        files=aside(functools.partial(try_folders, places.all, mounts, rules.times.file_s)),
        taken=aside(try_take),
        driver=aside(functools.partial(ask_driver, root, rules.times)) if gpus else None,
        fingerprint=aside(fingerprint) if fingerprint is not None else None,
    )
    identity = aside(functools.partial(read_identity, root, env))
    adapters = read_rdma(root)
    usable = tuple(adapter.name for adapter in adapters if adapter.usable)
    memory, bounds = read_memory(root, cgroup, mounts), read_bounds(root, cgroup)
    checks = [
        *judge_memory(memory, demand, rules.limits),
        *judge_processors(read_processors(root, cgroup), demand, env),
        *judge_bounds(bounds, demand, rules.limits, env, rdma=bool(usable)),
        *judge_rdma(adapters, demand),
        *judge_ports(read_ports(root, demand.ports)),
        *judge_settings(env, demand, rules),
    ]
    checks += _gathered("user", identity, rules.times.file_s, lambda found: judge_identity(found, demand, env))
    checks += _gathered("pidfd-getfd", beside.taken, rules.times.file_s, judge_handles)
    network = _network(beside, rules)
    if several is None:
        several = bool(demand.head or demand.shared)
    if network is None:
        checks.append(failed("own-name", "names and interfaces: no answer in time", "look at /etc/resolv.conf"))
    else:
        own = (network.own.name, network.route_address, demand.head, *(network.head.addresses if network.head else ()))
        checks += [*judge_network(network, env, several=several), *judge_proxy(env, own)]
    checks += _files(beside, places, lambda tried: judge_storage(places, tried, mounts, demand, rules), rules)
    tests, extra = _devices(beside, demand, rules, env, prefix or Path(sys.prefix), devices=devices, cpu=cpu)
    checks += extra
    one, told = _fingerprint(beside, rules)
    taken = _or_none(beside.taken, 0.0)
    measured = Measured(
        **measured_of(tests),
        pidfd_getfd=not taken.number if taken is not None and not taken.problem else None,
        shm_bytes=memory.shm,
        memlock_bytes=bounds.locked_bytes,
        rdma=usable,
        interface=network.route_interface if network else "",
        address=network.route_address if network else "",
    )
    return NodeReport(
        rank=rank,
        host=host,
        started=started,
        seconds=round(time.monotonic() - began, 3),
        demand=demand,
        checks=(*checks, *told),
        measured=measured,
        fingerprint=one,
    )


def with_check(report: NodeReport, check: Check) -> NodeReport:
    """``report`` with one more check, e.g. that of the clocks, which is known when nodes have met."""
    return msgspec.structs.replace(report, checks=(*report.checks, check))


def _devices(
    beside: Beside,
    demand: Demand,
    rules: Rules,
    env: Mapping[str, str],
    prefix: Path,
    *,
    devices: bool | None,
    cpu: bool,
) -> tuple[tuple[gpu_tests.Answer, ...], list[Check]]:
    """Driver and devices, then the tests through torch."""
    times, burn_in = rules.times, rules.times.burn_in_s if demand.burn_in else 0.0
    if beside.driver is None:
        why = "processors stand for GPUs" if cpu else "no GPU is asked for"
        checks = [skipped("driver", why)]
        if not cpu or devices is False:
            return (), [*checks, skipped("torch", f"{DEVICES}: {why}")]
        tests = gpu_tests.run_node("cpu", 0, limit_s=times.stack_s, group_s=times.group_s, burn_in_s=min(burn_in, 5.0))
        return tests, [*checks, *judge_answers(tests)]
    try:
        driver = beside.driver.value(times.fabric_s + 2 * times.driver_s)
    except LateError as late:
        driver = Driver(problem=str(late))
    checks = list(judge_gpus(driver, read_coverage(prefix), demand, rules, env))
    if devices is False:
        return (), [*checks, skipped("torch", DEVICES)]
    if not driver.devices:
        return (), [*checks, skipped("torch", f"{DEVICES}: there is none")]
    tests = gpu_tests.run_node(
        "cuda", len(driver.devices), limit_s=times.stack_s, group_s=times.group_s, burn_in_s=burn_in
    )
    return tests, [*checks, *judge_answers(tests)]


def _gathered[T](
    name: str, answer: Answer[T], limit_s: float, judge: Callable[[T], Iterable[Check]]
) -> Iterator[Check]:
    try:
        yield from judge(answer.value(limit_s))
    except LateError as late:
        yield failed(name, f"{late}: a file server or the kernel does not answer", "look at dmesg on the node")


def _files(
    beside: Beside, places: Places, judge: Callable[[dict[str, Tried]], Iterable[Check]], rules: Rules
) -> Iterator[Check]:
    limit = rules.times.file_s + GRACE_S + 1.0
    try:
        tried = beside.files.value(limit)
    except LateError as late:
        tried = {each: Tried(folder=each, problem=f"{each}: {late}", error="ETIMEDOUT") for each in places.all}
    yield from judge(tried)


def _fingerprint(beside: Beside, rules: Rules) -> tuple[Fingerprint | None, list[Check]]:
    """What runs here, and ``fingerprint``: it says so when that cannot be told."""
    name, fix = "fingerprint", "orbit fingerprint --loaded says more; orbit doctor --explain knows common causes"
    if beside.fingerprint is None:
        return None, [skipped(name, "it was not asked for: orbit fingerprint")]
    try:
        one = beside.fingerprint.value(rules.times.fingerprint_s)
    except LateError as late:
        return None, [failed(name, f"what runs here cannot be told: {late}", fix)]
    except (OrbitError, OSError) as error:
        text = " ".join(getattr(error, "what", str(error)).split())
        return None, [failed(name, f"what runs here cannot be told: {text}", getattr(error, "fix", "") or fix)]
    return one, [passed(name, f"{one.agreed[:12]}, with {len(one.libraries)} libraries", agreed=one.agreed)]


def _network(beside: Beside, rules: Rules) -> Network | None:
    return _or_none(beside.network, rules.times.name_s + 1.0)


def _or_none[T](answer: Answer[T], limit_s: float) -> T | None:
    try:
        return answer.value(limit_s)
    except LateError:
        return None
