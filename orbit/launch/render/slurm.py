"""sbatch scripts: with pyxis and enroot, with Apptainer, or without containers in an environment of Orbit.

One task per node; ``srun`` starts the same node program as everywhere. Reasons of each line: docs/launch-slurm.md.
"""

from __future__ import annotations

from orbit.errors import InputError
from orbit.launch.plan import ENTRYPOINT, OWNER_VARIABLE, LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.words import (
    HEAD_VARIABLE,
    OWNER_FILE,
    STATE_VARIABLE,
    command_lines,
    environment,
    host_path,
    node_argv,
    order_of,
    quoted,
    quoted_host,
)

NODES = "\x1fnodes\x1f"
"""In a value: the names of the job's nodes, which the batch script knows."""
FORMS_OF = {"pyxis": ("registry", "squashfs"), "apptainer": ("registry", "sif"), "none": ("archive", "prefix")}
"""Form -> what ``image.form`` may be."""
START = """set -u
trap 'echo "SIGTERM: the nodes have it too, and end within their grace period" >&2' TERM
"""
LIST_NODES = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'


def render(plan: LaunchPlan, form: str) -> tuple[File, ...]:
    """The batch script. Raises :class:`InputError` for what the form cannot have."""
    _check(plan, form)
    steps = [_unpack(plan)] if plan.site.image.form == "archive" else []
    body = "\n".join([_prologue(plan, form), *steps, _step(plan, form)])
    user = "user=$(id -un)\n" if '"${user}"' in body or '"$user"' in body else ""
    text = f"{_directives(plan)}\n{START}{user}{body}"
    return (File(name=f"{plan.name}.sbatch", text=text, mode=0o755),)


def enroot_uri(image: str) -> str:
    """``registry#repository:sha256:...``: the one spelling of a digest that every release of enroot since 3.1 reads.

    With ``@`` instead of the colon enroot 3 refuses it, or takes the repository for a user name; enroot 4 reads both.
    """
    name, _, digest = image.partition("@")
    host, slash, rest = name.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return f"{host}#{rest}:{digest}"
    return f"{name}:{digest}"


def _check(plan: LaunchPlan, form: str) -> None:
    site = plan.site
    if site.image.form not in FORMS_OF[form]:
        raise InputError(
            f"site {site.name}: --form {form} with image.form = {site.image.form!r}",
            fix=f"image.form = {' or '.join(map(repr, FORMS_OF[form]))} in the site file, or another --form",
        )
    if site.user.policy == "fixed":
        raise InputError(
            f"site {site.name}: user.policy = 'fixed', and Slurm runs every job as who submitted it",
            fix="user.policy = 'caller' in the site file",
        )
    elsewhere = [mount for mount in plan.mounts if mount.host.rstrip("/") != mount.container.rstrip("/")]
    if form == "none" and elsewhere:
        raise InputError(
            f"mount {elsewhere[0].host} at {elsewhere[0].container}: without a container a folder is where it is",
            fix="the same path as host and container, or another --form",
        )


def _directives(plan: LaunchPlan) -> str:
    job, slurm = plan.job, plan.site.slurm
    options = [
        f"--job-name={plan.name}",
        f"--nodes={job.nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={plan.cpus}",
        f"--mem={plan.memory_gib}G",
        *([f"--gres={slurm.gres}:{job.gpus_per_node}"] if job.gpus_per_node else []),
        f"--time={job.minutes}",
        f"--signal=TERM@{job.grace_seconds}",
        f"--export={','.join(job.secrets) or 'NONE'}",
        "--propagate=NONE",
        f"--output={plan.name}-%j.log",
        *([] if any(option.startswith("--requeue") for option in slurm.options) else ["--no-requeue"]),
        *(f"--{key}={value}" for key, value in _places(plan).items() if value),
        *slurm.options,
    ]
    head = [
        "#!/bin/sh",
        f"# Job {plan.name} under Slurm: each line and its reason are in docs/launch-slurm.md.",
        f"# Identity of recipe and site: {plan.identity}",
    ]
    return "\n".join([*head, *(f"#SBATCH {option}" for option in options), ""])


def _places(plan: LaunchPlan) -> dict[str, str]:
    slurm = plan.site.slurm
    return {"partition": slurm.partition, "account": slurm.account, "qos": slurm.qos}


def _prologue(plan: LaunchPlan, form: str) -> str:
    lines = []
    if plan.site.network.proxy:
        lines.append(f"nodes=$({LIST_NODES} | paste -sd, -)")
    lines += [
        f': "${{{name}:?is a secret of this job, and was not set where it was submitted}}"' for name in plan.job.secrets
    ]
    if plan.job.nodes > 1:
        lines += [
            f"head=$({LIST_NODES} | head -n 1)",
            "",
            "# the owner token: a file of this user that all nodes see, gone at the end",
            f"private=$(mktemp -d {_private_place(plan)}/.orbit-{plan.name}-XXXXXX) || exit 1",
            "trap 'rm -rf \"$private\"' EXIT",
            "(umask 077 && od -An -vtx1 -N32 /dev/urandom | tr -d ' \\n' >\"$private/owner\") || exit 1",
        ]
    if form == "none":
        lines.append(f"prefix={_prefix(plan)}")
    return "\n".join([*lines, ""]) if lines else ""


