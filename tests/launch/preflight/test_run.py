"""run, rules, aside and handles: one real node (this machine), and nodes on which something never answers."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.report import json_schema
from orbit.core.paths import data_root
from orbit.core.records import canonical
from orbit.errors import CheckFailed
from orbit.launch.fingerprint.model import Fingerprint
from orbit.launch.preflight import gpu_tests, handles, run
from orbit.launch.preflight.aside import LateError, aside
from orbit.launch.preflight.handles import Taken, judge_handles, try_take
from orbit.launch.preflight.model import Demand, NodeReport, State
from orbit.launch.preflight.run import check_node, with_check
from orbit.launch.preflight.say import failed
from tests.launch.preflight.made import RULES, only

PAGE = data_root() / "docs" / "preflight.md"


@pytest.fixture(scope="module")
def here() -> NodeReport:
    """This machine, held against nothing."""
    return check_node(Demand(), rank=3, host="n3")


def test_this_machine_is_asked_everything(here: NodeReport) -> None:
    assert (here.rank, here.host) == (3, "n3")
    assert len({check.name for check in here.checks}) == len(here.checks) >= 25
    assert all(check.fix for check in here.checks if check.state is State.FAILED)
    assert all(check.message and "\n" not in check.message for check in here.checks)
    assert here.measured.shm_bytes is None or here.measured.shm_bytes > 0
    assert (here.measured.cuda_ipc, here.measured.peer_access) == (None, None)


def test_every_check_has_its_line_in_the_page(here: NodeReport) -> None:
    text = PAGE.read_text()
    names = {check.name for check in here.checks} | {
        "fabric", "gpus", "cuda-library", "gpu-coverage", "gpu-health", "visible-devices", "clock", "gpu-memory",
        "gpu-matmul", "peer-access", "cuda-ipc", "all-reduce", "all-reduce-across", "burn-in",
    }  # fmt: skip
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", text, flags=re.MULTILINE))
    assert documented == names


def test_the_schema_is_published_and_the_report_fits_it(here: NodeReport) -> None:
    published = data_root() / "docs" / "schemas" / "preflight.json"
    assert published.read_bytes() == json_schema(NodeReport), "orbit preflight --schema > docs/schemas/preflight.json"
    validator = jsonschema.Draft202012Validator(json.loads(published.read_bytes()))
    assert [error.message for error in validator.iter_errors(json.loads(canonical(here)))] == []
    bad = json.loads(canonical(here)) | {"more": 1}
    assert "'more' was unexpected" in " ".join(error.message for error in validator.iter_errors(bad))


def test_what_is_demanded_and_not_there_makes_it_unfit() -> None:
    demand = Demand(cpus=100_000, memory_gib=1 << 20, shm_gib=1 << 20, gpus=64)
    found = check_node(demand, rank=0, host="n", env={"HOME": "/", "CUDA_VISIBLE_DEVICES": ""}, devices=False)
    bad = {check.name for check in found.checks if check.state is State.FAILED}
    assert {"processors", "memory", "shared-memory", "gpus", "visible-devices", "home"} <= bad
    assert not found.fit


def test_a_machine_of_files(tmp_path: Path) -> None:
    """Nothing is there at all: every check still ends, with a state and a reason."""
    found = check_node(Demand(), rank=0, host="n", env={"ORBIT_STATE": str(tmp_path)}, root=tmp_path)
    assert only(found.checks, "shared-memory").state is State.FAILED
    assert only(found.checks, "scratch").state is State.PASSED


def test_the_fingerprint_is_made_beside_the_rest() -> None:
    one = Fingerprint(interpreter="3.12")
    found = check_node(Demand(), rank=0, host="n", fingerprint=lambda: one)
    assert found.fingerprint == one
    assert only(found.checks, "fingerprint").found == {"agreed": one.agreed}


def test_a_stack_that_does_not_load_makes_a_node_unfit() -> None:
    def fails() -> Fingerprint:
        raise CheckFailed("import torch: libcudnn.so.9: cannot open shared object file", fix="look there")

    check = only(check_node(Demand(), rank=0, host="n", fingerprint=fails).checks, "fingerprint")
    assert (check.state, check.fix) == (State.FAILED, "look there")
    assert "libcudnn.so.9" in check.message


def test_nothing_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver, a file server and a home that never answer: the report comes, and says which."""
    times = msgspec.structs.replace(RULES.times, file_s=0.3, name_s=0.3)
    monkeypatch.setattr(run, "load_rules", lambda: msgspec.structs.replace(RULES, times=times))
    monkeypatch.setattr(run, "GRACE_S", 0.1)
    for name in ("read_network", "try_folders", "read_identity", "try_take"):
        monkeypatch.setattr(run, name, lambda *_args: time.sleep(600))
    began = time.monotonic()
    found = check_node(Demand(), rank=0, host="n")
    assert time.monotonic() - began < 60
    late = {check.name for check in found.checks if check.state is State.FAILED and "no answer" in check.message}
    assert {"own-name", "scratch", "user", "pidfd-getfd"} <= late


def test_a_check_that_comes_later() -> None:
    one = NodeReport(host="n", started="", seconds=0.0, demand=Demand(), checks=())
    assert not with_check(one, failed("clock", "an hour apart", "chrony")).fit


def test_the_devices_are_tested_through_torch_and_their_result_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = (gpu_tests.Answer(task="matmul", problem="cuda:0: bfloat16: 3 of 4 products are wrong"),)
    monkeypatch.setattr(gpu_tests, "run_node", lambda *_args, **_more: answers)
    found = check_node(Demand(), rank=0, host="n", cpu=True)
    assert only(found.checks, "gpu-matmul").state is State.FAILED


# --- aside ------------------------------------------------------------------------------------------------------------


def test_an_answer_its_error_and_none_in_time() -> None:
    assert aside(lambda: 7).value(30) == 7
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 // 0).value(30)
    with pytest.raises(LateError, match=r"no answer within 0\.1 s"):
        aside(lambda: time.sleep(600)).value(0.1)


# --- descriptors of others --------------------------------------------------------------------------------------------


def test_taking_a_descriptor() -> None:
    assert not try_take().problem


@pytest.mark.parametrize(
    ("taken", "state"),
    [(Taken(), State.PASSED), (Taken(number=1), State.WARNING), (Taken(problem="no python"), State.SKIPPED)],
)
def test_a_profile_that_forbids_it_is_no_error(taken: Taken, state: State) -> None:
    check = only(judge_handles(taken), "pidfd-getfd")
    assert check.state is state
    assert taken.number == 0 or "Operation not permitted" in check.message


def test_a_program_that_cannot_even_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "TAKER", "print('what')")
    assert try_take().problem
