"""docker run (and podman run) as a small POSIX shell script: one container, one node.

The script can be read, and started by hand; ``orbit launch submit`` starts the same one. Secrets go from the shell's
variables into files of a private folder that is gone when the container has started.
"""

from __future__ import annotations

from orbit.errors import InputError
from orbit.launch.plan import OWNER_VARIABLE, LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.container import INFINIBAND, STATE_VOLUME, TMPFS, Container, container_of
from orbit.launch.render.words import (
    HEAD_VARIABLE,
    OWNER_FILE,
    SECRETS_FOLDER,
    USER,
    command_lines,
    exporting,
    node_argv,
    order_of,
    quoted,
    quoted_host,
)
from orbit.launch.site.model import UserPolicy

LOG_OPTIONS = ("--log-driver local", "--log-opt max-size=100m --log-opt max-file=5")


def render(plan: LaunchPlan, _form: str) -> tuple[File, ...]:
    """One script; for several nodes the same one on each machine, with rank and head as its arguments.

    Raises :class:`InputError` for several nodes on a bridge: Ray's ports cannot be reached from outside of it.
    """
    several = plan.job.nodes > 1
    if several and not plan.site.network.host_network:
        raise InputError(
            f"launch.nodes = {plan.job.nodes} with docker run and network.host_network = false: containers of a "
            "bridge cannot be reached from other machines",
            fix="network.host_network = true in the site file, or --form compose for all nodes on this machine",
        )
    container = container_of(plan, owner=several)
    pieces = [_head(plan, several), _private(plan, several), _options(plan, container, several)]
    if container.rdma == "wanted":
        pieces.append(f'if [ -d {INFINIBAND} ]; then set -- "$@" --device {INFINIBAND}; fi\n')
    pieces.append(_start(plan, several))
    return (File(name=f"{plan.name}.sh", text="".join(pieces), mode=0o755),)


def _head(plan: LaunchPlan, several: bool) -> str:
    engine = plan.site.image.runtime
    name, usage = plan.name, f"sh {plan.name}.sh"
    lines = [
        "#!/bin/sh",
        f"# Job {name} with {engine}: the options, with their reasons, are in docs/launch-docker.md.",
        f"# Identity of recipe and site: {plan.identity}",
        "#",
    ]
    if several:
        usage += " RANK HEAD"
        lines.append(
            f"#   {usage}    on each of the {plan.job.nodes} machines: its number from 0, the name of machine 0"
        )
        lines.append(f"#   {OWNER_VARIABLE} names a file with the owner token, the same on all (docs/launch-docker.md)")
    else:
        lines.append(f"#   {usage}    starts it in the background and prints the container's id")
    if plan.job.gpus_per_node:
        gpus = _gpus(plan)
        lines.append(f"#   ORBIT_GPUS={gpus} {usage}    on other GPUs than the first ones")
    shown = f"{name}-RANK" if several else name
    lines.append(f"#   {engine} logs -f {shown}; {engine} stop {shown}; {engine} rm -v {shown}")
    lines += ["set -eu", f"engine=${{ORBIT_DOCKER:-{engine}}}"]
    lines += ["user=$(id -un)"] if any(USER in mount.host for mount in plan.mounts) else []
    if several:
        lines += [
            f"rank=${{1:?the number of this machine, from 0 to {plan.job.nodes - 1}}}",
            "head=${2:?name or address of machine 0}",
        ]
    return "\n".join(lines) + "\n"


def _private(plan: LaunchPlan, several: bool) -> str:
    """Secrets and the owner token: files of a folder that only this user can enter."""
    if not plan.job.secrets and not several:
        return ""
    lines = [
        "",
        "# a folder and files of this user alone; gone when the container has them",
        "umask 077",
        'private=$(mktemp -d "${TMPDIR:-/tmp}/orbit.XXXXXX")',
        "trap 'rm -rf \"$private\"' EXIT",
        "trap 'exit 130' INT TERM",
    ]
    lines += [
        f'printf %s "${{{name}:?is a secret of this job, and not set here}}" >"$private/{name}"'
        for name in plan.job.secrets
    ]
    if several:
        lines.append(f'cp "${{{OWNER_VARIABLE}:?names the file with the owner token}}" "$private/owner"')
    lines += readable(plan.site.user, "$private")
    return "\n".join(lines) + "\n"


