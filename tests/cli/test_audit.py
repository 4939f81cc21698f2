"""orbit audit: what people type, the exit status, and what goes to which stream."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import msgspec
import pytest

from orbit.audit import fact_cache
from orbit.audit.report import AuditReport, json_schema
from orbit.cli import main
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.fatbin import write_container, write_section


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
    report = msgspec.json.decode(out, type=AuditReport)
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
    for words in ("ext/_c.so", "1/0/0", "0/0/1", "FAILED: 1 errors", "fix: build it for sm_100a"):
        assert words in err


def test_json_of_findings_is_one_line_and_alone_on_stdout(
    env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it(env)
    assert call(env, "--json") == 1
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert [f["rule"] for f in json.loads(out)["findings"] if f["severity"] == "error"] == ["arch-coverage"]


def test_bare_site_packages(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(env.site) == 0
    assert "2 distributions, 1 shared objects" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no environment given"),
        (["/nowhere"], "/nowhere: no such folder"),
        (["/usr/include"], "/usr/include: not an installed environment"),
        ([__file__], "no such folder"),
        ([".", "--uid", "-1"], "--uid -1: not a user id"),
        ([".", "--uid", str(2**70)], "not a user id"),
        ([".", "--profile", "x"], "no profile named 'x'"),
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
    assert f"1 file is not readable by uid {stranger}" in capsys.readouterr().err
    assert call(env, "--uid", str(owner)) == 0


def remembered(env: EnvironmentWriter, capsys: pytest.CaptureFixture[str], *options: str) -> int:
    capsys.readouterr()
    assert call(env, "--json", *options) == 0
    count: int = json.loads(capsys.readouterr().out)["facts"]["remembered_digests"]
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
