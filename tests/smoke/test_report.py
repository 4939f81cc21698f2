"""Reports of what ran in place: the same JSON as that of ``orbit image smoke``, and JUnit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from orbit.core.records import load_json
from orbit.errors import ExitCode
from orbit.image.smoke.report import SmokeReport
from orbit.smoke.__main__ import IMAGE, main
from orbit.smoke.model import Check, CheckResult, Context, Target
from orbit.smoke.report import IN_PLACE, ListRun, document
from orbit.smoke.runner import Machine
from tests.writers.junit import check_junit

LIST = """
schema = 1
name = "{name}"
[[checks]]
name = "good"
kind = "import"
parameters = {{modules = ["json"]}}
[[checks]]
name = "bad"
kind = "import"
parameters = {{modules = ["no_such_module"]}}
[[checks]]
name = "gpus"
kind = "gpu-all-reduce"
needs = "gpu"
gpus = 2
parameters = {{elements = 5}}
"""
CONTEXT = Context(targets=(Target(name="h100", capability="9.0", sass="sm_90", feature="sm_90a"),))


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(Machine, "examine", staticmethod(lambda: Machine(has_driver=False, reason="no driver")))
    paths = [tmp_path / f"{name}.toml" for name in ("one", "two")]
    for path in paths:
        path.write_text(LIST.format(name=path.stem))
    return [str(path) for path in paths]


def test_json_and_junit_of_several_lists(lists: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, junit = tmp_path / "r.json", tmp_path / "r.xml"
    assert main([*lists, "--profile", "probe", "--json", str(out), "--junit", str(junit)]) == ExitCode.FINDINGS
    report = load_json(out, SmokeReport)
    assert (report.engine, report.profile, report.image) == (IN_PLACE, "probe", "")
    assert [[item.result for item in run.results] for run in report.runs] == [["passed", "failed", "skipped"]] * 2
    assert report.exit_code is ExitCode.FINDINGS
    one, two = check_junit(junit.read_bytes())
    assert [one.get("failures"), two.get("skipped")] == ["1", "1"]
    assert [item.get("message") for item in one.iter("skipped")] == ["no driver"]
    seen = capfd.readouterr()
    assert seen.out == ""
    assert seen.err.count("passed") == 2


def test_the_report_says_when_where_and_in_which_image(
    lists: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out, digest = tmp_path / "r.json", "sha256:" + "9f" * 32
    words = [lists[0], "--only", "good", "--json", str(out)]
    assert main([*words, "--image", digest]) == 0
    report = load_json(out, SmokeReport)
    assert report.image == digest
    assert report.started.endswith("+00:00")
    assert report.machine is not None
    assert report.machine.cores >= 1
    monkeypatch.setenv(IMAGE, digest)
    assert main(words) == 0
    assert load_json(out, SmokeReport).image == digest
    assert main([*words, "--image", "latest"]) == ExitCode.USAGE
    assert "'latest' is no image digest" in capfd.readouterr().err


def test_the_environment_is_that_of_the_interpreter(
    lists: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "share" / "orbit").mkdir(parents=True)
    (tmp_path / "share" / "orbit" / "environment.json").write_text(json.dumps({"profile": "probe", "identity": "e1"}))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert main([lists[0], "--only", "gpus", "--json", str(tmp_path / "r.json")]) == ExitCode.MISSING
    assert load_json(tmp_path / "r.json", SmokeReport).environment == "e1"


def test_only_some_checks_leave_out_lists_without_them(lists: list[str], tmp_path: Path) -> None:
    Path(lists[1]).write_text(LIST.format(name="two").replace('"good"', '"other"'))
    out = tmp_path / "r.json"
    assert main([*lists, "--only", "good", "--json", str(out)]) == 0
    assert [run["list"] for run in json.loads(out.read_text())["runs"]] == ["one"]


def test_a_report_that_cannot_be_written_is_a_sentence(lists: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([lists[0], "--only", "good", "--json", "/dev/null/r.json"]) == ExitCode.REFUSED
    assert "orbit.smoke: error: " in capfd.readouterr().err


def test_the_document_is_a_report(tmp_path: Path) -> None:
    result = CheckResult(check="a", kind="k", result="passed", seconds=0.5, facts={"n": 1}, peak_mb=3)
    run = ListRun(list="l", uid=5, seconds=1.0, results=(result,))
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document([run], profile="p")))
    assert load_json(path, SmokeReport).runs[0].results[0] == result


@pytest.mark.parametrize(
    ("capabilities", "more", "says"),
    [
        (("9.0",), {}, ""),
        (("9.0",), {"gpus": 2}, "needs 2 GPUs, 1 here"),
        (("9.0", "9.0"), {"gpus": 2}, ""),
        (("9.0",), {"target": "h100"}, ""),
        (("10.0",), {"target": "h100"}, "is for h100, this device has compute capability 10.0"),
    ],
)
def test_what_a_check_needs_of_the_devices(capabilities: tuple[str, ...], more: dict[str, object], says: str) -> None:
    machine = Machine(has_driver=True, reason="", capabilities=capabilities)
    assert machine.lacks(Check(name="a", kind="k", needs="gpu", **more), CONTEXT) == says