def _private_place(plan: LaunchPlan) -> str:
    """A folder that all nodes see: the site's shared one, else where the job was submitted."""
    shared = plan.site.storage.shared
    found = host_path(plan, shared) if shared else ""
    return quoted_host(found or shared) if shared else '"$SLURM_SUBMIT_DIR"'


def _prefix(plan: LaunchPlan) -> str:
    """Where the environment lies; one that is unpacked stays on the node for the next job."""
    if plan.site.image.form == "prefix":
        return quoted_host(plan.image)
    scratch = plan.site.storage.scratch.rstrip("/") or "/tmp"  # noqa: S108 - a folder of the user's below it
    return f'{quoted_host(scratch)}/orbit-env-"$user"/{plan.job.digest.removeprefix("sha256:")[:16]}'


def _unpack(plan: LaunchPlan) -> str:
    archive, program = quoted_host(plan.image), quoted_host(plan.site.image.orbit)
    return (
        "# the environment on each node's own disk; there already, it is looked at and left alone\n"
        + _srun(plan, [f'{program} env hydrate {archive} --prefix "$prefix"'])
        + " || exit 1\n"
    )


def _srun(plan: LaunchPlan, words: list[str], options: tuple[str, ...] = ()) -> str:
    """One task on each node; a line for each group of words."""
    job = plan.job
    head = [
        f"srun --nodes={job.nodes} --ntasks={job.nodes} --ntasks-per-node=1 --cpus-per-task={plan.cpus}",
        f"--export=ALL --input=none --kill-on-bad-exit=0 --wait=0{' --label' if job.nodes > 1 else ''}",
    ]
    return " \\\n    ".join([*head, *options, *words])


def _step(plan: LaunchPlan, form: str) -> str:
    rank, meet = ("env:SLURM_PROCID", f"tcp:env:{HEAD_VARIABLE}") if plan.job.nodes > 1 else ("0", "")
    entrypoint = '"$prefix"/bin/orbit-entrypoint' if form == "none" else ENTRYPOINT
    argv = node_argv(order_of(plan, rank=rank, meet=meet))
    variables = [_value(name, value) for name, value in _variables(plan).items()]
    if plan.job.nodes > 1:
        variables.append(f'{HEAD_VARIABLE}="$head"')
        variables.append(f'{OWNER_VARIABLE}="$private/owner"' if form == "none" else f"{OWNER_VARIABLE}={OWNER_FILE}")
    folder = quoted(plan.job.folder or "/")
    options, start = {"pyxis": _pyxis, "apptainer": _apptainer, "none": _bare}[form](plan, folder)
    words = [*start, " \\\n    ".join(["/usr/bin/env", *variables]), entrypoint, *command_lines(argv[1:])]
    return _srun(plan, words, options) + '\nstatus=$?\nexit "$status"\n'


def _variables(plan: LaunchPlan) -> dict[str, str]:
    found = environment(plan, near=[NODES])
    if plan.site.storage.scratch and STATE_VARIABLE not in plan.environment:
        found[STATE_VARIABLE] = plan.site.storage.scratch.rstrip("/") + "/orbit-${USER}"
    return found


def _value(name: str, value: str) -> str:
    """``NAME=value`` as one word, with the batch script's variables where the value leaves room for them."""
    if name == STATE_VARIABLE and value.endswith("/orbit-${USER}"):
        return quoted_host(f"{name}={value}")
    return '"$nodes"'.join(quoted(piece) if piece else "" for piece in f"{name}={value}".split(NODES))


def _mounts(plan: LaunchPlan) -> list[str]:
    """``host:container[:ro]`` of each mount, as words of the shell."""
    said = []
    for mount in plan.mounts:
        ending = quoted(f":{mount.container}{':ro' if mount.read_only else ''}")
        said.append(f"{quoted_host(mount.host)}{ending}")
    if plan.job.nodes > 1:
        said.append(f'"$private"/owner:{OWNER_FILE}:ro')
    return said


def _pyxis(plan: LaunchPlan, folder: str) -> tuple[tuple[str, ...], list[str]]:
    image = plan.image if plan.site.image.form == "squashfs" else enroot_uri(plan.image)
    options = [f"--container-image={quoted(image)}"]
    if mounts := _mounts(plan):
        options.append(f"--container-mounts={','.join(mounts)}")
    options.append("--container-readonly --no-container-mount-home --no-container-entrypoint")
    if plan.site.user.policy == "caller":
        options.append("--no-container-remap-root")
    return (*options, f"--container-workdir={folder}"), []


def _apptainer(plan: LaunchPlan, folder: str) -> tuple[tuple[str, ...], list[str]]:
    image = plan.image if plan.site.image.form == "sif" else f"docker://{plan.image}"
    words = ["apptainer exec" + (" --nv" if plan.job.gpus_per_node else "") + f" --no-mount home,cwd --pwd {folder}"]
    words += [f"--bind {mount}" for mount in _mounts(plan)]
    return ("--chdir=/",), [*words, quoted(image)]


def _bare(_plan: LaunchPlan, folder: str) -> tuple[tuple[str, ...], list[str]]:
    return (f"--chdir={folder}",), []
