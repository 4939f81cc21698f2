"""The checks' own judgement, with made-up facts: each has a broken twin that must fail."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from orbit.smoke.kinds.command import check_command
from orbit.smoke.kinds.compiler import check_compiler
from orbit.smoke.kinds.device import target_of
from orbit.smoke.kinds.identity import check_identity, readable, user_faults, writable
from orbit.smoke.kinds.imports import check_imports, faults
from orbit.smoke.kinds.megatron_cpu import STEPS, judge_losses
from orbit.smoke.kinds.probe import check_images, judge_probe
from orbit.smoke.kinds.versions import check_versions, differences, off_lock
from orbit.smoke.model import CheckError, Context, Target

TARGETS = (
    Target(name="h100", capability="9.0", sass="sm_90", feature="sm_90a"),
    Target(name="b200", capability="10.0", sass="sm_100", feature="sm_100a"),
)
CONTEXT = Context(targets=TARGETS)


def test_imports_of_nothing_prove_nothing() -> None:
    with pytest.raises(CheckError, match="empty"):
        check_imports({"modules": []}, Context())


def test_a_file_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    assert list(faults({"__file__": str(tmp_path / "gone.py")}, "")) == [
        f"its file {tmp_path / 'gone.py'} does not exist"
    ]
    assert list(faults({"__file__": None}, ""))
    assert not list(faults({"__file__": __file__}, str(Path(__file__).parent)))


@pytest.mark.parametrize(
    ("found", "recorded", "says"),
    [
        ([("a", "1")], {"a": "2"}, "a: 2 is recorded, 1 is installed"),
        ([], {"a": "2"}, "nothing is installed"),
        ([("a", "1"), ("b", "1")], {"a": "1"}, "b: 1 is installed, but not recorded"),
        ([("a", "1"), ("a", "1")], {"a": "1"}, "installed twice"),
        ([], {}, "names no distribution"),
    ],
)
def test_version_differences(found: list[tuple[str, str]], recorded: dict[str, str], says: str) -> None:
    assert any(says in problem for problem in differences(found, recorded, set()))


def test_versions_that_agree() -> None:
    assert differences([("a", "1"), ("orbit", "0")], {"a": "1"}, {"orbit"}) == []
    assert off_lock({"a": "1"}, {"a": ("1", "2"), "flash-attn": ("2",)}, set(), {"flash-attn"}) == []


def test_off_the_lock() -> None:
    assert off_lock({"a": "3"}, {"a": ("1", "2")}, set(), set()) == ["a: 3 is installed, the lock has 1 or 2"]
    assert off_lock({"b": "3"}, {}, set(), set()) == ["b: 3 is installed, the lock has no such package"]
    assert off_lock({}, {"c": ("1",)}, set(), set()) == ["c: 1 is locked, nothing is installed"]


def test_versions_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "lib" / "site-packages"
    info = site / "Some_Dist-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Some_Dist\nVersion: 1.5\n")
    record = tmp_path / "share" / "orbit" / "environment.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"distributions": [{"name": "some-dist", "version": "1.5"}], "skipped": []}))
    monkeypatch.setattr(sys, "path", [str(site)])
    context = Context(prefix=str(tmp_path), lock={"some-dist": ("1.5",)})
    assert check_versions({}, context)["distributions"] == 1
    with pytest.raises(CheckError, match=r"the lock has 1\.6"):
        check_versions({}, Context(prefix=str(tmp_path), lock={"some-dist": ("1.6",)}))
    with pytest.raises(CheckError, match="no such package"):
        check_versions({}, Context(prefix=str(tmp_path), lock={"other": ("1.6",)}))
    built = {"name": "some-dist", "version": "1.5", "origin": "wheelhouse"}
    record.write_text(json.dumps({"distributions": [built], "skipped": [{"what": "other 2", "reason": "r"}]}))
    check_versions({}, Context(prefix=str(tmp_path), lock={"other": ("2",)}))
    with pytest.raises(CheckError, match=r"the lock has 1\.6"):
        check_versions({}, Context(prefix=str(tmp_path), lock={"some-dist": ("1.6",)}))
    record.write_text(json.dumps({"distributions": [{"name": "some-dist", "version": "1.4"}]}))
    with pytest.raises(CheckError, match=r"1\.4 is recorded, 1\.5 is installed"):
        check_versions({}, context)


def test_commands() -> None:
    python = ["{python}", "-c", "print('version 3')"]
    assert check_command({"argv": python, "output": r"version \d"}, Context())["summary"] == "version 3"
    with pytest.raises(CheckError, match="does not match"):
        check_command({"argv": python, "output": "version 4"}, Context())
    with pytest.raises(CheckError, match="status 3 instead of 0"):
        check_command({"argv": ["{python}", "-c", "raise SystemExit(3)"], "output": ""}, Context())
    check_command({"argv": ["{python}", "-c", "raise SystemExit(3)"], "output": "", "status": 3}, Context())


def test_a_user_that_is_not_the_one_asked_for() -> None:
    assert user_faults(0, 0, 0xFF) == []
    assert user_faults(65534, 65534, 0) == []
    assert "instead of 65534" in user_faults(0, 65534, 0)[0]
    assert "root by another name" in user_faults(65534, 65534, 0x2)[0]


def test_what_can_be_written_and_read(tmp_path: Path) -> None:
    assert writable(str(tmp_path))
    assert not writable("/proc")
    (tmp_path / "f").write_text("x")
    assert readable(str(tmp_path / "f"))
    with pytest.raises(CheckError, match="is writable"):
        check_identity({"read_only": [str(tmp_path)]}, Context())
    with pytest.raises(CheckError, match="no such folder"):
        check_identity({"read_only": [str(tmp_path / "absent")]}, Context())


def test_losses() -> None:
    good = [4.16 - 0.2 * step for step in range(STEPS + 1)]
    judge_losses(good, list(good))
    with pytest.raises(CheckError, match="differ at step 2"):
        judge_losses(good, [*good[:2], good[2] + 1e-7, *good[3:]])
    with pytest.raises(CheckError, match="does not fall"):
        judge_losses([4.16] * 9, [4.16] * 9)
    with pytest.raises(CheckError, match="untrained"):
        judge_losses([2.0, 1.0], [2.0, 1.0])
    with pytest.raises(CheckError, match="not finite"):
        judge_losses([float("nan")], [float("nan")])


def test_the_device_must_be_a_target() -> None:
    assert target_of("10.0", CONTEXT).name == "b200"
    with pytest.raises(CheckError, match=r"8\.0 is none"):
        target_of("8.0", CONTEXT)


def test_images_of_the_probe() -> None:
    check_images(("sm_100a", "sm_90a"), CONTEXT)
    with pytest.raises(CheckError, match="instead of"):
        check_images(("sm_90a",), CONTEXT)
    with pytest.raises(CheckError, match="compute_90"):
        check_images(("sm_100a", "sm_90a", "compute_90"), CONTEXT)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"arch": "sm_90"}, "loaded sm_90"),
        ({"mode": "ptx-jit"}, "not shipped"),
        ({"capability": "9.0 "}, "the driver says"),
        ({"instruction": "none"}, "no instruction"),
        ({"max_abs_error": 0.5}, "largest error"),
        ({"values_checked": 0}, "0 values"),
    ],
)
def test_probe_results(change: dict[str, object], says: str) -> None:
    facts = {"capability": "9.0", "arch": "sm_90a", "mode": "sass", "instruction": "wgmma"}
    result = SimpleNamespace(**({**facts, "values_checked": 64, "max_abs_error": 0.0} | change))
    if not says:
        judge_probe(result, "9.0", "sm_90a")
        return
    with pytest.raises(CheckError, match=says):
        judge_probe(result, "9.0", "sm_90a")


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(CheckError, match="no such file"):
        check_compiler({}, CONTEXT)


def test_a_compiler_of_another_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.5, V13.5.37'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(CheckError, match=r"CUDA 13\.5, the profile's release is 13\.0"):
        check_compiler({}, Context(cuda="13.0", targets=TARGETS))
    assert os.environ["CUDA_HOME"] == str(tmp_path)
