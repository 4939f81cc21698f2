"""What all renderers say alike: the command of a node, its environment, its mounts, text that no shell changes.

The flags of the node program are :class:`orbit.launch.node.options.Order`'s; nothing here spells them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from orbit.errors import InputError
from orbit.launch.job import VARIABLE
from orbit.launch.node.options import Order, words
from orbit.launch.plan import ENTRYPOINT, LaunchPlan
from orbit.launch.site.model import Mount

USER = "${USER}"
"""In ``mount.host``: the submitting user's name."""
IMAGE_VARIABLE = "ORBIT_IMAGE_DIGEST"
STATE_VARIABLE = "ORBIT_STATE"
HEAD_VARIABLE = "ORBIT_HEAD"
SECRETS_FOLDER = "/run/orbit/secrets"
"""In a container: one file for each secret, named as the variable."""
OWNER_FILE = "/run/orbit/owner"
"""In a container: the owner token of a job of several nodes."""
LABEL_JOB, LABEL_IDENTITY, LABEL_IMAGE = "io.orbit.job", "io.orbit.identity", "io.orbit.image"
HERE = ("localhost", "127.0.0.1", "::1")
"""Never reached through a proxy."""
SCRIPTS = re.compile(r"^[^-/=:{\[\s][^=:\s]*\.(?:py|sh|bash|toml|ya?ml|json|jsonl|cfg|ini)$")
"""A word of a command that is a file below the working folder; options, ``key=value``, addresses, text are not."""
FORBIDDEN_IN_PATHS = re.compile(r'[,:"\\\x00-\x1f\x7f]')
"""Docker, pyxis and Apptainer separate parts of a mount by some of these, and none of them has a way to quote them."""
EXPORT = 'for n in {names}; do v=$(cat {folder}/$n && echo x) || exit 2; export $n="${{v%x}}"; done; exec "$@"'


def check(plan: LaunchPlan) -> None:
    """Raise :class:`InputError` for what no form can say, or what would mean something else on another node."""
    job = plan.job
    problem = None if job.folder else relative_word(job.command)
    if problem:
        raise InputError(
            f"launch.command: {problem!r} is relative, and a container starts in / whatever your folder is",
            fix="write the absolute path in the container, or launch.folder = '/the/folder/it/lies/in'",
        )
    for name, value in plan.environment.items():
        if not VARIABLE.match(name) or "\0" in value:
            raise InputError(f"environment: {name!r} is no variable of a process", fix="correct it in recipe or site")
    for mount in plan.mounts:
        _check_mount(plan, mount)
    targets = [mount.container.rstrip("/") for mount in plan.mounts]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice:
        raise InputError(f"two mounts at {twice}", fix="one of site and recipe must name another container path")


def relative_word(command: Iterable[str]) -> str | None:
    """The first word that is a path relative to the working folder, or None. A guess, on the safe side:

    ``./x``, ``../x``, a program with ``/`` in its name, and names such as ``train.py``; never ``Qwen/Qwen3-8B``.
    """
    for place, word in enumerate(command):
        program = place == 0 and "/" in word and not word.startswith("/")
        if program or word.startswith(("./", "../")) or SCRIPTS.match(word):
            return word
    return None


def _check_mount(plan: LaunchPlan, mount: Mount) -> None:
    for key, path in (("host", mount.host.replace(USER, "u")), ("container", mount.container)):
        if not path.startswith("/"):
            raise InputError(f"mount.{key} = {path!r} is not absolute", fix="write the whole path")
        found = FORBIDDEN_IN_PATHS.search(path)
        if found or "$" in path or ".." in path.split("/"):
            raise InputError(
                f"site {plan.site.name} or the recipe: mount.{key} = {path!r} has a character or part that a mount "
                "cannot have" + (f" ({found[0]!r})" if found else ""),
                fix="no comma, colon, quote, backslash, '..' and, but for ${USER} in host, no '$'; use a link",
            )


