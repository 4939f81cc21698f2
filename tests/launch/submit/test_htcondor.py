"""Submit, status, logs and cancel through HTCondor's programs, which other programs stand in for: no pool is here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from orbit.errors import ExitCode, InputError, MissingError, RefusedError
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import render
from orbit.launch.submit import htcondor
from orbit.launch.submit.htcondor_state import ATTRIBUTES
from orbit.launch.submit.model import CANCELLED_AT, JobRef, Phase, open_scheduler, save_files
from tests.launch.render.plans import plan

FAKE = Path(__file__).with_name("fake_condor.py")
SHARED: dict[str, Any] = {"network": {"host_network": True}, "storage": {"shared": "/shared"}}
PROGRAMS = ("condor_submit", "condor_q", "condor_history", "condor_rm", "condor_vacate_job")


class Pool:
    """What the programs know, and what they were asked."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def queue(self, *ads: dict[str, Any]) -> None:
        """What condor_q finds of cluster 7 from now on."""
        self._put("queue", ads)

    def history(self, *ads: dict[str, Any]) -> None:
        """What condor_history finds of it."""
        self._put("history", ads)

    def _put(self, name: str, ads: tuple[dict[str, Any], ...]) -> None:
        whole = [{"ClusterId": 7, "ProcId": rank, "JobBatchName": "demo", **ad} for rank, ad in enumerate(ads)]
        (self.store / name).write_text(json.dumps([ad for ad in whole if "JobStatus" in ad]))

    def asked(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.store / "asked").read_text().splitlines()]


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pool:
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        (tmp_path / "bin" / name).write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("FAKE_CONDOR", str(tmp_path / "store"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(htcondor, "PAUSE_S", 0.0)
    return Pool(tmp_path / "store")


def two(**changed: Any) -> LaunchPlan:
    return plan("htcondor", of_site=SHARED, **({"nodes": 2, "secrets": ["TOKEN"]} | changed))


def submit(tmp_path: Path, one: LaunchPlan, **secrets: str) -> JobRef:
    files = render(one, "container")
    save_files(tmp_path / "launch" / one.name, files)
    return open_scheduler("htcondor").submit(one, "container", files, tmp_path / "launch" / one.name, secrets)


def running(rank: int = 0) -> dict[str, Any]:
    return {"JobStatus": 2, "RemoteHost": f"slot1_1@node-{rank}.example.org", "NumJobStarts": 1}


def done(code: int = 0, **more: Any) -> dict[str, Any]:
    return {"JobStatus": 4, "ExitBySignal": False, "ExitCode": code, "NumJobStarts": 1, **more}


IDLE: dict[str, Any] = {"JobStatus": 1, "NumJobStarts": 0}
NOT_HERE: dict[str, Any] = {}


def test_the_token_and_secrets_are_private_files(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, two(), TOKEN="hunter2")
    seen = json.loads((pool.store / "transferred").read_text())
    private = ref.details["private"]
    assert seen[f"{private}/owner"][0] == "0o600"
    assert len(bytes.fromhex(seen[f"{private}/owner"][1])) == 32
    assert seen[f"{private}/secrets/TOKEN"] == ["0o600", "hunter2"]
    assert Path(private).stat().st_mode & 0o777 == 0o700
    assert not Path(private).is_relative_to(ref.details["folder"])
    for path in Path(ref.details["folder"]).iterdir():
        assert "hunter2" not in path.read_text()
    assert not any("hunter2" in word for argv in pool.asked() for word in argv)


def test_one_node_without_secrets_needs_no_files(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("htcondor"))
    assert not Path(ref.details["private"]).exists()
    assert json.loads((pool.store / "transferred").read_text()) == {}


def test_what_is_asked(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, two(), TOKEN="x")
    assert (ref.id, ref.nodes, ref.scheduler) == ("7", 2, "htcondor")
    first, second = pool.asked()
    assert first[:3] == ["condor_q", "-constraint", 'JobBatchName == "demo"']
    assert second == ["condor_submit", "-terse", f"private={ref.details['private']}", "demo.sub"]
    pool.queue(running())
    open_scheduler("htcondor").status(ref)
    third, fourth = pool.asked()[2:]
    assert third == ["condor_q", "7", "-attributes", ATTRIBUTES, "-json"]
    assert fourth == ["condor_history", "7", "-limit", "2", "-attributes", ATTRIBUTES, "-json"]


def test_private_files_are_gone_once_all_nodes_run(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, two(), TOKEN="x")
    scheduler = open_scheduler("htcondor")
    pool.queue(running(), IDLE)
    scheduler.status(ref)
    assert Path(ref.details["private"]).exists()
    pool.queue(running(), running(1))
    scheduler.status(ref)
    assert not Path(ref.details["private"]).exists()


def test_a_refused_submission_leaves_no_secret(pool: Pool, tmp_path: Path) -> None:
    words = "ERROR: on Line 3 of submit file: \nERROR: Failed to parse: bad expression"
    (pool.store / "say-on-submit").write_text(words)
    with pytest.raises(InputError, match="bad expression"):
        submit(tmp_path, two(), TOKEN="hunter2")
    assert [path.name for path in (tmp_path / "launch").iterdir()] == ["demo"]


def test_a_job_that_is_there_is_not_submitted_twice(pool: Pool, tmp_path: Path) -> None:
    submit(tmp_path, two(), TOKEN="x")
    with pytest.raises(RefusedError, match="cluster 7"):
        submit(tmp_path, two(), TOKEN="x")
    assert sum(argv[0] == "condor_submit" for argv in pool.asked()) == 1


@pytest.mark.parametrize(
    "words",
    [
        "\nERROR: Can't find address of local schedd",
        "-- Failed to fetch ads from: <10.0.0.1:9618> : ap\nCEDAR:6001:Failed to connect to <10.0.0.1:9618>",
        "Error: \n\nExtra Info: You probably saw this error because the condor_schedd is not running on the machine",
        "ERROR: Failed to connect to local queue manager\nAUTHENTICATE:1003:Failed to authenticate with any method",
        "\nNeither the environment variable CONDOR_CONFIG,\n/etc/condor/, nor ~condor/ contain a condor_config source.",
    ],
)
def test_a_queue_that_cannot_be_reached_is_status_3(pool: Pool, tmp_path: Path, words: str) -> None:
    ref = submit(tmp_path, plan("htcondor"))
    (pool.store / "unreachable").write_text(words)
    for ask in (
        lambda: open_scheduler("htcondor").status(ref),
        lambda: open_scheduler("htcondor").cancel(ref, now=False),
        lambda: list(open_scheduler("htcondor").logs(ref, follow=True)),
        lambda: submit(tmp_path, plan("htcondor", name="other")),
    ):
        with pytest.raises(MissingError) as caught:
            ask()
        assert caught.value.code == ExitCode.MISSING == 3
        assert "condor_q" in caught.value.fix


def test_no_programs_is_status_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="condor_q"):
        submit(tmp_path, plan("htcondor"))


STATES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], Phase, int | None, str]] = {
    "waits": ([IDLE, IDLE], [], Phase.WAITING, None, "2 of 2 nodes wait"),
    "one waits": ([running(), IDLE], [], Phase.RUNNING, None, "1 of 2 nodes wait"),
    "the first waits": ([IDLE, running(1)], [], Phase.WAITING, None, "1 of 2 nodes wait"),
    "runs": ([running(), running(1)], [], Phase.RUNNING, None, ""),
    "a node was left out": ([running(), NOT_HERE], [NOT_HERE, done()], Phase.RUNNING, None, ""),
    "held": (
        [running(), {"JobStatus": 5, "HoldReason": "Transfer input files failure"}],
        [],
        Phase.WAITING,
        None,
        "node 1",
    ),
    "being removed": ([{"JobStatus": 3}, {"JobStatus": 3}], [], Phase.STOPPING, None, ""),
    "the first has ended": ([NOT_HERE, running(1)], [done()], Phase.STOPPING, None, ""),
    "done": ([], [done(), done()], Phase.SUCCEEDED, 0, ""),
    "failed with 7": ([], [done(7), done(1)], Phase.FAILED, 7, "node 0 ended with status 7"),
    "another node failed": ([], [done(), done(9)], Phase.FAILED, 9, "node 1"),
    "killed": ([], [done(ExitBySignal=True, ExitSignal=9), done()], Phase.FAILED, 137, "137"),
    "taken away": (
        [],
        [
            {"JobStatus": 3, "RemoveReason": "The job attribute PeriodicRemove expression '...' evaluated to TRUE"},
            done(),
        ],
        Phase.FAILED,
        None,
        "PeriodicRemove",
    ),
    "removed by hand": (
        [],
        [{"JobStatus": 3, "RemoveReason": "via condor_rm (by user ann)"}],
        Phase.CANCELLED,
        None,
        "",
    ),
    "half forgotten": ([], [done()], Phase.GONE, None, "history"),
    "forgotten": ([], [], Phase.GONE, None, "demo.log"),
}


