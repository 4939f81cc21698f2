# ruff: noqa: E501 - a case is one line
"""Field reports: what broke for others is found in the manifest, before the job runs. One test for each report."""

from __future__ import annotations

import pytest

from orbit.core.findings import Severity
from orbit.launch.lint.known import Known
from orbit.launch.lint.run import lint_text
from tests.launch.lint.rules.cases import RAY_SCRIPT
from tests.launch.lint.sound import COMPOSE, CONDOR, DIGEST, DOCKER, JOB, OTHER, RAY_JOB, SLURM, changed, found

KNOWN = Known(ray="2.55.1")


def errors(text: str, rule: str, known: Known = KNOWN) -> list[str]:
    """Messages of one rule that stop a job."""
    return [finding.message for finding in found(text, rule, known) if finding.fatal]


def test_1_shared_memory_of_64_mb() -> None:
    """NVIDIA/nccl#290, vllm-project/vllm#1710."""
    for text in (
        changed(JOB, ("        - {name: shm, mountPath: /dev/shm}\n", "")),
        changed(DOCKER, (" --shm-size=16g", "")),
        changed(COMPOSE, ("    shm_size: 16gb\n", "")),
    ):
        (message,) = errors(text, "shared-memory")
        assert "64 MiB" in message
    assert found(changed(DOCKER, ("--shm-size=16g", "--ipc host")), "shared-memory") == []


def test_1_a_second_container_and_a_volume_that_is_mounted_elsewhere() -> None:
    other = changed(JOB, ("mountPath: /dev/shm", "mountPath: /dev/shm2"))
    assert errors(other, "shared-memory")
    (line,) = [finding.subject for finding in found(other, "shared-memory")]
    assert "pod/trainer" in line


def test_2_object_store_larger_than_shared_memory() -> None:
    """ray-project/kuberay#201: sized by the request here, by the limit there."""
    text = changed(RAY_JOB, ("requests: {memory: 64Gi}", "requests: {memory: 8Gi}"))
    text = changed(text, ('num-gpus: "8"', 'object-store-memory: "20000000000", num-gpus: "8"'))
    (message,) = errors(text, "shared-memory")
    assert "20.00 GB" in message
    assert "8 GiB" in message
    assert [finding.severity for finding in found(text, "memory-request")] == [Severity.WARNING]


