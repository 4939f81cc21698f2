"""orbit audit: what people type, the exit status, and what goes to which stream."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import msgspec
import pytest

from orbit.audit.installed import fact_cache
from orbit.audit.reports.report import AuditReport, json_schema
from orbit.audit.rules import RULE_IDS
from orbit.cli import main
from tests.audit.depths import both
from tests.writers.cubin import works
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.fatbin import write_container, write_section
from tests.writers.wheels import write_wheel


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "facts"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def call(env: EnvironmentWriter | Path, *options: str) -> int:
    folder = env.prefix if isinstance(env, EnvironmentWriter) else env
    return main(["audit", str(folder), "--profile", "probe", *options])


def break_it(env: EnvironmentWriter) -> None:
    hopper = write_elf(sections=[(".nv_fatbin", write_section(write_container("sm_90a")))])
    env.add("ext", {"ext/_c.so": hopper})


def test_clean_environment(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(env, "--json") == 0
    out, err = capsys.readouterr()
    (report,) = msgspec.json.decode(out, type=AuditReport).reports
    assert (report.target, report.profile, report.uid) == (str(env.prefix), "probe", 65534)
    assert report.facts["distributions"] == 2
    assert report.facts["verified_files"] == report.facts["files"] - 2  # all but the RECORD files
    assert "clean: 0 errors" in err


def test_findings_give_status_one_and_nothing_on_stdout(
    env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it(env)
    assert call(env) == 1
    out, err = capsys.readouterr()
    assert out == ""
    for words in ("ext/_c.so", "1 none", "FAILED: 1 error", "fix: build it for sm_100a"):
        assert words in err


def test_json_of_findings_is_one_line_and_alone_on_stdout(
    env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it(env)
    assert call(env, "--json") == 1
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert [f["rule"] for f in json.loads(out)["reports"][0]["findings"] if f["severity"] == "error"] == [
        "arch-coverage"
    ]


def test_bare_site_packages(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(env.site) == 0
    assert "2 distributions, 1 shared object" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no target given"),
        (["/nowhere"], "/nowhere: no such file or folder"),
        (["/usr/include"], "/usr/include: not an environment"),
        ([__file__], "not a wheel, an image archive or a lock"),
        ([".", "--uid", "-1"], "--uid -1: not a user id"),
        ([".", "--uid", str(2**70)], "not a user id"),
        ([".", "--profile", "x"], "no profile named 'x'"),
        ([".", "--gpu", "9"], "--gpu 9: no such compute capability"),
        ([".", "--rule", "arch"], "no rule named 'arch'"),
        ([".", "--baseline", "x"], "--baseline without --deep"),
        ([".", "--output", "/nowhere/r"], "/nowhere/r: no folder to write it into"),
        ([".", "--deep", "--save-baseline", "/nowhere/b"], "/nowhere/b: no folder to write it into"),
        (["explain", "arch-cover"], "arch-coverage"),
        (["diff", "."], "diff compares two things"),
    ],
)
def test_bad_input_gives_status_two_and_a_way_out(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *arguments]) == 2
    out, err = capsys.readouterr()
    assert says in err
    assert "fix:" in err
    assert (out, "Traceback" in err) == ("", False)


def test_uid_that_is_no_number() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", ".", "--uid", "nobody"])
    assert ended.value.code == 2


def test_two_site_packages_in_one_folder(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]) -> None:
    (env.prefix / "lib/python3.11/site-packages").mkdir(parents=True)
    assert call(env) == 2
    assert "give one of these folders instead" in capsys.readouterr().err


def test_empty_environment_does_not_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(EnvironmentWriter(tmp_path / "none")) == 1
    assert "there was nothing to audit" in capsys.readouterr().err


def test_schema_needs_no_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--schema"]) == 0
    out, err = capsys.readouterr()
    assert (out.encode(), err) == (json_schema(), "")


def test_uid_decides_what_is_readable(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]) -> None:
    (env.site / "good/data.txt").chmod(0o600)
    owner = os.stat(env.site).st_uid
    stranger = owner + 1000
    assert call(env, "--uid", str(stranger)) == 1
    told = capsys.readouterr().err
    assert "ERROR unreadable" in told
    assert f"uid {stranger}" in told
    assert call(env, "--uid", str(owner)) == 0


def remembered(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str], *options: str) -> int:
    capsys.readouterr()
    assert call(env, "--json", *options) == 0
    count: int = json.loads(capsys.readouterr().out)["reports"][0]["facts"]["remembered_digests"]
    return count


def test_hash_reads_every_file_again_and_leaves_the_cache_alone(
    env: EnvironmentWriter, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fact_cache, "SETTLE_NS", 0)
    time.sleep(0.02)  # longer than a tick of the file system's clock
    assert remembered(env, capsys, "--hash") == 0
    assert not own_cache.exists()
    assert remembered(env, capsys) == 0
    assert remembered(env, capsys) > 0
    assert remembered(env, capsys, "--hash") == 0


@pytest.mark.parametrize("keep", [0, 40, 100])
def test_corrupt_fact_cache_is_ignored_and_rebuilt(
    env: EnvironmentWriter,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    keep: int,
) -> None:
    monkeypatch.setattr(fact_cache, "SETTLE_NS", 0)
    time.sleep(0.02)
    assert remembered(env, capsys) == 0
    (path,) = own_cache.glob("*.digests")
    sound = path.read_bytes()
    path.write_bytes(sound[:keep] + b"\xff" * (len(sound) - keep))
    assert remembered(env, capsys) == 0
    assert path.read_bytes() == sound
    assert remembered(env, capsys) > 0


def test_cache_that_cannot_be_written_is_said_and_costs_nothing_else(
    env: EnvironmentWriter, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_cache.parent.mkdir()
    own_cache.write_text("a file is in the way")
    assert call(env) == 0
    assert "digests are not remembered" in capsys.readouterr().err


def test_one_rule_or_all_but_one(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]) -> None:
    break_it(env)
    assert call(env, "--rule", "record-hash") == 0
    assert "not looked at" in capsys.readouterr().err
    assert call(env, "--skip", "arch-coverage") == 0
    assert call(env, "--rule", "arch-coverage", "--rule", "record-hash") == 1


@pytest.mark.parametrize(("level", "status"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_what_counts_as_failure(env: EnvironmentWriter, level: str, status: int) -> None:
    (env.site / "stray_package").mkdir()
    (env.site / "stray_package/__init__.py").write_bytes(b"")  # a warning of unowned-file
    assert call(env, "--rule", "unowned-file", "--fail-on", level) == status


@pytest.mark.parametrize("form", ["sarif", "junit", "html"])
def test_formats_go_to_stdout_or_a_file(
    env: EnvironmentWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    break_it(env)
    assert call(env, "--format", form) == 1
    out = capsys.readouterr().out
    assert "arch-coverage" in out
    assert call(env, "--format", form, "--output", str(tmp_path / "r")) == 1
    assert capsys.readouterr().out == ""
    assert "arch-coverage" in (tmp_path / "r").read_text()


def test_several_targets_and_one_that_is_none(
    env: EnvironmentWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wheel(tmp_path / "w", "a", {"a/__init__.py": b""})
    (tmp_path / "w/b-1-py3-none-any.whl").write_bytes(b"no wheel")
    wheel, broken = sorted((tmp_path / "w").glob("*.whl"))
    assert main(["audit", str(env.prefix), str(wheel), "--profile", "probe", "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)["reports"]
    assert [report["kind"] for report in reports] == ["environment", "wheels"]
    assert main(["audit", str(env.prefix), str(broken), "--profile", "probe", "--json"]) == 2
    out, err = capsys.readouterr()
    assert [item["what"] for item in json.loads(out)["unread"]] == [str(broken)]
    assert "Traceback" not in err
    assert main(["audit", str(env.prefix), "/nowhere", "--profile", "probe"]) == 2


def test_deep_with_a_baseline(env: EnvironmentWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"_Z1av": works()}
    good = write_elf(
        sections=[(".nv_fatbin", write_section(both(body | {"_Z1bv": works()}, body | {"_Z1bv": works()})))]
    )
    env.add("ext", {"ext/_c.so": good})
    saved = str(tmp_path / "kernels")
    assert call(env, "--deep", "--save-baseline", saved, "--json") == 0
    assert json.loads(capsys.readouterr().out)["reports"][0]["depth"][0]["kernels"] == 2
    assert call(env, "--deep", "--baseline", saved) == 0
    (env.site / "ext/_c.so").write_bytes(write_elf(sections=[(".nv_fatbin", write_section(both(body, body)))]))
    assert call(env, "--deep", "--baseline", saved, "--rule", "kernel-baseline") == 1
    assert "has lost kernels" in capsys.readouterr().err
    assert call(env, "--deep", "--baseline", __file__) == 2
    assert "not a baseline of kernels" in capsys.readouterr().err


def test_explain_and_the_list_of_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "explain", "arch-coverage"]) == 0
    assert "What people see" in capsys.readouterr().out
    assert main(["audit", "explain"]) == 0
    listed = capsys.readouterr().out
    assert [rule for rule in sorted(RULE_IDS) if rule not in listed] == []


def test_diff_of_two_targets_and_of_saved_reports(
    env: EnvironmentWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_sound_environment(tmp_path / "f")
    break_it(other)
    names = [str(env.prefix), str(other.prefix)]
    assert main(["audit", "diff", *names, "--profile", "probe"]) == 1
    assert "arch-coverage" in capsys.readouterr().err
    assert main(["audit", "diff", names[1], names[0], "--profile", "probe"]) == 0
    saved = []
    for name in names:
        saved.append(f"{name}.json")
        main(["audit", name, "--profile", "probe", "--json", "--output", saved[-1]])
    capsys.readouterr()
    assert main(["audit", "diff", *saved, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["schema"].startswith("orbit.audit-diff/")


def test_other_gpus(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]) -> None:
    break_it(env)
    assert call(env, "--gpu", "9.0") == 0
    assert call(env, "--gpu", "9.0", "--gpu", "12.0") == 1
    assert "sm_120" in capsys.readouterr().err