@pytest.mark.parametrize("name", STATES)
def test_status(pool: Pool, tmp_path: Path, name: str) -> None:
    queued, ended, phase, code, message = STATES[name]
    ref = submit(tmp_path, two(), TOKEN="x")
    pool.queue(*queued)
    pool.history(*ended)
    status = open_scheduler("htcondor").status(ref)
    assert (status.phase, status.exit_code) == (phase, code)
    assert message in status.message


def test_status_says_where_it_runs(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, two(), TOKEN="x")
    pool.queue(running(), running(1))
    assert open_scheduler("htcondor").status(ref).nodes == ("node-0.example.org", "node-1.example.org")


def test_logs_are_the_first_nodes(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, two(), TOKEN="x")
    scheduler = open_scheduler("htcondor")
    with pytest.raises(MissingError, match="nothing yet"):
        list(scheduler.logs(ref, follow=False))
    folder = Path(ref.details["folder"])
    (folder / "demo.1.err").write_text("no first node\n")
    assert b"".join(scheduler.logs(ref, follow=False)) == b"no first node\n"
    (folder / "demo.0.out").write_text("table\n")
    (folder / "demo.0.err").write_text("warning\n")
    assert b"".join(scheduler.logs(ref, follow=False)) == b"table\nwarning\n"


