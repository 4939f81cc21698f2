"""What a scheduler can start, and which keys of a site file are its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbit.launch.site.model import Site

STARTS: dict[str, tuple[str, ...]] = {
    "docker": ("docker", "podman"),
    "kubernetes": ("containerd",),
    "htcondor": ("apptainer", "docker"),
    "slurm": ("pyxis", "apptainer", "none"),
}
"""What starts a container (or, with ``none``, the command itself) under each scheduler."""
TAKES: dict[str, tuple[str, ...]] = {
    "docker": ("registry",),
    "podman": ("registry",),
    "containerd": ("registry",),
    "pyxis": ("registry", "squashfs"),
    "apptainer": ("registry", "sif"),
    "none": ("archive", "prefix"),
}
"""Forms of an image that each of them can start from."""
TABLES = ("slurm", "kubernetes", "htcondor")
SLURM_KEYS = {
    "-p": "slurm.partition", "--partition": "slurm.partition", "-A": "slurm.account", "--account": "slurm.account",
    "-q": "slurm.qos", "--qos": "slurm.qos", "-N": "launch.nodes", "--nodes": "launch.nodes",
    "-t": "launch.minutes", "--time": "launch.minutes", "--mem": "launch.memory_gib",
    "-c": "launch.cpus_per_node", "--cpus-per-task": "launch.cpus_per_node", "-J": "launch.name",
    "--job-name": "launch.name", "--gres": "launch.gpus_per_node", "--gpus-per-node": "launch.gpus_per_node",
    "-G": "launch.gpus_per_node", "--gpus": "launch.gpus_per_node", "--signal": "launch.grace_seconds",
}  # fmt: skip
"""Options of ``sbatch`` that follow from a key of the site or of the recipe."""
CONDOR_KEYS = {
    "request_gpus": "launch.gpus_per_node", "request_cpus": "launch.cpus_per_node",
    "request_memory": "launch.memory_gib", "requirements": "htcondor.requirements", "universe": "htcondor.universe",
    "executable": "launch.command", "arguments": "launch.command", "docker_image": "launch.image",
    "container_image": "launch.image", "queue": "launch.nodes",
}  # fmt: skip
"""Lines of a submit file that follow from a key."""
LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
"""Names in Kubernetes (RFC 1123)."""

type Problem = tuple[str, str]


def runtimes(site: Site) -> Iterator[Problem]:
    """A runtime that the scheduler cannot use; a form of image that the runtime cannot."""
    image, known = site.image, STARTS[site.scheduler]
    runtime = f"image.runtime = {image.runtime!r}"
    if image.runtime not in known:
        yield f"{runtime} with scheduler = {site.scheduler!r}", f"image.runtime is one of: {', '.join(known)}"
        return
    if site.scheduler == "htcondor" and site.htcondor.universe == "docker" and image.runtime != "docker":
        yield f"{runtime} with htcondor.universe = 'docker'", "image.runtime = 'docker', or universe = 'container'"
    forms = TAKES[image.runtime]
    if image.form not in forms:
        fix = f"image.form is one of: {', '.join(forms)}"
        if image.runtime == "none" and image.form == "registry":
            fix = f"without containers {fix} (docs/env-archive.md)"
        yield f"image.form = {image.form!r} with {runtime}", fix


def own_tables(site: Site) -> Iterator[Problem]:
    """Keys of another scheduler, which nothing reads; and keys of this one that contradict others."""
    for name in TABLES:
        table = getattr(site, name)
        if name != site.scheduler and table != type(table)():
            what = f"table [{name}] with scheduler = {site.scheduler!r}"
            yield what, f"remove it: only [{site.scheduler}] is read"
    if site.scheduler != "kubernetes":
        if site.image.pull_secret:
            yield f"image.pull_secret with scheduler = {site.scheduler!r}", "remove it: it is Kubernetes' alone"
        if site.network.cluster_domain != "cluster.local":
            yield f"network.cluster_domain with scheduler = {site.scheduler!r}", "remove it: it is Kubernetes' alone"
    own = {"slurm": _slurm, "kubernetes": _kubernetes, "htcondor": _htcondor}.get(site.scheduler)
    yield from own(site) if own else ()


def makes_scratch(site: Site) -> bool:
    """Whether the scheduler itself brings the folder ``storage.scratch`` along (Kubernetes: an emptyDir)."""
    return site.scheduler == "kubernetes" and site.kubernetes.scratch == "emptydir"


def _slurm(site: Site) -> Iterator[Problem]:
    for number, option in enumerate(site.slurm.options):
        where = f"slurm.options[{number}]"
        name = re.split(r"[=\s]", option, maxsplit=1)[0]
        if not option.startswith("-") or "\n" in option:
            yield f"{where} = {option!r} is no option", "write it as after #SBATCH: --constraint=ib"
        elif name in SLURM_KEYS:
            yield f"{where} = {option!r} and {SLURM_KEYS[name]} are two places for one thing", "remove it there"


def _kubernetes(site: Site) -> Iterator[Problem]:
    kubernetes = site.kubernetes
    for key in ("namespace", "queue", "service_account", "runtime_class"):
        value = getattr(kubernetes, key)
        if value and not LABEL.match(value):
            yield f"kubernetes.{key} = {value!r} is no name", "a-z, 0-9 and '-', at most 63"
    if site.network.rdma == "required" and not kubernetes.rdma_resource:
        what = "network.rdma = 'required' without kubernetes.rdma_resource"
        yield what, "name the resource that brings /dev/infiniband into a pod: kubectl describe node, Allocatable"


def _htcondor(site: Site) -> Iterator[Problem]:
    for name, value in site.htcondor.attributes.items():
        key = CONDOR_KEYS.get(name.strip().lower())
        if key:
            yield f"htcondor.attributes.{name} and {key} are two places for one thing", "remove it there"
        if "\n" in f"{name}{value}" or not name.strip():
            yield f"htcondor.attributes: {name!r} is no line of a submit file", "one name, one value, one line"