def readable(user: UserPolicy, folder: str) -> list[str]:
    """Where the container runs as another user, the files can be read, and only their folder is closed to others."""
    if user.policy != "fixed":
        return []
    return [f'if [ "$(id -u)" != {user.uid} ]; then chmod 0644 "{folder}"/*; fi']


def _options(plan: LaunchPlan, container: Container, several: bool) -> str:
    """``set --`` with one option, or some that belong together, on a line."""
    podman = plan.site.image.runtime == "podman"
    name = f'--name {plan.name}-"$rank"' if several else f"--name {plan.name}"
    said = [name, *(f"--label {quoted(f'{key}={value}')}" for key, value in container.labels.items())]
    said += [f"--network {container.network}", f"--stop-timeout {plan.job.grace_seconds}"]
    said += [] if podman else LOG_OPTIONS
    said += [f"--cpus {plan.cpus}", f"--memory {plan.memory_gib}g --memory-swap {plan.memory_gib}g"]
    said += [f"--shm-size {plan.shm_gib}g", f"--pids-limit {plan.site.limits.pids or -1}"]
    said += [f"--ulimit {limit}={soft}:{hard}" for limit, (soft, hard) in container.ulimits.items()]
    said += ["--security-opt no-new-privileges"]
    said += [f"--cap-drop {cap}" for cap in container.cap_drop]
    said += [f"--cap-add {cap}" for cap in container.cap_add]
    if container.user:
        said += ['--user "$(id -u):$(id -g)"' if container.user == "caller" else f"--user {container.user}"]
        said += ["--userns keep-id"] if podman and container.user == "caller" else []
    said += [f"--read-only --tmpfs {TMPFS}"]
    said += [f"--volume {STATE_VOLUME}"] if container.state_volume else []
    said += [f"--device {INFINIBAND}"] if container.rdma == "required" else []
    if plan.job.folder:
        said += [f"--workdir {quoted(plan.job.folder)}"]
    for mount in plan.mounts:
        ending = ",readonly" if mount.read_only else ""
        target = quoted(f"{mount.container}{ending}")
        said += [f"--mount type=bind,source={quoted_host(mount.host)},target={target}"]
    for secret in plan.job.secrets:
        said += [_file("$private/" + secret, f"{SECRETS_FOLDER}/{secret}")]
    if several:
        said += [_file("$private/owner", OWNER_FILE), f'--env {HEAD_VARIABLE}="$head"']
    said += [f"--env {quoted(f'{key}={value}')}" for key, value in container.environment.items()]
    return "\nset -- \\\n" + " \\\n".join(f"    {line}" for line in said) + "\n" + _devices(plan, podman)


def _file(source: str, target: str) -> str:
    return f'--mount type=bind,source="{source}",target={target},readonly'


def _gpus(plan: LaunchPlan) -> str:
    return ",".join(map(str, range(plan.job.gpus_per_node)))


def _devices(plan: LaunchPlan, podman: bool) -> str:
    """GPUs by number: an engine has no idea which ones are free, and a count is always the first ones."""
    if not plan.job.gpus_per_node:
        return ""
    line = f"gpus=${{ORBIT_GPUS:-{_gpus(plan)}}}\n"
    if podman:
        loop = 'for gpu in $(echo "$gpus" | tr , " "); do set -- "$@" --device "nvidia.com/gpu=$gpu"; done\n'
        return line + loop
    return line + 'set -- "$@" --gpus "\\"device=$gpus\\""\n'


def _start(plan: LaunchPlan, several: bool) -> str:
    rank, meet = ("env:ORBIT_RANK", f"tcp:env:{HEAD_VARIABLE}") if several else ("0", "")
    rank_variable = ' --env ORBIT_RANK="$rank"' if several else ""
    argv = node_argv(order_of(plan, rank=rank, meet=meet))
    wrapper = exporting(plan.job.secrets, SECRETS_FOLDER, ())
    lines = [f'"$engine" run --detach "$@"{rank_variable} --entrypoint {argv[0]}', quoted(plan.image)]
    lines += [" ".join(map(quoted, wrapper))] if wrapper else []
    return "\n" + " \\\n    ".join([*lines, *command_lines(argv[1:])]) + "\n"
