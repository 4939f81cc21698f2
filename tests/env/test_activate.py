"""orbit.env.activate: the contract is whole, pure, and means the same in every shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.core.records import dump_json
from orbit.env.activate import (
    Variable,
    activation,
    activation_of,
    apply,
    conditions_by_name,
    conditions_of,
    default_state,
    load_contract,
    render,
    state_folders,
)
from orbit.env.cuda_home import link_farm, toolkit_folders
from orbit.env.record import RECORD_PATH, SCHEMA, EnvironmentRecord
from orbit.errors import InputError
from orbit.profile.model import load_profile, profile_names
from orbit.profile.place import profile_lock

SITE = "lib/python3.12/site-packages"


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
    without = activation("/p", has=())
    assert {v.name for v in with_cuda} - {v.name for v in without} == {"CUDA_HOME", "CUDA_PATH", "FLASHINFER_NVCC"}
    toolkit = activation("/p", has={"cuda"})
    assert {v.name for v in with_cuda} - {v.name for v in toolkit} == {"FLASHINFER_NVCC"}


def test_a_condition_that_the_contract_does_not_know_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (checkout_root() / "env" / "activation.toml").read_text().replace('needs = "nvcc"', 'needs = "nvc"')
    (tmp_path / "activation.toml").write_text(text)
    monkeypatch.setattr("orbit.env.activate.data_file", lambda *parts: tmp_path / parts[-1])
    with pytest.raises(InputError, match=r"FLASHINFER_NVCC: needs = 'nvc', which is no key of \[conditions\]"):
        load_contract()


def made(prefix: Path, files: tuple[str, ...]) -> Path:
    """An environment on disk as :mod:`orbit.env.assemble` leaves it: these files, and a CUDA_HOME over them."""
    for file in ("bin/python", *(f"{SITE}/nvidia/{file}" for file in files)):
        (prefix / file).parent.mkdir(parents=True, exist_ok=True)
        (prefix / file).touch()
    if toolkit_folders(prefix / SITE):
        link_farm(prefix / SITE, prefix / "cuda", relative=True)
    record = EnvironmentRecord(
        schema=SCHEMA, identity="d" * 64, profile="p", lock="0", prefix="/opt/orbit", python="3.12.1", interpreter="0",
        system_libraries=(), distributions=(), skipped=(), contested=(), uncompiled=(),
    )  # fmt: skip
    dump_json(prefix / RECORD_PATH, record)
    return prefix


CUDA_FILES = {
    "nvidia-cuda-nvcc": ("cu13/bin/nvcc", "cu13/bin/ptxas"),
    "nvidia-cuda-runtime": ("cu13/include/cuda_runtime.h", "cu13/lib/libcudart.so.13"),
    "nvidia-cuda-nvcc-cu12": ("cuda_nvcc/bin/ptxas", "cuda_nvcc/nvvm/lib64/libnvvm.so"),
    "nvidia-cuda-runtime-cu12": ("cuda_runtime/include/cuda_runtime.h", "cuda_runtime/lib/libcudart.so.12"),
}
"""What the wheels unpack below site-packages/nvidia, as far as the contract speaks of it (``unzip -l``)."""


@pytest.mark.parametrize("name", profile_names())
def test_what_the_contract_names_below_the_prefix_is_in_the_environment_of_every_profile(
    name: str, tmp_path: Path
) -> None:
    profile = load_profile(name)
    dists = {package.name for package in profile_lock(profile, checkout_root()).closure(profile.extras)}
    prefix = made(tmp_path, tuple(file for dist in dists for file in CUDA_FILES.get(dist, ())))
    variables = activation_of(prefix, str(tmp_path / "state"))
    paths = [part for v in variables for part in v.value.split(":") if part.startswith(f"{prefix}/")]
    state = f"{tmp_path}/state"
    assert [path for path in paths if not path.startswith(state) and not os.path.exists(path)] == []
    assert conditions_by_name(dists) == conditions_of(prefix)
    assert conditions_of(prefix) == {"cu130": {"cuda", "nvcc"}, "cu128": {"cuda"}, "probe": set()}[name]


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
    variables = as_dict(activation_of(made(tmp_path, ()), "/s"))
    assert variables["TRITON_CACHE_DIR"] == "/s/cache/dddddddddddd/triton"
    assert variables["ORBIT_PREFIX"] == str(tmp_path)
    assert "CUDA_HOME" not in variables
    (tmp_path / "cuda").mkdir()
    assert as_dict(activation_of(tmp_path, "/s"))["CUDA_HOME"] == f"{tmp_path}/cuda"
