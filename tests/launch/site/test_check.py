"""Site files that contradict themselves: each contradiction is told with both keys."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orbit.core.records import convert
from orbit.launch.site.check import mount_of, problems
from orbit.launch.site.model import Mount, Site, read_site, site_names

SOUND: dict[str, dict[str, Any]] = {
    "slurm": {
        "schema": 1,
        "name": "here",
        "scheduler": "slurm",
        "nodes": {"gpus": 8, "gpu": "H100", "cpus": 96, "memory_gib": 1000, "most": 2},
        "image": {"runtime": "pyxis", "repository": "registry.example.org/team/orbit"},
        "storage": {
            "scratch": "/scratch",
            "shared": "/shared",
            "mounts": [
                {"host": "/local", "container": "/scratch"},
                {"host": "/lustre/x", "container": "/shared", "shared": True, "file_system": "lustre"},
            ],
        },
    },
    "kubernetes": {
        "schema": 1,
        "name": "here",
        "scheduler": "kubernetes",
        "nodes": {"gpus": 0, "cpus": 8, "memory_gib": 30},
        "image": {"runtime": "containerd", "repository": "registry.example.org/team/orbit"},
    },
    "htcondor": {
        "schema": 1,
        "name": "here",
        "scheduler": "htcondor",
        "nodes": {"gpus": 1, "gpu": "B200", "cpus": 8, "memory_gib": 30},
        "image": {"runtime": "apptainer", "repository": "registry.example.org/team/orbit"},
    },
    "docker": {
        "schema": 1,
        "name": "here",
        "scheduler": "docker",
        "nodes": {"gpus": 1, "gpu": "B200", "cpus": 8, "memory_gib": 30},
        "image": {"runtime": "docker", "repository": "registry.example.org/team/orbit"},
    },
}


def changed(base: str, changes: dict[str, Any]) -> Site:
    """A sound site with something changed; a key is a path with dots."""
    plain = copy.deepcopy(SOUND[base])
    for path, value in changes.items():
        here: Any = plain
        *folders, last = path.split(".")
        for name in folders:
            here = here[int(name)] if name.isdigit() else here.setdefault(name, {})
        here[last] = value
    return convert(plain, Site, "site")


@pytest.mark.parametrize("base", SOUND)
def test_a_sound_site_has_no_problem(base: str) -> None:
    assert problems(changed(base, {})) == ()


def test_every_shipped_site_is_sound_and_each_kind_is_there() -> None:
    sites = [read_site(name) for name in site_names()]
    assert [(site.name, problems(site)) for site in sites if problems(site)] == []
    kinds = {(site.scheduler, site.image.runtime) for site in sites}
    assert kinds >= {
        ("docker", "docker"), ("slurm", "pyxis"), ("slurm", "apptainer"), ("slurm", "none"),
        ("kubernetes", "containerd"), ("htcondor", "apptainer"), ("htcondor", "docker"),
    }  # fmt: skip
    assert {site.nodes.gpu for site in sites} == {"H100", "B200"}
    assert {site.nodes.gpus for site in sites if site.scheduler == "docker"} == {1, 8}


M0, M1 = "storage.mounts.0", "storage.mounts.1"
BROKEN: list[tuple[str, dict[str, Any], str, str]] = [
    ("slurm", {"name": "My Cluster"}, "name = 'My Cluster'", ""),
    ("slurm", {"nodes.gpus": -1}, "nodes.gpus = -1", ""),
    ("slurm", {"nodes.cpus": 0}, "nodes.cpus = 0", ""),
    ("slurm", {"nodes.most": 0}, "nodes.most = 0", ""),
    ("slurm", {"limits.nofile": 0}, "limits.nofile = 0", ""),
    ("slurm", {"nodes.gpu": ""}, "nodes.gpus = 8", "nodes.gpu"),
    ("slurm", {"nodes.gpus": 0}, "nodes.gpu = 'H100'", "nodes.gpus = 0"),
    ("slurm", {"limits.shm_gib": 2000}, "limits.shm_gib = 2000", "nodes.memory_gib = 1000"),
    ("slurm", {"image.runtime": "docker"}, "image.runtime = 'docker'", "scheduler = 'slurm'"),
    ("slurm", {"image.runtime": "containerd"}, "image.runtime = 'containerd'", "scheduler = 'slurm'"),
    ("docker", {"image.runtime": "none"}, "image.runtime = 'none'", "scheduler = 'docker'"),
    ("kubernetes", {"image.runtime": "apptainer"}, "image.runtime = 'apptainer'", "scheduler = 'kubernetes'"),
    ("htcondor", {"htcondor.universe": "docker"}, "image.runtime = 'apptainer'", "htcondor.universe = 'docker'"),
    ("docker", {"image.form": "sif", "image.path": "/i"}, "image.form = 'sif'", "image.runtime = 'docker'"),
    ("slurm", {"image.form": "sif", "image.path": "/i"}, "image.form = 'sif'", "image.runtime = 'pyxis'"),
    ("slurm", {"image.runtime": "none"}, "image.form = 'registry'", "image.runtime = 'none'"),
    ("slurm", {"image.form": "squashfs"}, "image.form = 'squashfs'", "image.path"),
    ("slurm", {"image.path": "/images"}, "image.path", "image.form = 'registry'"),
    ("slurm", {"image.form": "squashfs", "image.path": "images"}, "image.path = 'images'", "absolute"),
    ("slurm", {"image.form": "squashfs", "image.path": "/home/ann/i"}, "image.path", "one person's"),
    ("slurm", {"image.orbit": "/home/ann/bin/orbit"}, "image.orbit", "one person's"),
    ("slurm", {"image.repository": "docker://registry.example.org/x"}, "image.repository", "docker://"),
    ("slurm", {"image.repository": "registry.example.org/x:latest"}, "image.repository", "tag"),
    ("slurm", {"kubernetes.namespace": "x"}, "table [kubernetes]", "scheduler = 'slurm'"),
    ("kubernetes", {"slurm.partition": "x"}, "table [slurm]", "scheduler = 'kubernetes'"),
    ("slurm", {"image.pull_secret": "x"}, "image.pull_secret", "scheduler = 'slurm'"),
    ("slurm", {"network.cluster_domain": "x.y"}, "network.cluster_domain", "scheduler = 'slurm'"),
    ("slurm", {"slurm.options": ["constraint=ib"]}, "slurm.options[0]", "no option"),
    ("slurm", {"slurm.options": ["--exclusive", "--partition=x"]}, "slurm.options[1]", "slurm.partition"),
    ("slurm", {"slurm.options": ["--gres=gpu:4"]}, "slurm.options[0]", "launch.gpus_per_node"),
    ("kubernetes", {"kubernetes.namespace": "A B"}, "kubernetes.namespace = 'A B'", ""),
    ("kubernetes", {"network.rdma": "required", "limits.memlock": "unlimited"}, "network.rdma", "rdma_resource"),
    ("htcondor", {"htcondor.attributes": {"request_gpus": "3"}}, "htcondor.attributes.request_gpus", "gpus_per_node"),
    ("htcondor", {"htcondor.attributes": {"a": "1\nqueue 9"}}, "htcondor.attributes", "one line"),
    ("slurm", {f"{M0}.host": "local"}, "storage.mounts[0].host", "absolute"),
    ("slurm", {f"{M0}.host": "~/scratch"}, "storage.mounts[0].host", "absolute"),
    ("slurm", {f"{M0}.host": "/home/ann/x"}, "storage.mounts[0].host", "one person's"),
    ("slurm", {f"{M0}.host": "/local/$HOME"}, "storage.mounts[0].host", "${USER}"),
    ("slurm", {f"{M0}.host": "/local/../x"}, "storage.mounts[0].host", "'..'"),
    ("slurm", {f"{M0}.host": "/mnt/a:b"}, "storage.mounts[0].host", "':'"),
    ("slurm", {f"{M0}.container": "/a,b"}, "storage.mounts[0].container", "','"),
    ("slurm", {f"{M0}.container": "scratch"}, "storage.mounts[0].container", "absolute"),
    ("slurm", {f"{M0}.container": "/"}, "storage.mounts[0].container", "hides the image"),
    ("slurm", {f"{M0}.container": "/opt/orbit/lib"}, "storage.mounts[0].container", "hides /opt/orbit"),
    ("slurm", {f"{M0}.container": "/x/${USER}"}, "storage.mounts[0].container", "${USER}"),
    ("slurm", {f"{M0}.container": "/shared/"}, "storage.mounts[1].container", "storage.mounts[0].container"),
    ("slurm", {f"{M1}.file_system": "local"}, "storage.mounts[1].shared", "storage.mounts[1].file_system"),
    ("slurm", {"storage.scratch": "/elsewhere"}, "storage.scratch = '/elsewhere'", "storage.mounts"),
    ("slurm", {"storage.shared": "/elsewhere"}, "storage.shared = '/elsewhere'", "storage.mounts"),
    ("kubernetes", {"storage.shared": "/x"}, "storage.shared = '/x'", "storage.mounts"),
    ("slurm", {f"{M0}.read_only": True}, "storage.scratch = '/scratch'", "read_only"),
    ("slurm", {f"{M0}.locks": False}, "storage.scratch = '/scratch'", "locks"),
    ("slurm", {f"{M0}.noexec": True}, "storage.scratch = '/scratch'", "noexec"),
    ("slurm", {f"{M0}.file_system": "nfs"}, "storage.scratch = '/scratch'", "file_system = 'nfs'"),
    ("slurm", {f"{M1}.shared": False}, "storage.shared = '/shared'", "shared"),
    ("slurm", {"storage.scratch": "/shared"}, "storage.scratch and storage.shared", ""),
    ("slurm", {"network.proxy": "proxy:3128"}, "network.proxy = 'proxy:3128'", "http://host:port"),
    ("slurm", {"network.no_proxy": ["a"]}, "network.no_proxy", "network.proxy"),
    ("slurm", {"network.rdma": "required"}, "network.rdma = 'required'", "limits.memlock = 'limited'"),
    ("slurm", {"limits.pidfd_getfd": False}, "limits.cuda_ipc = true", "limits.pidfd_getfd = false"),
    ("slurm", {"user.uid": 1000}, "user.uid", "user.policy = 'image'"),
    ("kubernetes", {"user.policy": "caller"}, "user.policy = 'caller'", "scheduler = 'kubernetes'"),
    ("slurm", {"user.policy": "fixed"}, "user.policy = 'fixed'", "image.runtime = 'pyxis'"),
    ("slurm", {"environment": {"A-B": "x"}}, "environment.A-B", "no variable"),
    ("slurm", {"environment": {"WANDB_API_KEY": "x"}}, "environment.WANDB_API_KEY", "launch.secrets"),
    ("slurm", {"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, "environment.CUDA_VISIBLE_DEVICES", ""),
    ("slurm", {"environment": {"HTTPS_PROXY": "x"}}, "environment.HTTPS_PROXY", "network.proxy"),
    ("slurm", {"environment": {"ORBIT_STATE": "/x"}}, "environment.ORBIT_STATE", "storage.scratch"),
]


@pytest.mark.parametrize(("base", "changes", "first", "second"), BROKEN, ids=lambda value: str(value)[:60])
def test_each_contradiction_names_both_keys_and_what_to_do(
    base: str, changes: dict[str, Any], first: str, second: str
) -> None:
    found = problems(changed(base, changes))
    told = [f"{what} | {fix}" for what, fix in found if first in what and second in f"{what} {fix}"]
    assert told, found
    assert all(what and fix for what, fix in found)


def test_a_password_in_the_proxy_is_not_printed() -> None:
    (found,) = problems(changed("docker", {"network.proxy": "http://ann:pass1234@proxy.example.org:3128"}))
    assert "holds a password" in found[0]
    assert "pass1234" not in f"{found}"


def test_without_containers_paths_are_the_nodes_own() -> None:
    bare = {"image": {"runtime": "none", "form": "archive", "path": "/sw"}}
    (found,) = problems(changed("slurm", bare | {"storage": {"mounts": [{"host": "/local", "container": "/x"}]}}))
    assert "storage.mounts[0].host" in found[0]
    assert "image.runtime = 'none'" in found[0]
    alone = {"scratch": "/local/scratch", "shared": "/nfs/demo"}
    assert problems(changed("slurm", bare | {"storage": alone})) == ()


def test_a_scratch_that_the_scheduler_makes_needs_no_mount() -> None:
    assert problems(changed("kubernetes", {"storage.scratch": "/scratch"})) == ()
    assert problems(changed("docker", {"storage.scratch": "/tmp/orbit"})) == ()
    (found,) = problems(changed("kubernetes", {"storage.scratch": "/scratch", "kubernetes.scratch": "hostpath"}))
    assert "storage.mounts" in found[0]


def test_the_innermost_mount_counts() -> None:
    outer, inner = Mount(host="/a", container="/data"), Mount(host="/b", container="/data/x/")
    assert mount_of("/data/x/y", (outer, inner)) is inner
    assert mount_of("/data/xy", (outer, inner)) is outer
    assert mount_of("/database", (outer, inner)) is None
