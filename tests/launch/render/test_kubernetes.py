"""A plain Job: golden files, what the API accepts, and each field that a field report asked for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orbit.errors import InputError
from orbit.launch.node.options import Order, parse
from orbit.launch.plan import ENTRYPOINT, LaunchPlan
from orbit.launch.render import render
from tests.launch.render.golden import check_golden
from tests.launch.render.kubernetes import check_schema, only
from tests.launch.render.plans import DIGEST, REPOSITORY, plan

FULL: dict[str, Any] = {
    "network": {"host_network": True, "rdma": "wanted", "cluster_domain": "corp.test", "proxy": "http://proxy:3128"},
    "user": {"policy": "fixed", "uid": 1000, "gid": 1000},
    "image": {"runtime": "containerd", "repository": REPOSITORY, "pull_secret": "registry"},
    "storage": {
        "scratch": "/scratch",
        "mounts": [{"host": "/lustre/team", "container": "/data", "read_only": True}],
    },
    "kubernetes": {
        "namespace": "team",
        "queue": "gpus",
        "service_account": "trainer",
        "runtime_class": "nvidia",
        "rdma_resource": "rdma/hca",
        "node_selector": {"pool": "h100"},
        "tolerations": ["nvidia.com/gpu"],
    },
}


def full(**changed: Any) -> LaunchPlan:
    """Two nodes, host networking, RDMA, a fixed user, a secret."""
    asked = {"nodes": 2, "gpus_per_node": 8, "secrets": ["TOKEN"], "folder": "/data/demo", "environment": {"A": "$(B)"}}
    return plan("kubernetes", of_site=FULL, **(asked | changed))


def job_of(one: LaunchPlan) -> dict[str, Any]:
    """The Job."""
    return only(render(one, "job")[0].text, "Job")


def pod_of(one: LaunchPlan) -> dict[str, Any]:
    """The spec of its pods."""
    spec: dict[str, Any] = job_of(one)["spec"]["template"]["spec"]
    return spec


def main_of(one: LaunchPlan) -> dict[str, Any]:
    """Their container."""
    (found,) = pod_of(one)["containers"]
    made: dict[str, Any] = found
    return made


def order_in(one: LaunchPlan) -> Order:
    """What a node is told, as the kubelet starts it."""
    container = main_of(one)
    words = [*container["command"], *(word.replace("$$", "$") for word in container["args"])]
    assert words[:4] == [ENTRYPOINT, "orbit", "launch", "node"]
    return parse(words[4:])


CASES = {
    "kubernetes-job-1": (lambda: plan("kubernetes"), "job"),
    "kubernetes-job-8-gpus": (lambda: plan("kubernetes", gpus_per_node=8, secrets=["TOKEN"]), "job"),
    "kubernetes-job-2-nodes": (full, "job"),
    "kubernetes-prepull": (full, "prepull"),
}


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    make, form = CASES[case]
    files = render(make(), form)
    check_golden(case, files)
    assert check_schema(files[0].text) >= 3


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
@pytest.mark.parametrize("case", CASES)
def test_kubectl_reads_it(case: str, tmp_path: Path) -> None:
    """Without a server: what kubectl decodes into the types it knows."""
    make, form = CASES[case]
    path = tmp_path / "a.yaml"
    path.write_text(render(make(), form)[0].text)
    argv = ["kubectl", "annotate", "--local", "-f", str(path), "seen=yes", "-o", "name"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "/demo" in said.stdout


def test_a_node_is_told_what_it_must_have() -> None:
    order = order_in(full())
    assert order.nodes == 2
    assert order.rank == "env:JOB_COMPLETION_INDEX"
    assert order.meet == "tcp:demo-0.demo.team.svc.corp.test"
    assert order.ports == full().ports
    assert (order.gpus, order.cpus, order.memory_gib, order.shm_gib, order.image) == (8, 96, 1000, 16, DIGEST)
    assert order.command == ("python3.12", "/data/train.py")


def test_one_node_needs_no_name_and_no_token() -> None:
    one = plan("kubernetes")
    text = render(one, "job")[0].text
    assert "kind: Service" not in text
    assert "secret" not in text
    assert order_in(one).meet == ""


@pytest.mark.parametrize(
    "command", [["sh", "-c", "echo $(HOME) $$ $HOME"], ["a", "y", "1e3", 'it\'s "q"'], ["a", "x\ny"]]
)
def test_no_word_of_the_command_is_changed(command: list[str]) -> None:
    assert list(order_in(plan("kubernetes", command=command)).command) == command


def test_values_of_variables_are_not_expanded() -> None:
    env = {each["name"]: each.get("value") for each in main_of(full())["env"]}
    assert env["A"] == "$$(B)"


def test_the_first_pod_has_a_name_before_it_is_ready() -> None:
    service = only(render(full(), "job")[0].text, "Service")
    template = job_of(full())["spec"]["template"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert service["metadata"]["name"] == template["spec"]["subdomain"] == job_of(full())["metadata"]["name"]


def test_it_runs_once() -> None:
    spec = job_of(full())["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (2, 2, "Indexed")
    assert spec["backoffLimit"] == 0
    assert {rule["action"] for rule in spec["podFailurePolicy"]["rules"]} == {"FailJob"}
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["containerName"] == main_of(full())["name"]
    assert pod_of(full())["restartPolicy"] == "Never"


def test_shared_memory_is_asked_for_and_counts_as_memory() -> None:
    (shm,) = [volume for volume in pod_of(full())["volumes"] if volume["name"] == "shm"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
    assert {"name": "shm", "mountPath": "/dev/shm"} in main_of(full())["volumeMounts"]
    assert main_of(full())["resources"]["limits"]["memory"] == "1000Gi"
    with pytest.raises(InputError, match="shm_gib"):
        plan("kubernetes", memory_gib=8, shm_gib=16)


def test_requests_are_limits() -> None:
    asked = main_of(full())["resources"]
    assert asked["requests"] == asked["limits"]
    assert asked["limits"] == {
        "cpu": "96",
        "memory": "1000Gi",
        "ephemeral-storage": "28Gi",
        "nvidia.com/gpu": "8",
        "rdma/hca": "1",
    }


def test_scratch_is_bounded_and_where_the_site_says() -> None:
    def places(one: LaunchPlan) -> dict[str, str]:
        return {each["name"]: each["mountPath"] for each in main_of(one)["volumeMounts"]}

    assert places(full())["scratch"] == "/scratch"
    assert places(plan("kubernetes"))["scratch"] == "/tmp"
    (volume,) = [each for each in pod_of(full())["volumes"] if each["name"] == "scratch"]
    assert volume["emptyDir"] == {"sizeLimit": "20Gi"}
    on_host = FULL | {"kubernetes": {"scratch": "hostpath"}}
    one = plan("kubernetes", of_site=on_host)
    (volume,) = [each for each in pod_of(one)["volumes"] if each["name"] == "scratch"]
    assert volume["hostPath"] == {"path": "/scratch", "type": "Directory"}
    assert main_of(one)["resources"]["limits"]["ephemeral-storage"] == "8Gi"


def test_the_token_and_secrets_are_named_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    text = render(full(), "job")[0].text
    assert "hunter2" not in text
    assert "kind: Secret" not in text
    env = {each["name"]: each for each in main_of(full())["env"]}
    assert env["TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "demo-orbit", "key": "TOKEN"}}
    assert env["ORBIT_OWNER_FILE"]["value"] == "/run/orbit/owner"
    (volume,) = [each for each in pod_of(full())["volumes"] if each["name"] == "owner"]
    assert volume["secret"]["items"] == [{"key": "owner", "path": "owner"}]
    assert volume["secret"]["defaultMode"] == 0o440
    anybody = plan("kubernetes", nodes=2)
    (volume,) = [each for each in pod_of(anybody)["volumes"] if each["name"] == "owner"]
    assert volume["secret"]["defaultMode"] == 0o444


def test_the_image_is_pulled_by_digest() -> None:
    container = main_of(full())
    assert container["image"] == f"{REPOSITORY}@{DIGEST}"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert pod_of(full())["imagePullSecrets"] == [{"name": "registry"}]


def test_host_networking_keeps_names_and_keeps_nodes_apart() -> None:
    spec = pod_of(full())
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    labels = job_of(full())["spec"]["template"]["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert "affinity" not in pod_of(plan("kubernetes", nodes=2))


def test_no_proxy_gets_to_see_the_jobs_own_nodes() -> None:
    env = {each["name"]: each.get("value", "") for each in main_of(full())["env"]}
    assert {"localhost", ".corp.test", ".svc", "demo-0.demo.team.svc.corp.test"} <= set(env["no_proxy"].split(","))


def test_nothing_of_the_clusters_api_is_in_the_pod() -> None:
    spec = pod_of(full())
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["serviceAccountName"] == "trainer"


def test_times() -> None:
    spec = pod_of(full(minutes=30, late_minutes=5, grace_seconds=90))
    assert spec["activeDeadlineSeconds"] == 35 * 60
    assert spec["terminationGracePeriodSeconds"] == 90
    assert job_of(full())["spec"]["ttlSecondsAfterFinished"] == 86400


def test_where_it_goes() -> None:
    spec = pod_of(full())
    assert spec["nodeSelector"] == {"pool": "h100"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert spec["runtimeClassName"] == "nvidia"
    assert job_of(full())["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    without = plan("kubernetes", of_site={"kubernetes": {"runtime_class": "nvidia"}})
    assert "runtimeClassName" not in pod_of(without)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in main_of(without)["env"]


def test_users() -> None:
    assert pod_of(full())["securityContext"]["runAsUser"] == 1000
    assert pod_of(full())["securityContext"]["fsGroup"] == 1000
    assert "securityContext" not in pod_of(plan("kubernetes"))
    anybody = plan("kubernetes", of_site={"user": {"policy": "any"}})
    assert "securityContext" not in pod_of(anybody)
    assert main_of(anybody)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_locked_memory_is_asked_for_only_where_it_is_given() -> None:
    """IPC_LOCK has no effect for a user that is not root: said on top of the file, not asked for."""
    text = render(full(), "job")[0].text
    assert "IPC_LOCK" in text.split("apiVersion")[0]
    assert "capabilities" in main_of(full())["securityContext"]
    assert "add" not in main_of(full())["securityContext"]["capabilities"]
    root = FULL | {"user": {"policy": "fixed", "uid": 0, "gid": 0}}
    one = plan("kubernetes", of_site=root, gpus_per_node=8)
    assert main_of(one)["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}
    assert "IPC_LOCK does nothing" not in render(one, "job")[0].text
    unlimited = plan("kubernetes", of_site=FULL | {"limits": {"memlock": "unlimited"}}, gpus_per_node=8)
    assert "IPC_LOCK" not in render(unlimited, "job")[0].text


def test_no_huge_pages_are_asked_for() -> None:
    assert "hugepages" not in render(full(), "job")[0].text


@pytest.mark.parametrize(
    ("of_site", "of_job", "said"),
    [
        ({}, {"name": "1st"}, "begins with a digit"),
        ({"user": {"policy": "caller"}}, {}, "'caller'"),
        ({"image": {"runtime": "apptainer", "form": "sif", "path": "/i"}}, {}, "registries"),
        ({"storage": {"mounts": [{"host": "/home/${USER}", "container": "/h"}]}}, {}, "${USER}"),
        ({}, {"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, "CUDA_VISIBLE_DEVICES"),
        ({"network": {"rdma": "required"}}, {}, "/dev/infiniband"),
        ({"kubernetes": {"scratch": "hostpath"}}, {}, "storage.scratch"),
    ],
)
def test_what_a_cluster_cannot_be_told_is_refused(of_site: dict[str, Any], of_job: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        render(plan("kubernetes", of_site=of_site, **of_job), "job")
    assert said in str(caught.value)
    assert caught.value.fix


def test_the_image_is_brought_to_every_node_that_could_run_it() -> None:
    one = only(render(full(), "prepull")[0].text, "DaemonSet")
    spec = one["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == main_of(full())["image"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"pool": "h100"}
    assert spec["tolerations"]
    assert "nvidia.com/gpu" not in spec["containers"][0]["resources"]["limits"]
    assert one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
    jobs = job_of(full())["spec"]["template"]["metadata"]["labels"]
    assert not one["spec"]["selector"]["matchLabels"].items() <= jobs.items()
