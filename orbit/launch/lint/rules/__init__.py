"""One module per rule: ``ID``, ``TITLE`` and ``check(manifest, known)``, a pure function from facts to findings.

Severity: error where the job will not work or is unsafe, warning where it works by luck or slowly, note where somebody
should have decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.rules import (
    cache_path,
    clear_secret,
    condor_request,
    condor_transfer,
    device_variable,
    docker_flag,
    duplicate_key,
    entry_point,
    fixed_address,
    gpu_count,
    grace_period,
    host_network,
    host_path,
    huge_pages,
    image_mixed,
    image_tag,
    job_retry,
    kill_by_name,
    locked_memory,
    lost_signal,
    memory_amount,
    memory_request,
    missing_volume,
    network_interface,
    port_clash,
    pull_policy,
    quoted_value,
    ray_folder,
    ray_version,
    relative_path,
    shared_memory,
    slurm_cpus,
    slurm_environment,
    slurm_signal,
    start_deadline,
    trainer_restart,
    unreadable_manifest,
)

type Check = Callable[[Manifest, Known], Iterator[Finding]]


class Rule(NamedTuple):
    """One rule of the lint."""

    id: str
    """Stable; docs/rules/<id>.md is its page."""
    title: str
    """What holds when the rule finds nothing."""
    check: Check


def _rule(module: ModuleType) -> Rule:
    return Rule(module.ID, module.TITLE, module.check)


RULES: dict[str, Rule] = {
    module.ID: _rule(module)
    for module in (
        unreadable_manifest, duplicate_key, quoted_value, missing_volume, memory_amount,
        clear_secret, host_path,
        image_tag, image_mixed, ray_version, pull_policy, entry_point,
        shared_memory, memory_request, locked_memory, huge_pages, gpu_count, device_variable,
        cache_path, ray_folder, network_interface, host_network, port_clash, fixed_address,
        lost_signal, grace_period, trainer_restart, job_retry, start_deadline,
        slurm_cpus, slurm_environment, slurm_signal, relative_path, kill_by_name,
        condor_request, condor_transfer, docker_flag,
    )
}  # fmt: skip
"""All rules by id, in the order of a report: what cannot be read, what is unsafe, what runs, on what, how it ends."""
