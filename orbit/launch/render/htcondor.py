"""HTCondor submit descriptions, for the docker universe and the container universe.

One process of the cluster is one node of the job. The quoting is that of condor_submit's "new" syntax; its own parser
reads it in the tests. Why each line: docs/launch-htcondor.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from orbit.errors import InputError
from orbit.launch.plan import OWNER_VARIABLE, LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.pod import check_gpu_variables
from orbit.launch.render.words import environment, exporting, node_argv, order_of, quoted

RANK_VARIABLE = "ORBIT_RANK"
SCRATCH = '"${_CONDOR_SCRATCH_DIR:-$PWD}"'
"""In a shell of the job: the folder that files are transferred to."""
OWNER, SECRETS = "owner", "secrets"
"""Names in the private folder of a submission, and in the scratch folder of a job."""
PRIVATE = "private"
"""The macro that ``orbit launch submit`` gives the path of that folder in."""
HELD_SECONDS = 3600
"""How long a held job stays for a person to look at it."""
MACRO = re.compile(r"\$(?=\w*\()")
"""What condor_submit would replace: ``$(NAME)``, ``$ENV(NAME)``, ``$F(NAME)`` and so on."""
NEVER = (
    (re.compile(r"\$\$\w*[(\[]"), "$$(...) and $$[...] are replaced when it starts a job"),
    (re.compile(r"\$\(dollar\)", re.IGNORECASE), "$(DOLLAR) is how it spells a dollar"),
    (
        re.compile(r"[\n\r]"),
        "a value is one line (of several it drops comments, and joins those that end in a backslash)",
    ),
)
"""What no submit description can hold in a value, and why."""
QUOTE_ARGUMENT = re.compile(r"[\s']")


def render(plan: LaunchPlan, form: str) -> tuple[File, ...]:
    """One submit description. Raises :class:`InputError` for what a pool cannot be told."""
    _check(plan, form)
    several = plan.job.nodes > 1
    sections = [
        _image(plan, form),
        _command(plan, several),
        _resources(plan),
        _files(plan, several),
        _life(plan),
        _site(plan),
    ]
    text = "\n".join("".join(f"{line}\n" for line in section) for section in [_head(plan), *sections] if section)
    return (File(name=f"{plan.name}.sub", text=f"{text}\nqueue {plan.job.nodes}\n"),)


def value(text: str) -> str:
    """``text`` inside of a value of a submit description: no macro of it is expanded.

    Raises :class:`InputError` for what HTCondor has no way to write.
    """
    for pattern, why in NEVER:
        if pattern.search(text):
            raise InputError(
                f"{text[:80]!r} cannot be written for HTCondor: {why}", fix="put it into a script that the command runs"
            )
    return MACRO.sub("$(DOLLAR)", text)


def arguments(words: Iterable[str]) -> str:
    """``words`` as the value of ``arguments``: in double quotes, those that need it in single quotes."""
    return '"' + " ".join(_word(word) for word in words).replace('"', '""') + '"'


def variables(values: Mapping[str, str]) -> str:
    """The value of ``environment``. ``values`` are taken as they are."""
    return '"' + " ".join(f"{name}={_word(text, empty='')}" for name, text in values.items()).replace('"', '""') + '"'


def string(text: str) -> str:
    """``text`` as a string of a ClassAd expression."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _word(text: str, *, empty: str = "''") -> str:
    safe = value(text)
    if not text:
        return empty
    return "'" + safe.replace("'", "''") + "'" if QUOTE_ARGUMENT.search(text) else safe


def _head(plan: LaunchPlan) -> list[str]:
    lines = [
        f"# Job {plan.name}: the lines, with their reasons, are in docs/launch-htcondor.md.",
        f"# Identity of recipe and site: {plan.identity}",
    ]
    if plan.job.nodes > 1 or plan.job.secrets:
        lines.append(
            f"#   condor_submit {PRIVATE}=/a/private/folder {plan.name}.sub    `orbit launch submit` makes one"
        )
    return lines


def _image(plan: LaunchPlan, form: str) -> list[str]:
    if form == "docker":
        lines = ["universe = docker", f"docker_image = {plan.image}"]
    elif plan.site.image.form == "registry":
        lines = ["universe = container", f"container_image = docker://{plan.image}"]
    else:
        lines = ["universe = container", f"container_image = {plan.image}", "transfer_container = false"]
    if plan.site.network.host_network:
        lines.append("docker_network_type = host")
    return lines