def order_of(plan: LaunchPlan, *, rank: str = "0", meet: str = "", join: str = "") -> Order:
    """The order of one node. ``meet`` and ``rank`` as :class:`Order` has them; a job of one node needs neither."""
    job, site = plan.job, plan.site
    rdma = "none" if site.network.rdma == "none" else job.rdma
    return Order(
        name=job.name,
        nodes=job.nodes,
        rank=rank,
        gpus=job.gpus_per_node,
        cpus=plan.cpus,
        memory_gib=plan.memory_gib,
        shm_gib=plan.shm_gib,
        scratch_gib=job.scratch_gib,
        image="" if site.image.form in ("prefix", "archive") else job.digest,
        meet=meet,
        ports=plan.ports if meet.startswith("tcp:") else (),
        shared=site.storage.shared,
        late_minutes=job.late_minutes,
        grace_seconds=job.grace_seconds,
        unfit=job.unfit,
        least=job.least_nodes,
        rdma="required" if site.network.rdma == "required" else rdma,
        burn_in=job.burn_in,
        ray=job.ray,
        join=join,
        dashboard=job.dashboard,
        command=job.command,
    )


def node_argv(order: Order, entrypoint: str = ENTRYPOINT) -> tuple[str, ...]:
    """The first process of a container and everything after it."""
    return (entrypoint, "orbit", "launch", "node", *words(order))


def exporting(names: Iterable[str], folder: str, argv: Iterable[str]) -> tuple[str, ...]:
    """``argv`` with each of ``names`` exported from the file of that name in ``folder``; nothing else is changed.

    For schedulers that show the variables of a container to whoever may ask them (``docker inspect``). Without names
    ``argv`` itself.
    """
    listed = " ".join(names)
    if not listed:
        return tuple(argv)
    return ("/bin/sh", "-c", EXPORT.format(names=listed, folder=folder), "sh", *argv)


def environment(plan: LaunchPlan, near: Iterable[str] = ()) -> dict[str, str]:
    """Variables of every node: site's and recipe's, the image's digest, the state folder, the proxy.

    ``near``: names, suffixes and addresses of the job's own nodes, which no proxy must get to see (gRPC uses one).
    """
    made: dict[str, str] = {IMAGE_VARIABLE: plan.job.digest}
    if state := state_folder(plan):
        made[STATE_VARIABLE] = state
    if proxy := plan.site.network.proxy:
        past = ",".join(dict.fromkeys((*HERE, *near, *plan.site.network.no_proxy)))
        for name, value in (("http_proxy", proxy), ("https_proxy", proxy), ("no_proxy", past)):
            made |= {name: value, name.upper(): value}
    return dict(sorted((made | plan.environment).items()))


def state_folder(plan: LaunchPlan) -> str:
    """The folder of this job on the site's scratch disk; empty where the scheduler's own, or /tmp, is used."""
    scratch = plan.site.storage.scratch.rstrip("/")
    return f"{scratch}/orbit-{plan.name}" if scratch else ""


def host_path(plan: LaunchPlan, container: str) -> str:
    """Where the node itself sees the container path ``container``, by the mounts; empty when no mount has it."""
    best: Mount | None = None
    for mount in plan.mounts:
        target = mount.container.rstrip("/")
        if f"{container.rstrip('/')}/".startswith(f"{target}/") and (not best or len(target) > len(best.container)):
            best = mount
    if best is None:
        return ""
    return best.host.rstrip("/") + container.rstrip("/").removeprefix(best.container.rstrip("/"))


def quoted(text: str) -> str:
    """``text`` as one word of a POSIX shell; what needs no quotes gets none."""
    return shlex.quote(text)


def quoted_host(path: str, variable: str = "user") -> str:
    """A host path as one word; ``${USER}`` becomes the shell's variable ``variable``."""
    pieces = path.split(USER)
    return f'"${{{variable}}}"'.join(quoted(piece) if piece else "" for piece in pieces)


def command_lines(argv: Iterable[str]) -> list[str]:
    """``argv`` of a node for people: the program and its flags on a line, the job's own command on another."""
    words_of = list(argv)
    cut = words_of.index("--")
    return [" ".join(map(quoted, part)) for part in (words_of[:cut], words_of[cut:])]


def assignments(values: Mapping[str, str]) -> list[str]:
    """``NAME=value`` words for env(1), each quoted for the shell."""
    return [quoted(f"{name}={value}") for name, value in values.items()]


def uses_rdma(plan: LaunchPlan) -> bool:
    """Whether a node of this job looks for RDMA devices."""
    return order_of(plan).rdma != "none"