def test_2_shared_memory_counts_as_memory_of_the_pod() -> None:
    (message,) = errors(changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 65Gi")), "shared-memory")
    assert "memory limit" in message
    assert errors(changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 64Gi")), "shared-memory") == []


@pytest.mark.parametrize("size", ["64", "80"])
def test_6_a_path_for_sockets_that_is_too_long(size: str) -> None:
    """verl-project/verl#1120, ray-project/ray#7724."""
    folder = "/" + "s" * (int(size) - 1)
    assert errors(changed(RAY_SCRIPT, ("--head", f"--head --temp-dir {folder}")), "ray-folder")


def test_10_the_slots_gpus_are_not_overwritten() -> None:
    """CHTC/chtc-website-source#350."""
    for line in ('environment = "CUDA_VISIBLE_DEVICES=0"', "environment = CUDA_VISIBLE_DEVICES=0;A=1"):
        assert errors(changed(CONDOR, ("queue", f"{line}\nqueue")), "device-variable")


def test_11_the_switch_that_shows_every_gpu_to_every_actor() -> None:
    """ray-project/ray#54928."""
    text = changed(JOB, ('MODE, value: "1"', 'RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES, value: "1"'))
    assert found(text, "device-variable")


@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES"])
def test_14_no_interface_is_named(name: str) -> None:
    """NVIDIA/nccl#913, aws/deep-learning-containers#6469."""
    assert found(changed(JOB, ('MODE, value: "1"', f"{name}, value: eth0")), "network-interface")
    assert found(changed(SLURM, ("srun", f"export {name}=eth0\nsrun")), "network-interface")
    assert found(changed(DOCKER, ("-e HF_TOKEN", f"-e {name}=eth0")), "network-interface")


@pytest.mark.parametrize(
    ("security", "known", "count"),
    [
        ("{runAsUser: 1000, capabilities: {add: [IPC_LOCK]}}", KNOWN, 1),
        ("{runAsNonRoot: true, capabilities: {add: [IPC_LOCK]}}", KNOWN, 1),
        ("{capabilities: {add: [IPC_LOCK]}}", Known(uid=65534), 1),
        ("{capabilities: {add: [IPC_LOCK]}}", Known(uid=65534, image=OTHER), 0),
        ("{runAsUser: 0, capabilities: {add: [IPC_LOCK]}}", Known(uid=65534), 0),
    ],
)
def test_16_ipc_lock_does_nothing_for_a_user(security: str, known: Known, count: int) -> None:
    """NVIDIA/nccl-tests#206."""
    text = changed(JOB, ("- name: trainer", f"- name: trainer\n        securityContext: {security}"))
    assert [item.severity for item in found(text, "locked-memory", known)].count(Severity.WARNING) == count


def test_17_host_network_needs_an_anti_affinity_and_ports_apart() -> None:
    """ray-project/kuberay#1738, ray-project/ray#22663."""
    host = changed(
        RAY_JOB,
        (
            "          containers:",
            "          hostNetwork: true\n          dnsPolicy: ClusterFirstWithHostNet\n          containers:",
        ),
    )
    (finding,) = found(host, "host-network")
    assert "anti-affinity" in finding.message
    apart = "          affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}\n"
    assert found(changed(host, ("          hostNetwork", f"{apart}          hostNetwork")), "host-network") == []
    inside = 'num-gpus: "8", port: "10005", min-worker-port: "10002", max-worker-port: "19999"'
    assert errors(changed(RAY_JOB, ('num-gpus: "8"', inside)), "port-clash")


def test_18_the_dns_policy_under_host_networking() -> None:
    """ray-project/kuberay#1140."""
    (message,) = errors(
        changed(RAY_JOB, ("          containers:", "          hostNetwork: true\n          containers:")),
        "host-network",
    )
    assert "dnsPolicy" in message


@pytest.mark.parametrize(
    "command",
    ['[sh, -c, "set -e; python train.py; echo done"]', '[bash, -lc, "python train.py 2>&1 | tee /log"]',
     '[/bin/bash, -c, "source a.sh && python train.py"]'],
)  # fmt: skip
def test_20_sigterm_does_not_get_through_a_shell(command: str) -> None:
    """ray-project/kuberay#5042."""
    text = changed(JOB, ('args: [torchrun, --nproc-per-node, "8", train.py]', f"command: {command}"))
    assert found(text, "lost-signal")


def test_21_how_often_a_ray_job_is_submitted() -> None:
    """ray-project/kuberay#2376, #2393."""
    text = changed(RAY_JOB, ("  backoffLimit: 0\n", ""), ("  submitterConfig: {backoffLimit: 0}\n", ""))
    assert len(found(text, "job-retry")) == 2
    assert found(RAY_JOB, "job-retry") == []


@pytest.mark.parametrize("role", ["head", "worker", "submitter"])
def test_22_one_digest_for_head_worker_and_submitter(role: str) -> None:
    """ray-project/ray#44063, ray-project/kuberay#154."""
    submitter = f"  submitterPodTemplate: {{spec: {{containers: [{{name: s, image: 'registry.example.org/team/stack@{DIGEST}'}}]}}}}\n"
    parts = (RAY_JOB + submitter).split(DIGEST)
    assert len(parts) == 4
    place = {"head": 0, "worker": 1, "submitter": 2}[role]
    names = [OTHER if number == place else DIGEST for number in range(3)]
    text = "".join(part + name for part, name in zip(parts, [*names, ""], strict=True))
    assert errors(text, "image-mixed")
    assert errors(RAY_JOB + submitter, "image-mixed") == []


def test_22_sidecars_and_init_containers_may_differ() -> None:
    side = (
        f"          - {{name: log, image: 'x@{OTHER}'}}\n          initContainers: [{{name: i, image: 'y@{OTHER}'}}]\n"
    )
    text = changed(RAY_JOB, ("    workerGroupSpecs:", f"{side}    workerGroupSpecs:"))
    assert errors(text, "image-mixed") == []


def test_22_another_python_in_the_tag() -> None:
    text = RAY_JOB.replace(f"team/stack@{DIGEST}", "rayproject/ray:2.55.1-py310", 1)
    text = text.replace(f"team/stack@{DIGEST}", "rayproject/ray:2.55.1-py312").replace("registry.example.org/", "")
    (message,) = errors(text, "image-mixed")
    assert "Python 312" in message


def test_23_a_pull_takes_longer_than_the_deadline() -> None:
    """kubernetes/kubernetes#59376, kubernetes/test-infra#15102."""
    assert found(
        changed(JOB, ("  backoffLimit: 0\n", "  backoffLimit: 0\n  activeDeadlineSeconds: 300\n")), "start-deadline"
    )
    assert found(changed(JOB, ("IfNotPresent", "Always")), "pull-policy")
    assert found(changed(JOB, (f"@{DIGEST}", ":1.0")), "image-tag")


def test_24_a_relative_path_under_pyxis() -> None:
    """NVIDIA/pyxis#119."""
    (finding,) = found(changed(SLURM, (" --container-workdir=/data", "")), "relative-path")
    assert "train.py" in finding.message


def test_25_fewer_cpus_than_ray_is_told_of_and_an_old_address() -> None:
    """allenai/open-instruct#1431."""
    assert errors(changed(RAY_SCRIPT, ("--num-cpus 16", "--num-cpus 60")), "slurm-cpus")
    text = changed(RAY_SCRIPT, ("#SBATCH --export=NONE\nunset RAY_ADDRESS\n", "# unset RAY_ADDRESS\n"))
    assert found(text, "slurm-environment")


def test_26_no_huge_pages() -> None:
    text = changed(JOB, ("limits: {memory: 64Gi", "limits: {hugepages-1Gi: 2Gi, memory: 64Gi"))
    assert found(text, "huge-pages")


@pytest.mark.parametrize("version", ["2.55.0", "2.46.0", "v2.54.1", "2.55"])
def test_the_version_that_kuberay_is_told(version: str) -> None:
    text = RAY_JOB.replace("team/stack", "team/orbit").replace('"2.55.1"', f'"{version}"')
    assert errors(text, "ray-version")
    assert errors(RAY_JOB.replace('"2.55.1"', f'"{version}"'), "ray-version", Known(ray="2.55.1", sure=True))


def test_a_ray_version_of_an_image_that_nobody_knows_is_no_error() -> None:
    text = RAY_JOB.replace('"2.55.1"', '"2.46.0"')
    assert errors(text, "ray-version") == []
    assert {finding.severity for finding in lint_text(text, "a.yaml", known=KNOWN)} == {Severity.NOTE}
    assert lint_text(text, "a.yaml") == ()
