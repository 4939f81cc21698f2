"""orbit.env.activate: the contract is whole, pure, and means the same in every shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orbit.core.records import dump_json
from orbit.env.activate import (
    Variable,
    activation,
    activation_of,
    apply,
    default_state,
    load_contract,
    render,
    state_folders,
)
from orbit.env.record import RECORD_PATH, SCHEMA, EnvironmentRecord
from orbit.errors import InputError


def as_dict(variables: tuple[Variable, ...]) -> dict[str, str]:
    return {variable.name: variable.value for variable in variables if variable.how == "set"}


def test_every_variable_has_a_reason_and_no_placeholder_is_left() -> None:
    variables = activation("/opt/orbit", state="/s", identity="ab" * 32)
    assert len(variables) >= 25
    assert all(len(variable.reason) > 10 for variable in variables)
    assert not any("{" in variable.value for variable in variables)
    assert len(load_contract().variables) == len(variables)


def test_caches_belong_to_one_environment() -> None:
    one = as_dict(activation("/p", state="/s", identity="a" * 64))
    other = as_dict(activation("/p", state="/s", identity="b" * 64))
    assert one["TRITON_CACHE_DIR"] == f"/s/cache/{'a' * 12}/triton"
    different = {name for name in one if one[name] != other[name]}
    assert {"TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "TVM_FFI_CACHE_DIR", "CUDA_CACHE_PATH"} <= different
    assert not {"TMPDIR", "CUDA_HOME", "ORBIT_STATE"} & different


def test_everything_written_lies_in_the_state_folder() -> None:
    for variable in activation("/opt/orbit", state="/s"):
        if variable.how in ("set", "default") and variable.value.startswith("/") and variable.name != "LD_LIBRARY_PATH":
            assert variable.value.startswith(("/s", "/opt/orbit")), variable.name


def test_without_a_compiler_nothing_of_cuda_is_promised() -> None:
    with_cuda = activation("/p")
    without = activation("/p", cuda=False)
    assert {v.name for v in with_cuda} - {v.name for v in without} == {"CUDA_HOME", "CUDA_PATH", "FLASHINFER_NVCC"}


def test_apply_keeps_order_defaults_and_removals() -> None:
    base = {"PATH": "/usr/bin", "PYTHONPATH": "/mine", "PYTHONUNBUFFERED": "0", "KEPT": "1"}
    env = apply(activation("/p", state="/s"), base)
    assert env["PATH"] == "/p/bin:/p/cuda/bin:/usr/bin"
    assert "PYTHONPATH" not in env
    assert env["PYTHONUNBUFFERED"] == "0"
    assert env["PYTHONFAULTHANDLER"] == "1"
    assert env["KEPT"] == "1"
    assert base["PATH"] == "/usr/bin"
    assert apply(activation("/p"), {})["PATH"] == "/p/bin:/p/cuda/bin"


def test_sockets_fit_below_the_default_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORBIT_STATE", raising=False)
    ray = as_dict(activation("/p", state=default_state()))["RAY_TMPDIR"]
    socket = f"{ray}/session_2026-11-30_10-00-00_123456_1234567/sockets/plasma_store.12"
    assert len(socket) <= 107
    monkeypatch.setenv("ORBIT_STATE", "/mine")
    assert default_state() == "/mine"


def shells() -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (("sh", "sh"), ("bash", "sh"), ("fish", "fish")) if shutil.which(name)]


@pytest.mark.parametrize(("shell", "kind"), shells())
def test_a_shell_ends_with_the_same_environment(shell: str, kind: str, tmp_path: Path) -> None:
    state = str(tmp_path / 'it\'s a $(touch never) "state"')
    variables = activation("/opt/my orbit", state=state, identity="c" * 64)
    base = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": "/x",
        "PYTHONUNBUFFERED": "",
        "CUDA_DEVICE_ORDER": "FASTEST_FIRST",
    }
    program = render(variables, state, kind) + "env -0\n"
    out = subprocess.run([shell, "-c", program], capture_output=True, env=base, check=True, cwd=tmp_path).stdout
    seen = dict(pair.split("=", 1) for pair in out.decode().split("\0") if pair)
    wanted = apply(variables, base)
    assert {name: seen.get(name) for name in wanted} == wanted
    assert "PYTHONPATH" not in seen
    assert not (tmp_path / "never").exists()
    assert all(os.path.isdir(folder) for folder in state_folders(variables, state))


def test_fish_syntax() -> None:
    text = render(activation("/p", state="/it's"), "/it's", "fish")
    assert "set -gx CUDA_HOME '/p/cuda'\n" in text
    assert "set -e PYTHONPATH\n" in text
    assert "set -gx PATH '/p/bin' '/p/cuda/bin' $PATH\n" in text
    assert "'/it\\'s/tmp'" in text


def test_an_environment_on_disk_tells_its_identity(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an Orbit environment"):
        activation_of(tmp_path, "/s")
    record = EnvironmentRecord(
        schema=SCHEMA, identity="d" * 64, profile="p", lock="0", prefix="/opt/orbit", python="3.12.1", interpreter="0",
        system_libraries=(), distributions=(), skipped=(), contested=(), uncompiled=(),
    )  # fmt: skip
    dump_json(tmp_path / RECORD_PATH, record)
    variables = as_dict(activation_of(tmp_path, "/s"))
    assert variables["TRITON_CACHE_DIR"] == "/s/cache/dddddddddddd/triton"
    assert variables["ORBIT_PREFIX"] == str(tmp_path)
    assert "CUDA_HOME" not in variables
    (tmp_path / "cuda").mkdir()
    assert as_dict(activation_of(tmp_path, "/s"))["CUDA_HOME"] == f"{tmp_path}/cuda"