def test_logs_are_followed_until_the_end(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("htcondor"))
    out = Path(ref.details["folder"]) / "demo.0.out"
    out.write_text("first\n")
    pool.queue(running())
    pieces = open_scheduler("htcondor").logs(ref, follow=True)
    assert next(pieces) == b"first\n"
    out.write_text("first\nsecond\n")
    pool.queue()
    pool.history(done())
    assert b"".join(pieces) == b"second\n"


def test_cancel_gives_the_grace_period(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, two(), TOKEN="x")
    assert "SIGTERM" in open_scheduler("htcondor").cancel(ref, now=False)
    assert not Path(ref.details["private"]).exists()
    assert ["condor_rm", "7"] in pool.asked()
    assert not any(argv[0] == "condor_vacate_job" for argv in pool.asked())
    assert open_scheduler("htcondor").status(ref).phase is Phase.CANCELLED
    assert "had ended" in open_scheduler("htcondor").cancel(ref, now=False)


def test_cancel_at_once(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, two(), TOKEN="x")
    for queued in ((running(), running(1)), (IDLE, IDLE)):
        pool.queue(*queued)
        pool.history()
        assert "at once" in open_scheduler("htcondor").cancel(ref, now=True)
    assert ["condor_vacate_job", "-fast", "7"] in pool.asked()


def test_a_job_that_does_not_go_is_told(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = submit(tmp_path, plan("htcondor"))
    monkeypatch.setattr(htcondor, "LATE_S", -1e9)
    (tmp_path / "bin" / "condor_rm").write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(RefusedError, match="still in the queue") as caught:
        open_scheduler("htcondor").cancel(ref, now=False)
    assert "-forcex" in caught.value.fix


def test_a_cancelled_job_that_is_forgotten_was_cancelled(pool: Pool, tmp_path: Path) -> None:
    ref = submit(tmp_path, plan("htcondor"))
    pool.queue()
    fields = {name: getattr(ref, name) for name in ref.__struct_fields__}
    asked = JobRef(**fields | {"details": ref.details | {CANCELLED_AT: "2026-12-01T00:00:00Z"}})
    assert open_scheduler("htcondor").status(asked).phase is Phase.CANCELLED


def test_a_folder_that_no_list_of_files_can_hold_is_told(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot hold") as caught:
        submit(tmp_path / "a, b", two(), TOKEN="x")
    assert "ORBIT_CACHE" in caught.value.fix
    assert not any(argv[0] == "condor_submit" for argv in pool.asked())
