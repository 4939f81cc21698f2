"""RayJob and RayCluster: golden files, the API's schemas, KubeRay's CRDs where they are at hand, field reports."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orbit.cli import build_parser
from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.launch.node.options import parse
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import default_form, render
from orbit.launch.render.kuberay import BLOCK, HEAD_PORTS, ports, ray_version
from orbit.profile.lock import read_lock
from tests.launch.render.golden import check_golden
from tests.launch.render.kubernetes import check_crd, check_schema, objects, only
from tests.launch.render.plans import DIGEST, plan
from tests.launch.render.test_kubernetes import FULL

KUBERAY = {"kubernetes": {"kuberay": True}}
HOST = FULL | {"kubernetes": FULL["kubernetes"] | {"kuberay": True}}


def two(**changed: Any) -> LaunchPlan:
    """Two nodes with everything a site can ask for."""
    return plan("kubernetes", of_site=HOST, **({"nodes": 2, "gpus_per_node": 8, "secrets": ["TOKEN"]} | changed))


def one(**changed: Any) -> LaunchPlan:
    """One node, plain."""
    return plan("kubernetes", of_site=KUBERAY, **changed)


def cluster_of(plan: LaunchPlan) -> dict[str, Any]:
    """The spec of the Ray cluster."""
    spec: dict[str, Any] = only(render(plan, "rayjob")[0].text, "RayJob")["spec"]["rayClusterSpec"]
    return spec


def groups(plan: LaunchPlan) -> list[dict[str, Any]]:
    """Head and workers."""
    cluster = cluster_of(plan)
    return [cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", [])]


CASES = {
    "kubernetes-rayjob-1": (lambda: one(gpus_per_node=8), "rayjob"),
    "kubernetes-rayjob-2-nodes": (two, "rayjob"),
    "kubernetes-raycluster": (lambda: one(nodes=3, gpus_per_node=8, folder="/data/x"), "raycluster"),
}


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    make, form = CASES[case]
    files = render(make(), form)
    check_golden(case, files)
    assert check_schema(files[0].text) >= 6


@pytest.mark.parametrize("case", CASES)
def test_the_operators_crd_accepts_it(case: str) -> None:
    make, form = CASES[case]
    (ray,) = [each for each in objects(render(make(), form)[0].text) if each["apiVersion"] == "ray.io/v1"]
    check_crd(ray)
    ray["spec"]["mistyped"] = 1
    with pytest.raises(Exception, match="mistyped"):
        check_crd(ray)


def test_the_version_of_ray_is_the_locks() -> None:
    locked = read_lock(data_root() / "uv.lock").package("ray").version
    assert cluster_of(one())["rayVersion"] == locked
    assert ray_version(one(ray_version="2.99.0")) == "2.99.0"


def test_profiles_that_differ_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock = (data_root() / "uv.lock").read_text()
    version = read_lock(data_root() / "uv.lock").package("ray").version
    other = re.sub(rf'(name = "ray"\nversion = )"{re.escape(version)}"', r'\1"2.99.0"', lock)
    (tmp_path / "a.lock").write_text(lock)
    (tmp_path / "b.lock").write_text(other)
    monkeypatch.setattr("orbit.launch.render.kuberay.profile_names", lambda: ("a", "b"))
    monkeypatch.setattr("orbit.launch.render.kuberay.load_profile", lambda name: name)
    monkeypatch.setattr("orbit.launch.render.kuberay.lock_path", lambda name, _root: tmp_path / f"{name}.lock")
    with pytest.raises(InputError, match=r"2\.99\.0") as caught:
        ray_version(one())
    assert "ray_version" in caught.value.fix


def test_all_of_it_is_one_image() -> None:
    text = render(two(), "rayjob")[0].text
    images = set(re.findall(r" image: (.*)", text))
    assert images == {f'"{two().image}"'}
    assert len(re.findall(r" image: ", text)) == 5
    assert set(re.findall(r"imagePullPolicy: (.*)", text)) == {"IfNotPresent"}


def test_it_is_submitted_once() -> None:
    spec = only(render(two(), "rayjob")[0].text, "RayJob")["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["submissionMode"] == "K8sJobMode"
    assert spec["submitterConfig"]["backoffLimit"] > 0
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["submitterPodTemplate"]["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_times() -> None:
    made = two(minutes=30, late_minutes=5, grace_seconds=90)
    spec = only(render(made, "rayjob")[0].text, "RayJob")["spec"]
    assert spec["activeDeadlineSeconds"] == 35 * 60
    assert {group["template"]["spec"]["terminationGracePeriodSeconds"] for group in groups(made)} == {90}


def test_the_entry_point_is_never_left_out() -> None:
    ray = only(render(two(), "rayjob")[0].text, "RayJob")
    assert ray["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    for group in groups(two()):
        assert group["template"]["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
        spec = group["template"]["spec"]
        for container in (*spec["containers"], *spec["initContainers"]):
            assert container["command"] == ["/opt/orbit/bin/orbit-entrypoint"]
        assert spec["containers"][0]["args"][-1].endswith("$KUBERAY_GEN_RAY_START_CMD")


def test_a_node_is_checked_before_ray_starts_there() -> None:
    for group in groups(two()):
        spec = group["template"]["spec"]
        (check,) = spec["initContainers"]
        assert check["args"][:2] == ["orbit", "preflight"]
        assert check["resources"] == spec["containers"][0]["resources"]
        assert {"name": "shm", "mountPath": "/dev/shm"} in check["volumeMounts"]
        assert not [each for each in check["env"] if each["name"] == "TOKEN"]


def test_the_check_is_asked_for_in_its_own_words() -> None:
    words = groups(two(burn_in=True))[0]["template"]["spec"]["initContainers"][0]["args"][1:]
    args = build_parser().parse_args(words)
    assert (args.gpus, args.cpus, args.memory_gib, args.shm_gib, args.scratch_gib) == (8, 96, 1000, 16, 20)
    assert args.burn_in
    assert args.image == DIGEST


def test_the_object_store_fits_shared_memory() -> None:
    for group in groups(two()):
        assert 0 < int(group["rayStartParams"]["object-store-memory"]) <= 16 << 30 >> 1
    small = one(memory_gib=20, shm_gib=16)
    assert int(groups(small)[0]["rayStartParams"]["object-store-memory"]) <= (20 << 30) * 0.3


def test_ray_is_told_what_the_pod_has() -> None:
    for group in groups(two(gpus_per_node=4, cpus_per_node=12)):
        assert group["rayStartParams"]["num-gpus"] == "4"
        assert group["rayStartParams"]["num-cpus"] == "12"


def test_ports_under_host_networking_are_disjoint_and_declared() -> None:
    found = ports(two())
    single = [port for name, port in found.items() if not name.endswith("worker-port")]
    assert len(set(single)) == len(single)
    assert max(single) < found["min-worker-port"] < found["max-worker-port"]
    assert found["max-worker-port"] - min(single) < BLOCK
    for head, group in zip((True, False), groups(two()), strict=True):
        (container,) = group["template"]["spec"]["containers"]
        declared = {each["containerPort"] for each in container["ports"]}
        assert declared == {
            port
            for name, port in found.items()
            if not name.endswith("worker-port") and (head or name not in HEAD_PORTS)
        }
        assert {each["name"] for each in container["ports"]} >= {"metrics"}
        for name, port in group["rayStartParams"].items():
            assert name not in found or port == str(found[name])


def test_two_jobs_have_other_ports_and_never_one_machine() -> None:
    taken = {ports(two(name=f"job-{number}"))["port"] for number in range(40)}
    assert len(taken) > 10
    for group in groups(two()):
        spec = group["template"]["spec"]
        (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        # KubeRay puts this label on every pod of a Ray cluster
        assert term["labelSelector"]["matchExpressions"] == [{"key": "ray.io/node-type", "operator": "Exists"}]
        assert term["namespaceSelector"] == {}


def test_ray_asks_who_is_there() -> None:
    assert cluster_of(two())["authOptions"] == {"mode": "token"}


@pytest.mark.parametrize("folder", ["", "/tmp"])
@pytest.mark.parametrize("command", [["echo", "$HOME", "it's", '"x"', "a b", "`id`", "\\"], ["sh", "-c", "a\nb"]])
def test_no_word_of_the_command_is_changed(command: list[str], folder: str, tmp_path: Path) -> None:
    """The script, run: the entry point is replaced by a program that shows its arguments."""
    made = one(command=command, folder=folder, nodes=2)
    script = only(render(made, "rayjob")[0].text, "ConfigMap")["data"]["run.sh"]
    shows = tmp_path / "shows"
    shows.write_text('#!/bin/sh\npwd\nprintf "%s\\0" "$@"\n')
    shows.chmod(0o755)
    script = script.replace("/opt/orbit/bin/orbit-entrypoint", str(shows))
    said = subprocess.run(["sh", "-c", script], capture_output=True, check=True, text=True, cwd="/").stdout
    where, _, words = said.partition("\n")
    assert where == (folder or "/")
    order = parse(words.rstrip("\0").split("\0")[3:])
    assert list(order.command) == command
    assert order.join == "127.0.0.1:6379"
    assert order.nodes == 2


def test_the_entrypoint_means_the_same_in_every_shell() -> None:
    spec = only(render(one(command=["echo", "$HOME"]), "rayjob")[0].text, "RayJob")["spec"]
    assert re.fullmatch(r"[a-z/. ]+", spec["entrypoint"])
    head = cluster_of(one())["headGroupSpec"]["template"]["spec"]
    folder = spec["entrypoint"].split()[1].rpartition("/")[0]
    assert {"name": "job", "mountPath": folder, "readOnly": True} in head["containers"][0]["volumeMounts"]


def test_a_cluster_alone() -> None:
    text = render(one(nodes=3), "raycluster")[0].text
    ray = only(text, "RayCluster")
    assert ray["spec"]["workerGroupSpecs"][0]["replicas"] == 2
    assert ray["spec"]["rayVersion"]
    assert "entrypoint" not in ray["spec"]


@pytest.mark.parametrize(
    ("of_site", "of_job", "said"),
    [
        (KUBERAY, {"ray": False}, "ray = false"),
        (KUBERAY, {"unfit": "leave-out"}, "leave-out"),
        ({}, {}, "kuberay = false"),
        (HOST | {"nodes": {"gpus": 0, "cpus": 384, "memory_gib": 999}}, {}, "384 CPUs"),
    ],
)
def test_what_the_operator_cannot_be_told_is_refused(
    of_site: dict[str, Any], of_job: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        render(plan("kubernetes", of_site=of_site, **of_job), "rayjob")
    assert said in str(caught.value)
    assert caught.value.fix


def test_it_is_what_is_made_where_the_operator_is() -> None:
    assert default_form(one()) == "rayjob"
    assert default_form(one(ray=False)) == "job"


def test_what_is_written_is_yaml_of_one_reading() -> None:
    text = render(two(), "rayjob")[0].text
    assert list(yaml.safe_load_all(text)) == list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    assert text == render(two(), "rayjob")[0].text
