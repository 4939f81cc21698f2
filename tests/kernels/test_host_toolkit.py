"""orbit.kernels.host_toolkit: nvcc of the host, only where it is asked for and only of the right release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.records import content_key
from orbit.core.store import Store
from orbit.errors import InputError, MissingError
from orbit.kernels import plan as plans
from orbit.kernels.build import Limit, build_kernels
from orbit.kernels.buildenv import SITE, build_environment
from orbit.kernels.host_toolkit import HEADER, PROGRAMS, VARIABLE, host_toolkit, wants_toolkit, without_toolkit
from orbit.kernels.plan import make_plan
from orbit.kernels.recipe import load_recipe
from orbit.profile.lock import read_lock
from orbit.profile.model import Profile, load_profile


def make_toolkit(folder: Path, release: str = "12.8", version: str = "V12.8.93") -> Path:
    """A folder shaped like a toolkit, whose nvcc only says its version."""
    for name in (*PROGRAMS, HEADER):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    line = f"Cuda compilation tools, release {release}, {version}"
    (folder / "bin" / "nvcc").write_text(f"#!/bin/sh\necho '{line}'\n")
    (folder / "bin" / "nvcc").chmod(0o755)
    return folder


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")


def test_only_device_code_of_such_a_profile_wants_one() -> None:
    assert wants_toolkit(load_recipe("orbit-probe"), load_profile("cu128"))
    assert not wants_toolkit(load_recipe("orbit-probe"), load_profile("cu130"))
    assert not wants_toolkit(load_recipe("transformer-engine-torch"), load_profile("cu128"))
    assert not wants_toolkit(load_recipe("sgl-kernel"), load_profile("cu128"))


def test_without_one_device_code_is_skipped_with_the_reason(tmp_path: Path, unset: None) -> None:
    plan = make_plan(load_profile("cu128"), checkout_root(), Store(tmp_path), tier="core")
    assert [each.recipe.name for each in plan.items] == ["transformer-engine-torch"]
    assert [each.recipe.dist for each in plan.checks] == ["sgl-kernel", "transformer-engine-cu12", "torch-memory-saver"]
    skipped = {skip.what: skip.reason for skip in plan.skipped}
    assert list(skipped) == ["orbit-probe", "orbit-kernels", "causal-conv1d", "flash-attn", "mamba-ssm"]
    for name in ("orbit-probe", "orbit-kernels", "causal-conv1d"):
        assert "nvcc of CUDA 12.8" in skipped[name]
        assert VARIABLE in skipped[name]


def test_by_name_it_is_an_error(tmp_path: Path, unset: None) -> None:
    with pytest.raises(MissingError, match=r"orbit-probe: device code needs nvcc of CUDA 12\.8") as caught:
        make_plan(load_profile("cu128"), checkout_root(), Store(tmp_path), tier="core", names=("orbit-probe",))
    assert VARIABLE in caught.value.fix


def test_with_one_everything_is_planned_and_the_compiler_is_in_the_key(
    tmp_path: Path, unset: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []
    for name, version in (("one", "V12.8.93"), ("two", "V12.8.61")):
        monkeypatch.setenv(VARIABLE, str(make_toolkit(tmp_path / name, version=version)))
        plan = make_plan(load_profile("cu128"), checkout_root(), Store(tmp_path / "store"), tier="core")
        found = {item.recipe.name: content_key(item.inputs) for item in plan.items}
        assert set(found) == {"orbit-probe", "orbit-kernels", "causal-conv1d", "transformer-engine-torch"}
        keys.append(found)
    assert keys[0]["orbit-probe"] != keys[1]["orbit-probe"]
    assert keys[0]["transformer-engine-torch"] == keys[1]["transformer-engine-torch"]


def test_a_profile_whose_lock_has_nvcc_does_not_look(
    tmp_path: Path, unset: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    before = make_plan(load_profile("cu130"), checkout_root(), store, tier="core")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    assert make_plan(load_profile("cu130"), checkout_root(), store, tier="core") == before


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda path: (path / "nvvm/bin/cicc").unlink(), "not a CUDA toolkit: no nvvm/bin/cicc"),
        (lambda path: (path / HEADER).unlink(), f"no {HEADER}"),
        (lambda path: make_toolkit(path, release="13.0", version="V13.0.88"), "the profile is for CUDA 12.8"),
        (lambda path: (path / "bin/nvcc").write_text("#!/bin/sh\necho hello\n"), "unknown; the profile is for"),
    ],
)
def test_what_is_no_toolkit_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], object], says: str
) -> None:
    path = make_toolkit(tmp_path / "toolkit")
    harm(path)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(InputError, match=says) as caught:
        host_toolkit("12.8")
    assert "12.8" in caught.value.fix
    with pytest.raises(InputError):
        without_toolkit(load_recipe("orbit-probe"), load_profile("cu128"))


def on_the_host(name: str) -> Profile:
    """A profile of CUDA 13.0 that takes its compiler from the host."""
    return msgspec.structs.replace(load_profile(name), toolkit="host")


@pytest.mark.integration
@pytest.mark.network
def test_a_real_toolkit_of_the_host_compiles_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    """The lock's own CUDA 13.0 compiler, taken as if it were the host's: the same device code, by another key."""
    root = checkout_root()
    environment = build_environment("cuda", read_lock(root / "uv.lock"), store, Silent()).path / "env"
    monkeypatch.setenv(VARIABLE, str(environment / SITE / "nvidia" / "cu13"))
    (hosted,) = build_kernels(
        on_the_host("probe"), root, store, tier="core", progress=Silent(), limit=Limit(jobs=2)
    ).wheels
    (plain,) = build_kernels(
        load_profile("probe"), root, store, tier="core", progress=Silent(), limit=Limit(jobs=2)
    ).wheels
    assert hosted.sha256 == plain.sha256
    assert hosted.manifest.compiler == plain.manifest.compiler
    assert set(hosted.manifest.requested) == {"compute_90a:sm_90a", "compute_100a:sm_100a"}
