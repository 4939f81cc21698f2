"""Submit, status, logs and cancel through kubectl: a program that answers as kubectl does, and kubectl itself.

No cluster is here. What is checked: what kubectl is asked, in words the real one understands; what follows from answers
in the API's own form; that no secret is in a file or an argument.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orbit.errors import ExitCode, InputError, MissingError, RefusedError
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import render
from orbit.launch.submit import kubernetes
from orbit.launch.submit.kubernetes_state import INDEX
from orbit.launch.submit.model import CANCELLED_AT, JobRef, Phase, open_scheduler, save_files
from tests.launch.render.plans import plan

FAKE = Path(__file__).with_name("fake_kubectl.py")
LABELS = {"io.orbit.job": "demo", "app.kubernetes.io/managed-by": "orbit"}


class Cluster:
    """What the program that answers knows, and what it was asked."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def put(self, each: dict[str, Any]) -> None:
        (self.store / f"{each['kind']}.{each['metadata']['name']}.json").write_text(json.dumps(each))

    def get(self, kind: str, name: str = "demo") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.store / f"{kind}.{name}.json").read_text())
        return found

    def names(self) -> set[str]:
        return {path.name.removesuffix(".json") for path in self.store.glob("*.json")}

    def asked(self) -> list[list[str]]:
        return [one["argv"] for one in self.questions()]

    def questions(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.store / "asked").read_text().splitlines()]

    def change(self, kind: str, **status: Any) -> None:
        each = self.get(kind)
        self.put(each | {"status": status})

    def pod(self, name: str, index: int = 0, **status: Any) -> dict[str, Any]:
        metadata = {"name": name, "labels": LABELS, "annotations": {INDEX: str(index)}}
        each = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": f"node-{index}"}, "status": status}
        self.put(each)
        return each


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    program.chmod(0o755)
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("FAKE_KUBECTL", str(tmp_path / "store"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(kubernetes, "PAUSE_S", 0.0)
    return Cluster(tmp_path / "store")


def submit(tmp_path: Path, one: LaunchPlan, form: str = "job", **secrets: str) -> JobRef:
    files = render(one, form)
    save_files(tmp_path / "job", files)
    return open_scheduler("kubernetes").submit(one, form, files, tmp_path / "job", secrets)


def running(name: str = "node", **more: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": name, "state": {"running": {}}}], "phase": "Running", **more}


def ended(code: int, name: str = "node") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    return {"containerStatuses": [{"name": name, "state": state}], "phase": "Failed" if code else "Succeeded"}


def failed(message: str = "", reason: str = "PodFailurePolicy") -> dict[str, Any]:
    return {"conditions": [{"type": "Failed", "status": "True", "reason": reason, "message": message}]}


def test_the_secret_comes_first_and_belongs_to_the_job(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes", nodes=2, secrets=["TOKEN"]), TOKEN="hunter2")
    assert cluster.names() == {"Job.demo", "Service.demo", "Secret.demo-orbit"}
    secret = cluster.get("Secret", "demo-orbit")
    assert secret["stringData"]["TOKEN"] == "hunter2"
    assert len(bytes.fromhex(secret["stringData"]["owner"])) == 32
    uid = cluster.get("Job")["metadata"]["uid"]
    for each in (secret, cluster.get("Service")):
        assert each["metadata"]["ownerReferences"] == [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": uid}
        ]
    assert (ref.id, ref.details["uid"], ref.details["context"]) == ("default/demo", uid, "lab")
    verbs = [next(word for word in argv if not word.startswith("--")) for argv in cluster.asked()]
    assert verbs == ["config", "get", "delete", "create", "create", "patch", "patch"]


def test_no_secret_is_in_a_file_or_an_argument(cluster: Cluster, tmp_path: Path) -> None:
    submit(tmp_path, plan("kubernetes", nodes=2, secrets=["TOKEN"]), TOKEN="hunter2")
    owner = cluster.get("Secret", "demo-orbit")["stringData"]["owner"]
    for path in (tmp_path / "job").iterdir():
        assert "hunter2" not in path.read_text()
    for argv in cluster.asked():
        assert not any("hunter2" in word or owner in word for word in argv)


def test_two_submissions_have_two_tokens(cluster: Cluster, tmp_path: Path) -> None:
    tokens = set()
    for _ in range(2):
        ref = submit(tmp_path, plan("kubernetes", nodes=2))
        tokens.add(cluster.get("Secret", "demo-orbit")["stringData"]["owner"])
        open_scheduler("kubernetes").cancel(ref, now=False)
    assert len(tokens) == 2


def test_one_node_without_secrets_needs_no_secret(cluster: Cluster, tmp_path: Path) -> None:
    submit(tmp_path, plan("kubernetes"))
    assert cluster.names() == {"Job.demo"}


def test_a_job_that_runs_is_not_submitted_twice(cluster: Cluster, tmp_path: Path) -> None:
    submit(tmp_path, plan("kubernetes"))
    before = cluster.get("Job")
    with pytest.raises(RefusedError, match="already"):
        submit(tmp_path, plan("kubernetes"))
    assert cluster.get("Job") == before


def test_a_job_that_ended_makes_room(cluster: Cluster, tmp_path: Path) -> None:
    first = submit(tmp_path, plan("kubernetes"))
    cluster.change("Job", **failed())
    second = submit(tmp_path, plan("kubernetes"))
    assert first.details["uid"] != second.details["uid"]
    assert open_scheduler("kubernetes").status(first).phase is Phase.GONE


def test_what_is_half_started_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    """The secret is there and the cluster refuses the rest: nothing is left, and its own words are told."""
    words = "Error from server (Forbidden): exceeded quota: gpus, requested: 8, used: 60, limited: 64"
    one = plan("kubernetes", nodes=2)
    files = render(one, "job")
    save_files(tmp_path / "job", files)
    (tmp_path / "job" / "demo.yaml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: demo-orbit, namespace: default}\n"
    )
    with pytest.raises(RefusedError, match="AlreadyExists"):
        open_scheduler("kubernetes").submit(one, "job", files, tmp_path / "job", {})
    assert cluster.names() == set()
    (cluster.store / "say-on-create").write_text(words)
    with pytest.raises(InputError, match="exceeded quota"):
        submit(tmp_path, plan("kubernetes"))


@pytest.mark.parametrize(
    "words",
    [
        "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?",
        "Unable to connect to the server: dial tcp: lookup api.example.org: no such host",
        "Unable to connect to the server: net/http: TLS handshake timeout",
        "error: You must be logged in to the server (Unauthorized)",
        "E1201 memcache.go:265] couldn't get current server API group list: dial tcp: i/o timeout",
    ],
)
def test_a_cluster_that_cannot_be_reached_is_status_3(cluster: Cluster, tmp_path: Path, words: str) -> None:
    ref = submit(tmp_path, plan("kubernetes"))
    (cluster.store / "unreachable").write_text(words)
    for ask in (
        lambda: open_scheduler("kubernetes").status(ref),
        lambda: open_scheduler("kubernetes").cancel(ref, now=False),
        lambda: list(open_scheduler("kubernetes").logs(ref, follow=True)),
        lambda: submit(tmp_path, plan("kubernetes", name="other")),
    ):
        with pytest.raises(MissingError) as caught:
            ask()
        assert caught.value.code == ExitCode.MISSING == 3
        assert words.splitlines()[-1] in caught.value.what
        assert "kubectl" in caught.value.fix


def test_no_kubectl_is_status_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="kubectl"):
        submit(tmp_path, plan("kubernetes"))


NO_ROOM = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/9 nodes: 9 Insufficient GPUs",
}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
ENDING = {"conditions": [{"type": "FailureTarget", "status": "True"}]}
SEVEN = "Container node for pod default/demo-0-x failed with exit code 7 matching FailJob rule at index 0"
PENDING = {"phase": "Pending"}
STATES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Phase, int | None, str]] = {
    "nothing yet": ([], {}, Phase.WAITING, None, ""),
    "no room": ([PENDING | {"conditions": [NO_ROOM]}], {}, Phase.WAITING, None, "Insufficient GPUs"),
    "no image": (
        [PENDING | {"containerStatuses": [{"name": "node", "state": NO_IMAGE}]}],
        {},
        Phase.WAITING,
        None,
        "ImagePullBackOff: Back-off pulling image: not found",
    ),
    "one of two": ([running(), PENDING], {}, Phase.RUNNING, None, "1 of 2 pods run"),
    "both": ([running(), running()], {}, Phase.RUNNING, None, ""),
    "waits for the first": ([PENDING, running()], {}, Phase.WAITING, None, "1 of 2 pods run"),
    "suspended by a queue": ([], {"spec": {"suspend": True}}, Phase.WAITING, None, "queue"),
    "done": ([ended(0)], {"status": COMPLETE}, Phase.SUCCEEDED, 0, ""),
    "failed with 7": ([ended(7), ended(0)], {"status": failed(SEVEN)}, Phase.FAILED, 7, "exit code 7"),
    "another node failed, the first was ended for it": (
        [ended(0), ended(9)],
        {"status": failed()},
        Phase.FAILED,
        9,
        "",
    ),
    "the pods are gone": ([], {"status": failed(SEVEN)}, Phase.FAILED, 7, ""),
    "being ended": ([running()], {"status": ENDING}, Phase.STOPPING, None, ""),
    "being deleted": ([running()], {"deleted": True}, Phase.STOPPING, None, ""),
}


