"""Of a node: what starts images there and as whom, and the scheduler's own table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orbit.launch.site.facts import NodeFacts

if TYPE_CHECKING:
    from orbit.launch.site.probe import Draft

MARK = "NOT FOUND:"
ANY_UID = 1_000_000_000
"""OpenShift gives each project a range of uids from here on."""


def image(facts: NodeFacts, scheduler: str, draft: Draft) -> None:
    """``[image]``."""
    runtime, how = {"slurm": _slurm, "kubernetes": _kubernetes, "htcondor": _htcondor}.get(scheduler, _docker)(facts)
    draft.put("image.runtime", runtime, how)
    if runtime == "none":
        note = f"{MARK} an archive that each node unpacks, or 'prefix': an environment that all nodes see"
        draft.put("image.form", "archive", note)
        draft.put("image.path", "/path/of/archives", f"{MARK} the folder on the nodes that holds them")
        draft.put("image.orbit", "orbit", f"{MARK} the program that unpacks them, best an absolute path")
        return
    file = facts.env.get("APPTAINER_CONTAINER") or facts.env.get("SINGULARITY_CONTAINER") or ""
    folder = file.rpartition("/")[0]
    if runtime == "apptainer" and file.endswith(".sif") and folder.startswith("/") and _is_shared(folder):
        draft.put("image.form", "sif", f"this container runs from {file.rpartition('/')[2]}")
        draft.put("image.path", folder, "where that file lies")
        return
    draft.put("image.form", "registry", "what needs nothing prepared on the nodes")
    draft.put("image.repository", "", f"{MARK} where images are pulled from: registry.example.org/team/orbit")
    if scheduler == "kubernetes":
        draft.put("image.pull_secret", "", f"{MARK} kubectl get secrets, type dockerconfigjson")


def _is_shared(folder: str) -> bool:
    """Whether everybody could name that folder."""
    return not re.match(r"^/(?:home|Users)/[^/]+|^/root(?:/|$)|^/tmp", folder)


def _docker(facts: NodeFacts) -> tuple[str, str]:
    if facts.container in ("docker", "podman"):
        return facts.container, f"this is a container of {facts.container}"
    for name in ("docker", "podman"):
        if name in facts.programs:
            return name, f"{name} is on PATH"
    return "docker", f"{MARK} neither docker nor podman is on PATH"


def _kubernetes(facts: NodeFacts) -> tuple[str, str]:
    del facts
    return "containerd", "what kubelets use; a pod does not see it, and nothing depends on it"


def _slurm(facts: NodeFacts) -> tuple[str, str]:
    if facts.container == "apptainer":
        return "apptainer", "this is a container of Apptainer"
    if facts.container == "enroot":
        return "pyxis", "this is a container of enroot"
    if facts.pyxis:
        return "pyxis", f"{facts.pyxis} names it"
    for name in ("apptainer", "singularity"):
        if name in facts.programs:
            more = "; enroot is there as well, without pyxis in /etc/slurm" if "enroot" in facts.programs else ""
            return "apptainer", f"{name} is on PATH{more}"
    if "enroot" in facts.programs:
        return "pyxis", f"{MARK} enroot is on PATH, and no file of /etc/slurm names pyxis: srun --help tells"
    return "none", f"{MARK} no sign of pyxis in /etc/slurm, and no apptainer on PATH"


def _htcondor(facts: NodeFacts) -> tuple[str, str]:
    if facts.container == "docker":
        return "docker", "this job runs in a container of docker"
    if facts.container == "apptainer":
        return "apptainer", "this job runs in a container of Apptainer"
    for attribute, runtime in (("HasSingularity", "apptainer"), ("HasDocker", "docker")):
        if re.search(rf"(?im)^{attribute}\s*=\s*true\s*$", facts.condor):
            return runtime, f"{attribute} = true in the machine ad"
    return "apptainer", f"{MARK} the machine ad names neither HasSingularity nor HasDocker"


def user(facts: NodeFacts, scheduler: str, draft: Draft) -> None:
    """``[user]``."""
    runtime = draft.values["image"]["runtime"]
    who = f"this process has uid {facts.uid}"
    if runtime in ("apptainer", "pyxis", "none"):
        draft.put("user.policy", "caller", f"{runtime} runs everything as who started it" if runtime != "none" else who)
    elif scheduler == "htcondor":
        draft.put("user.policy", "any", f"HTCondor decides; {who}")
    elif scheduler == "kubernetes" and facts.uid >= ANY_UID:
        draft.put("user.policy", "any", f"{who}, out of a range of the namespace (OpenShift)")
    else:
        draft.put("user.policy", "image", f"{MARK} {who}; 'fixed' (with uid and gid) where images may not say")


def own_table(facts: NodeFacts, scheduler: str, draft: Draft) -> None:
    """``[slurm]``, ``[kubernetes]`` or ``[htcondor]``."""
    env = facts.env
    if scheduler == "slurm":
        for key, variable in (
            ("partition", "SLURM_JOB_PARTITION"),
            ("account", "SLURM_JOB_ACCOUNT"),
            ("qos", "SLURM_JOB_QOS"),
        ):
            value = env.get(variable, "")
            draft.put(f"slurm.{key}", value, variable if value else f"{MARK} {variable} is not set: the default")
        draft.put("slurm.gres", "gpu", f"{MARK} the usual name; scontrol show node, Gres")
    elif scheduler == "kubernetes":
        _kubernetes_table(facts, draft)
    elif scheduler == "htcondor":
        docker = draft.values["image"]["runtime"] == "docker"
        draft.put("htcondor.universe", "docker" if docker else "container", "what goes with image.runtime")
        draft.put("htcondor.requirements", "", f"{MARK} a pool's own rules; GPUs and memory are asked for in any case")


def _kubernetes_table(facts: NodeFacts, draft: Draft) -> None:
    told = facts.namespace or "default"
    known = "of this pod's service account" if facts.namespace else f"{MARK} no service account is mounted here"
    draft.put("kubernetes.namespace", told, known)
    ray = next((name for name in ("KUBERAY_GEN_RAY_START_CMD", "RAY_CLUSTER_NAME") if facts.env.get(name)), "")
    none = f"{MARK} this pod is not KubeRay's: kubectl get crd rayjobs.ray.io"
    draft.put("kubernetes.kuberay", bool(ray), f"{ray} is set" if ray else none)
    draft.put("kubernetes.queue", "", f"{MARK} kubectl get localqueues")
    draft.put("kubernetes.gpu_resource", "nvidia.com/gpu", f"{MARK} the usual name; kubectl describe node, Allocatable")
    need = f"{MARK} kubectl describe node, Allocatable; without it a pod has no /dev/infiniband"
    draft.put("kubernetes.rdma_resource", "", need)
