"""orbit kernels: the thin command over plan, manifests and recipes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.cli.kernels.build import parse_archs, parse_part
from orbit.cli.kernels.gc import parse_size
from orbit.errors import ExitCode, InputError
from orbit.kernels import plan as plans


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path))
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")
    return tmp_path


def test_plan_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "plan"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("orbit-probe 0.1.0: sm_90a, sm_100a;")
    assert "to build" in lines[0]
    skipped = [line.split(":")[0] for line in lines if "skipped" in line]
    assert {"flash-attn", "mamba-ssm"} <= set(skipped)


def test_plan_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "plan", "--kernels", "all", "--json"]) == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)
    assert {"orbit-probe", "flash-attn"} <= {item["recipe"]["name"] for item in plan["items"]}
    assert plan["skipped"] == []
    assert plan["items"][0]["pairs"] == [["compute_90a", "sm_90a"], ["compute_100a", "sm_100a"]]


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "causal-conv1d"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "CAUSAL_CONV1D_FORCE_BUILD=TRUE" in text
    assert "9.0a;10.0a" in text
    assert main(["kernels", "show", "causal-conv1d", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["recipe"]["device_units"] == 3


def test_mistakes_are_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "nope"]) == ExitCode.USAGE
    assert "known recipes" in capsys.readouterr().err
    assert main(["kernels", "manifest"]) == ExitCode.MISSING
    assert "orbit kernels build" in capsys.readouterr().err
    for option, value in (("--jobs", "0"), ("--memory", "-1"), ("--part", "5/4"), ("--archs", "sm_75")):
        assert main(["kernels", "build", option, value]) == ExitCode.USAGE
        assert option in capsys.readouterr().err
    assert main(["kernels", "build", "nope"]) == ExitCode.USAGE
    assert "known recipes" in capsys.readouterr().err
    assert main(["kernels", "gc", "--max-size", "much"]) == ExitCode.USAGE
    assert "20G" in capsys.readouterr().err
    assert main(["kernels", "costs"]) == ExitCode.MISSING
    assert "orbit kernels build" in capsys.readouterr().err
    assert main(["kernels", "reproduce", "causal-conv1d"]) == ExitCode.MISSING
    assert "orbit kernels build causal-conv1d" in capsys.readouterr().err
    assert main(["kernels", "reproduce", "sglang-kernel"]) == ExitCode.USAGE
    assert "not compiled here" in capsys.readouterr().err
    assert main(["kernels", "plan", "--profile", "nope"]) == ExitCode.USAGE


def test_a_busy_store_is_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from orbit.core.store import Store

    with Store(store).writer("a test"):
        assert main(["kernels", "build", "--profile", "probe"]) == ExitCode.REFUSED
    assert "a test is running" in capsys.readouterr().err


def test_where_sources_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "sources", "--kernels", "all"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("orbit-probe") and line.endswith("checkout") for line in lines)
    assert any(line.startswith("flash-attn") and line.endswith("fetch") for line in lines)


def test_sharing_makes_numbers_of_words() -> None:
    assert (parse_part("1/1"), parse_part("3/16")) == ((1, 1), (3, 16))
    assert parse_archs(None, ("sm_90a",)) == []
    assert parse_archs("sm_90a, host", ("sm_90a",)) == ["sm_90a", "host"]
    for wrong in ("0/4", "5/4", "1", "a/b", "1/0"):
        with pytest.raises(InputError, match="--part"):
            parse_part(wrong)


def test_sizes() -> None:
    assert parse_size(None) is None
    assert (parse_size("1K"), parse_size("1.5g")) == (1024, 3 * 2**29)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"no archive"])
def test_what_is_no_wheel_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    assert main(["kernels", "show", str(path)]) == ExitCode.USAGE
    assert "no such file" in capsys.readouterr().err
    path.write_bytes(content)
    assert main(["kernels", "show", str(path)]) in (ExitCode.USAGE, ExitCode.FINDINGS)
    assert main(["kernels", "compare", str(path), str(path)]) in (ExitCode.OK, ExitCode.USAGE)


def test_two_wheels_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for folder, text in (("a", b"one"), ("b", b"two")):
        path = tmp_path / folder / "thing-1.0-py3-none-any.whl"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("thing/__init__.py", text)
            archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        paths.append(str(path))
    assert main(["kernels", "compare", paths[0], paths[0]]) == ExitCode.OK
    assert "thing/__init__.py" not in capsys.readouterr().out
    assert main(["kernels", "compare", *paths]) == ExitCode.FINDINGS
    assert "thing/__init__.py" in capsys.readouterr().out


def test_room_is_made(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = store / "units" / "ab" / "cd"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(bytes(4096))
    assert main(["kernels", "gc", "--keep-days", "0", "--dry-run"]) == ExitCode.OK
    assert "would be freed" in capsys.readouterr().out
    assert unit.exists()
    assert main(["kernels", "gc", "--keep-days", "0"]) == ExitCode.OK
    assert not unit.exists()
