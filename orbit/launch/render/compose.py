"""Several nodes on one machine, for trying: a compose file with a service for each node on a network of their own.

Compose cannot take a secret from the shell into a container with a read-only root, so a small script beside the file
makes the files and starts it; ``orbit launch submit`` runs that script.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from orbit.errors import InputError
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.container import INFINIBAND, STATE_VOLUME, TMPFS, Container, container_of
from orbit.launch.render.docker import readable
from orbit.launch.render.words import OWNER_FILE, SECRETS_FOLDER, USER, exporting, node_argv, order_of

PRIVATE = "${ORBIT_PRIVATE:?the script beside this file sets it}"
"""In the compose file: the folder of secrets and owner token."""
CALLER = "${ORBIT_CALLER:?the script beside this file sets it}"
"""``uid:gid``."""


def render(plan: LaunchPlan, _form: str) -> tuple[File, ...]:
    """The script that starts it, and ``compose.yaml``.

    Raises :class:`InputError` for more GPUs than the machine has, and on the host's network, where nodes of one machine
    cannot be told apart.
    """
    job, site = plan.job, plan.site
    if site.network.host_network:
        raise InputError(
            "--form compose with network.host_network = true: nodes of one machine need addresses of their own",
            fix="network.host_network = false for a site that is one machine, or --form run",
        )
    if job.gpus > site.nodes.gpus:
        raise InputError(
            f"--form compose puts all {job.nodes} nodes on one machine: {job.gpus} GPUs are asked, and site "
            f"{site.name} has nodes.gpus = {site.nodes.gpus}",
            fix="fewer gpus_per_node, or fewer nodes",
        )
    shared = _shared_out(plan)
    script = File(name=f"{plan.name}.sh", text=_script(plan), mode=0o755)
    return (script, File(name="compose.yaml", text=_text(shared)))


def _shared_out(plan: LaunchPlan) -> LaunchPlan:
    """``plan`` with what the recipe leaves open divided among its nodes: they all are this machine."""
    job, site = plan.job, plan.site
    cpus = job.cpus_per_node or max(1, site.nodes.cpus // job.nodes)
    memory = job.memory_gib or site.nodes.memory_gib // job.nodes
    if cpus * job.nodes > site.nodes.cpus or memory * job.nodes > site.nodes.memory_gib or memory < plan.shm_gib:
        raise InputError(
            f"--form compose puts all {job.nodes} nodes on one machine: {cpus} CPUs, {memory} GiB and of them "
            f"{plan.shm_gib} GiB of /dev/shm each, and site {site.name} has {site.nodes.cpus} CPUs and "
            f"{site.nodes.memory_gib} GiB",
            fix="less cpus_per_node, memory_gib or shm_gib, or fewer nodes",
        )
    return msgspec.structs.replace(plan, cpus=cpus, memory_gib=memory)


def _hosts(plan: LaunchPlan) -> tuple[str, ...]:
    return tuple(f"node-{rank}" for rank in range(plan.job.nodes))


def _text(plan: LaunchPlan) -> str:
    head = (
        f"# Job {plan.name}: {plan.job.nodes} nodes on one machine. Start it with the script beside this file, which\n"
        "# makes the secrets. The options, with their reasons, are in docs/launch-docker.md.\n"
    )
    return head + yaml.safe_dump(_document(plan), sort_keys=False, allow_unicode=False, width=2**30)


def _document(plan: LaunchPlan) -> dict[str, Any]:
    several = plan.job.nodes > 1
    container = container_of(plan, owner=several, near=_hosts(plan))
    names = (*(("owner",) if several else ()), *plan.job.secrets)
    made: dict[str, Any] = {}
    made["services"] = {host: _service(plan, container, rank) for rank, host in enumerate(_hosts(plan))}
    made["networks"] = {"nodes": {"driver": "bridge"}}
    if names:
        made["secrets"] = {name: {"file": f"{PRIVATE}/{name}"} for name in names}
    return made


def _service(plan: LaunchPlan, container: Container, rank: int) -> dict[str, Any]:
    job, hosts = plan.job, _hosts(plan)
    order = order_of(plan, rank=str(rank), meet=f"tcp:{hosts[0]}" if job.nodes > 1 else "")
    argv = node_argv(order)
    command = exporting(job.secrets, SECRETS_FOLDER, argv[1:])
    made: dict[str, Any] = {
        "image": plan.image,
        "entrypoint": [argv[0]],
        "command": [_literal(word) for word in command],
        "hostname": hosts[rank],
        "networks": ["nodes"],
        "labels": dict(container.labels),  # a copy: YAML would refer to the first one
        "restart": "no",
        "stop_grace_period": f"{job.grace_seconds}s",
        "cpus": plan.cpus,
        "mem_limit": f"{plan.memory_gib}g",
        "memswap_limit": f"{plan.memory_gib}g",
        "shm_size": f"{plan.shm_gib}g",
        "pids_limit": plan.site.limits.pids or -1,
        "ulimits": {name: {"soft": soft, "hard": hard} for name, (soft, hard) in container.ulimits.items()},
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "tmpfs": [TMPFS],
        "logging": {"driver": "local", "options": {"max-size": "100m", "max-file": "5"}},
        "environment": {name: _literal(value) for name, value in container.environment.items()},
    }
    return made | _further(plan, container, rank)


def _further(plan: LaunchPlan, container: Container, rank: int) -> dict[str, Any]:
    """What not every job has."""
    job = plan.job
    made: dict[str, Any] = {}
    if container.cap_drop:
        made["cap_drop"] = list(container.cap_drop)
    if container.cap_add:
        made["cap_add"] = list(container.cap_add)
    if container.user:
        made["user"] = CALLER if container.user == "caller" else container.user
    if job.folder:
        made["working_dir"] = _literal(job.folder)
    if container.rdma == "required":
        made["devices"] = [f"{INFINIBAND}:{INFINIBAND}"]
    if volumes := _volumes(plan, container):
        made["volumes"] = volumes
    secrets = [*([("owner", OWNER_FILE)] if job.nodes > 1 else [])]
    secrets += [(name, f"{SECRETS_FOLDER}/{name}") for name in job.secrets]
    if secrets:
        made["secrets"] = [{"source": name, "target": target} for name, target in secrets]
    if count := job.gpus_per_node:
        ids = [str(number) for number in range(rank * count, (rank + 1) * count)]
        device = {"driver": "nvidia", "device_ids": ids, "capabilities": ["gpu"]}
        made["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return made


def _volumes(plan: LaunchPlan, container: Container) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    if container.state_volume:
        made.append({"type": "volume", "target": STATE_VOLUME})
    for mount in plan.mounts:
        source = USER.join(_literal(piece) for piece in mount.host.split(USER))
        made.append({"type": "bind", "source": source, "target": mount.container, "read_only": mount.read_only})
    return made


def _literal(text: str) -> str:
    """Compose replaces ``$NAME`` in every value; a doubled dollar is one."""
    return text.replace("$", "$$")


def _script(plan: LaunchPlan) -> str:
    several = plan.job.nodes > 1
    lines = [
        "#!/bin/sh",
        f"# Job {plan.name}: starts the {plan.job.nodes} nodes of compose.yaml in the background.",
        f"# Identity of recipe and site: {plan.identity}",
        "#",
        f"#   docker compose -p {plan.name} logs -f; docker compose -p {plan.name} down -v",
        "set -eu",
        'cd "$(dirname "$0")"',
        "engine=${ORBIT_DOCKER:-" + plan.site.image.runtime + "}",
        "USER=$(id -un) ORBIT_CALLER=$(id -u):$(id -g)",
        "export USER ORBIT_CALLER",
        "",
        "# A folder and files of this user alone. It stays: the engine mounts the files at each start.",
        "umask 077",
        "ORBIT_PRIVATE=$PWD/private",
        "export ORBIT_PRIVATE",
        'rm -rf "$ORBIT_PRIVATE"',
        'mkdir "$ORBIT_PRIVATE"',
    ]
    if several:
        lines.append("od -An -vtx1 -N32 /dev/urandom | tr -d ' \\n' >\"$ORBIT_PRIVATE/owner\"")
    lines += [
        f'printf %s "${{{name}:?is a secret of this job, and not set here}}" >"$ORBIT_PRIVATE/{name}"'
        for name in plan.job.secrets
    ]
    if several or plan.job.secrets:
        lines += readable(plan.site.user, "$ORBIT_PRIVATE")
    lines.append(f'"$engine" compose --project-name {plan.name} --file compose.yaml up --detach --remove-orphans')
    return "\n".join(lines) + "\n"