def _command(plan: LaunchPlan, several: bool) -> list[str]:
    """The entry point is the executable, as Apptainer leaves it out; where docker runs it, too, it runs twice."""
    shared = plan.site.storage.shared
    order = order_of(plan, rank=f"env:{RANK_VARIABLE}", meet=f"dir:{shared}") if several else order_of(plan)
    entrypoint, *words = node_argv(order)
    words = list(exporting(plan.job.secrets, f"{SCRATCH}/{SECRETS}", words))
    steps = [f"export {OWNER_VARIABLE}={SCRATCH}/{OWNER}"] if several else []
    steps += [f"cd {quoted(plan.job.folder)}"] if plan.job.folder else []
    if steps:
        words = ["/bin/sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh", *words]
    values = environment(plan)
    lines = [f"executable = {entrypoint}", "transfer_executable = false", f"arguments = {arguments(words)}"]
    made = variables(values)
    if several:
        made = f'{made[:-1]} {RANK_VARIABLE}=$(Process)"'
    return [*lines, f"environment = {made}", "getenv = false"]


def _resources(plan: LaunchPlan) -> list[str]:
    lines = [f"request_cpus = {plan.cpus}", f"request_memory = {plan.memory_gib}GB"]
    if plan.job.scratch_gib:
        lines.append(f"request_disk = {plan.job.scratch_gib}GB")
    if plan.job.gpus_per_node:
        lines.append(f"request_gpus = {plan.job.gpus_per_node}")
        if plan.site.nodes.gpu:
            lines.append(f"require_gpus = regexp({string(re.escape(plan.site.nodes.gpu))}, DeviceName)")
    return lines


def _files(plan: LaunchPlan, several: bool) -> list[str]:
    """The scratch folder is the working folder; what a job writes at the top of it comes back."""
    wanted = [f"$({PRIVATE})/{OWNER}"] if several else []
    wanted += [f"$({PRIVATE})/{SECRETS}"] if plan.job.secrets else []
    lines = ["should_transfer_files = YES", "when_to_transfer_output = ON_EXIT"]
    if wanted:
        lines.append(f"transfer_input_files = {', '.join(wanted)}")
    name = plan.name
    lines += [f"output = {name}.$(Process).out", f"error = {name}.$(Process).err", f"log = {name}.log"]
    return [*lines, "stream_output = true", "stream_error = true"]


def _life(plan: LaunchPlan) -> list[str]:
    """It runs once: a node that is taken away cannot join again, and its job is removed, not started anew."""
    held = f"(JobStatus == 5 && time() - EnteredCurrentStatus > {HELD_SECONDS})"
    taken = "(JobStatus == 1 && NumJobStarts > 0)"
    return [
        f"batch_name = {plan.name}",
        "on_exit_remove = true",
        f"periodic_remove = {held} || {taken}",
        f"allowed_execute_duration = {(plan.job.minutes + plan.job.late_minutes) * 60}",
        "kill_sig = SIGTERM",
        f"job_max_vacate_time = {plan.job.grace_seconds}",
    ]


def _site(plan: LaunchPlan) -> list[str]:
    site = plan.site.htcondor
    lines = [f"requirements = {site.requirements}"] if site.requirements else []
    return lines + [f"{name} = {text}" for name, text in site.attributes.items()]


def _check(plan: LaunchPlan, form: str) -> None:
    site, job = plan.site, plan.job
    if form == "docker" and site.image.form != "registry":
        raise InputError(
            f"site {site.name}: image.form = {site.image.form!r} in the docker universe, which pulls from a registry",
            fix="--form container, or image.form = 'registry'",
        )
    if site.image.form not in ("registry", "sif"):
        raise InputError(
            f"site {site.name}: image.form = {site.image.form!r} is nothing that HTCondor starts",
            fix="image.form = 'registry' or 'sif'",
        )
    if site.user.policy == "fixed":
        raise InputError(
            f"site {site.name}: user.policy = 'fixed', and a pool runs containers as the submitting user or a slot's",
            fix="user.policy = 'caller' or 'any'",
        )
    if job.mounts:
        raise InputError(
            f"launch.mounts: {job.mounts[0].host}: which folders of a node a container sees is up to the pool",
            fix="remove them; name in the site file's storage.mounts what the pool mounts",
        )
    check_gpu_variables(plan)
    _check_text(plan)
    if job.nodes == 1:
        return
    if not site.storage.shared:
        raise InputError(
            f"launch.nodes = {job.nodes} on site {site.name} without storage.shared: a pool tells no node where the "
            "others are, so they meet in a folder that all of them see",
            fix="storage.shared = '/a/folder' (and a mount of it) in the site file, or nodes = 1",
        )
    if not site.network.host_network and site.image.form == "registry":
        raise InputError(
            f"launch.nodes = {job.nodes} with network.host_network = false: docker puts a container into a network of "
            "its own, where other machines cannot reach it",
            fix="network.host_network = true in the site file",
        )


def _check_text(plan: LaunchPlan) -> None:
    """Lines of the site file go into the submit description as they are, so each must be one line of it."""
    site = plan.site.htcondor
    for text in (site.requirements, *site.attributes, *site.attributes.values(), plan.site.nodes.gpu, plan.image):
        if any(character in text for character in "\n\r"):
            raise InputError(f"site {plan.site.name}: htcondor: {text!r} has more than one line", fix="write one line")