@pytest.mark.parametrize("name", STATES)
def test_status(cluster: Cluster, tmp_path: Path, name: str) -> None:
    pods, change, phase, code, message = STATES[name]
    ref = submit(tmp_path, plan("kubernetes", nodes=2))
    for index, pod in enumerate(pods):
        cluster.pod(f"demo-{index}-x", index, **pod)
    job = cluster.get("Job")
    if change.get("deleted"):
        job["metadata"]["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    cluster.put(job | change)
    status = open_scheduler("kubernetes").status(ref)
    assert (status.phase, status.exit_code) == (phase, code)
    assert message in status.message


def test_status_says_where_it_runs(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes", nodes=2))
    cluster.pod("demo-1-x", 1, **running())
    cluster.pod("demo-0-x", 0, **running())
    assert open_scheduler("kubernetes").status(ref).nodes == ("node-0", "node-1")


def test_a_job_that_is_gone_is_said_to_be(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes"))
    (cluster.store / "Job.demo.json").unlink()
    assert open_scheduler("kubernetes").status(ref).phase is Phase.GONE
    cancelled = JobRef(**{name: getattr(ref, name) for name in ref.__struct_fields__} | {
        "details": ref.details | {CANCELLED_AT: "2026-12-01T00:00:00Z"}})  # fmt: skip
    assert open_scheduler("kubernetes").status(cancelled).phase is Phase.CANCELLED
    cluster.pod("demo-0-x", 0, **running())
    assert open_scheduler("kubernetes").status(ref).phase is Phase.STOPPING


def test_logs_are_the_first_nodes(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes", nodes=2))
    scheduler = open_scheduler("kubernetes")
    with pytest.raises(MissingError, match="nothing"):
        list(scheduler.logs(ref, follow=False))
    cluster.pod("demo-1-x", 1, **running())
    cluster.pod("demo-0-x", 0, **running())
    (cluster.store / "log.demo-0-x.node").write_text("table\n")
    assert b"".join(scheduler.logs(ref, follow=False)) == b"table\n"
    assert "--follow" not in cluster.asked()[-1]


def test_logs_are_followed_until_the_end_also_when_a_stream_breaks(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes"))
    pod = cluster.pod("demo-0-x", 0, **running())
    job = cluster.get("Job") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    (cluster.store / "log.demo-0-x.node").write_text("first\n")
    second = {"log.demo-0-x.node": "second\n", "then": json.dumps({"Job.demo.json": json.dumps(job)})}
    (cluster.store / "then").write_text(json.dumps(second))
    assert pod["status"]["phase"] == "Running"
    assert b"".join(open_scheduler("kubernetes").logs(ref, follow=True)) == b"first\nsecond\n"
    asked = [argv for argv in cluster.asked() if "logs" in argv]
    assert len(asked) == 2
    assert not any(word.startswith("--since-time") for word in asked[0])
    assert any(word.startswith("--since-time") for word in asked[1])
    assert not any(word.startswith("--request-timeout") for argv in asked for word in argv)


def test_cancel_gives_the_grace_period_and_leaves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes", nodes=2, grace_seconds=45))
    cluster.pod("demo-0-x", 0, **running())
    assert "SIGTERM" in open_scheduler("kubernetes").cancel(ref, now=False)
    assert cluster.names() == set()
    (delete,) = [argv for argv in cluster.asked() if "delete" in argv and "jobs.batch/demo" in argv]
    assert {"--cascade=foreground", "--wait=true", "--timeout=105s"} <= set(delete)


def test_cancel_at_once(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes", nodes=2))
    cluster.pod("demo-0-x", 0, **running())
    assert "at once" in open_scheduler("kubernetes").cancel(ref, now=True)
    assert any({"--grace-period=0", "--force", "pods"} <= set(argv) for argv in cluster.asked())
    assert cluster.names() == set()


def test_cancel_of_a_job_that_has_ended_is_no_error(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes"))
    cluster.change("Job", **failed())
    assert "had ended" in open_scheduler("kubernetes").cancel(ref, now=False)
    assert "had ended" in open_scheduler("kubernetes").cancel(ref, now=False)


RAY = {"kubernetes": {"kuberay": True}}


@pytest.mark.parametrize(
    ("status", "phase", "code"),
    [
        ({}, Phase.WAITING, None),
        ({"jobDeploymentStatus": "Initializing"}, Phase.WAITING, None),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, Phase.RUNNING, None),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, Phase.SUCCEEDED, 0),
        (
            {
                "jobDeploymentStatus": "Failed",
                "jobStatus": "FAILED",
                "reason": "AppFailed",
                "message": "Job entrypoint command failed with exit code 7, last available logs",
            },
            Phase.FAILED,
            7,
        ),
        ({"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded", "message": "too long"}, Phase.FAILED, None),
        ({"jobDeploymentStatus": "ValidationFailed", "message": "bad"}, Phase.FAILED, None),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, Phase.CANCELLED, None),
    ],
)
def test_status_of_a_rayjob(cluster: Cluster, tmp_path: Path, status: dict[str, str], phase: Phase, code: int) -> None:
    ref = submit(tmp_path, plan("kubernetes", of_site=RAY, nodes=2), "rayjob")
    assert cluster.names() == {"RayJob.demo", "ConfigMap.demo-orbit"}
    cluster.change("RayJob", **status)
    found = open_scheduler("kubernetes").status(ref)
    assert (found.phase, found.exit_code) == (phase, code)


def test_logs_of_a_rayjob_are_its_newest_submitters(cluster: Cluster, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("kubernetes", of_site=RAY), "rayjob")
    for name, made in (("demo-b", "2026-12-01T00:00:01Z"), ("demo-a", "2026-12-01T00:00:02Z")):
        pod = cluster.pod(name, **running("submitter"))
        cluster.put({**pod, "metadata": {**pod["metadata"], "annotations": {}, "creationTimestamp": made}})
    (cluster.store / "log.demo-a.submitter").write_text("the command\n")
    assert b"".join(open_scheduler("kubernetes").logs(ref, follow=False)) == b"the command\n"


def test_status_of_a_cluster_and_of_a_pull(cluster: Cluster, tmp_path: Path) -> None:
    scheduler = open_scheduler("kubernetes")
    ref = submit(tmp_path, plan("kubernetes", of_site=RAY, name="ray"), "raycluster")
    cluster.put(cluster.get("RayCluster", "ray") | {"status": {"state": "ready"}})
    assert scheduler.status(ref).phase is Phase.RUNNING
    ref = submit(tmp_path, plan("kubernetes"), "prepull")
    one = cluster.get("DaemonSet", "demo-prepull")
    one["metadata"]["generation"] = 1
    for there, phase in ((7, Phase.WAITING), (8, Phase.SUCCEEDED)):
        status = {"desiredNumberScheduled": 8, "numberReady": there, "observedGeneration": 1}
        cluster.put(one | {"status": status})
        assert scheduler.status(ref).phase is phase
        assert scheduler.status(ref).state == f"{there} of 8 nodes have the image"
    scheduler.cancel(ref, now=False)
    assert "DaemonSet.demo-prepull" not in cluster.names()


def test_a_cluster_without_the_operator_says_so(cluster: Cluster, tmp_path: Path) -> None:
    words = (
        'error: resource mapping not found for name: "demo" namespace: "default" from "x": no matches for kind "RayJob"'
    )
    (cluster.store / "say-on-create").write_text(words)
    with pytest.raises(MissingError, match="no matches for kind") as caught:
        submit(tmp_path, plan("kubernetes", of_site=RAY), "rayjob")
    assert "KubeRay" in caught.value.fix


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kubectl_itself_takes_every_argument_and_names_a_cluster_that_is_not_there(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question the other tests ask, asked of the real kubectl about a port where nobody listens."""
    scheduler = open_scheduler("kubernetes")
    ref = submit(tmp_path, plan("kubernetes", nodes=2))
    cluster.pod("demo-0-x", 0, **running())
    (cluster.store / "log.demo-0-x.node").write_text("")
    list(scheduler.logs(ref, follow=False))
    scheduler.cancel(ref, now=True)
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: lab\ncontexts: [{name: lab, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: [{name: u, user: {}}]\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    for asked in cluster.questions():
        argv = asked["argv"]
        said = subprocess.run(["kubectl", *argv], input=asked["stdin"], capture_output=True, text=True, check=False)
        assert "unknown" not in said.stderr + said.stdout, argv
        assert (said.returncode == 0) == ("config" in argv), (argv, said.stderr)
        assert "config" in argv or "127.0.0.1:9" in said.stderr, (argv, said.stderr)
    with pytest.raises(MissingError) as caught:
        scheduler.status(ref)
    assert "refused" in caught.value.what
    assert "context: lab" in caught.value.what
