"""The activation contract as a process finds it, and each way in which it can be broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.paths import SOCKET_PATH_BYTES
from orbit.env.activate import SOCKETS_BYTES
from orbit.smoke.kinds.contract import RAY_SOCKET, REMOTE, check_contract
from orbit.smoke.model import CheckError, Context

PARAMETERS = {"caches": ["TRITON_CACHE_DIR"]}


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path
    cache = state / "cache/0123456789ab/NVIDIA-H100/triton"
    cache.mkdir(parents=True)
    short = Path("/tmp")
    for name, value in {
        "ORBIT_STATE": state, "ORBIT_STATE_FS": "tmpfs", "ORBIT_GPU": "NVIDIA-H100", "TMPDIR": short,
        "RAY_TMPDIR": short, "TRITON_CACHE_DIR": cache, "USER": "ann", "LOGNAME": "ann", "HOME": state,
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/lib/wsl/lib:/.singularity.d/libs",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    for name in ("PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    return state


def test_all_is_well(good: Path) -> None:
    facts = check_contract(PARAMETERS, Context())
    assert facts["ORBIT_STATE"] == str(good)
    assert "caches for NVIDIA-H100" in facts["summary"]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ORBIT_STATE", "", "the entry point did not run"),
        ("TMPDIR", "/nonexistent", "TMPDIR=/nonexistent: nothing can be written"),
        ("ORBIT_STATE_FS", "lustre", "is on lustre"),
        ("TRITON_CACHE_DIR", "/tmp/triton", "does not say for which environment and GPU"),
        ("TRITON_CACHE_DIR", "/x/cache/0123456789ab/gpu/triton", "TRITON_CACHE_DIR=/x/.*: nothing can be written"),
        ("USER", "", "USER or LOGNAME is not set"),
        ("HOME", "/", "HOME=/: nothing can be written"),
        ("LD_LIBRARY_PATH", "/opt/cluster/lib", "libraries of the host"),
        ("PYTHONPATH", "/mine", "lets foreign modules in"),
        ("RAY_TMPDIR", "/tmp/" + "x" * 60, "a socket's path would have"),
    ],
)
def test_each_fault_is_named(good: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(CheckError, match=says):
        check_contract(PARAMETERS, Context())


def test_no_cache_named_is_no_success(good: Path) -> None:
    with pytest.raises(CheckError, match="nothing was looked at"):
        check_contract({"caches": []}, Context())


def test_the_budget_of_sockets_is_the_same_everywhere() -> None:
    assert SOCKETS_BYTES + 1 + len(RAY_SOCKET) == SOCKET_PATH_BYTES
    assert all(REMOTE.fullmatch(kind) for kind in ("nfs", "nfs4", "lustre", "fuse.sshfs"))
    assert not REMOTE.fullmatch("ext4")
