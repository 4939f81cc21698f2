"""The whole flake through nix/tests/harness.sh: evaluated, entered and built, where the inputs and the files are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit import __version__
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile, profile_names
from tests.nix.nixtools import HARNESS, ROOT, harness, need_inputs, need_nix, need_wheels

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", autouse=True)
def store() -> Iterator[None]:
    """One store for all calls here: what one test built the next one finds. Its path is short, as in `#!` lines."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="orbit-nix-") as folder:
        patch.setenv("ORBIT_NIX_SCRATCH", folder)
        yield
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    done = harness(need_inputs(), "facts")
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def with_lock() -> dict[str, Path]:
    """Profiles whose lock is there, and where."""
    places = {name: ROOT / load_profile(name).lock / "uv.lock" for name in profile_names()}
    return {name: path for name, path in places.items() if path.is_file()}


def test_the_flake_shows_what_the_page_says() -> None:
    done = harness(need_inputs(), "show")
    assert done.returncode == 0, done.stderr
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    words = set(re.findall(r"[\w-]+(?=: )", shown))
    packages = {f"{what}-{name}" for name in with_lock() for what in ("stack", "image")}
    assert {"default", "cuda", "gpu", "ship", "orbit", "kernels", "image", "tests", "lint", *packages} <= words


def test_every_output_reaches_its_derivation(facts: dict[str, Any]) -> None:
    for kind in ("packages", "checks"):
        assert all(path.endswith(".drv") for path in facts[kind].values())
    named = {"orbit", "default", "cuda", "kernels", "image"}
    assert set(facts["packages"]) >= named | {f"stack-{name}" for name in with_lock()}
    assert set(facts["checks"]) == {"tests", "lint", "scripts", "command-line"}
    assert set(facts["apps"]) == {"default", "ship"}


def test_all_shells_have_the_tools_and_only_two_have_cuda(facts: dict[str, Any]) -> None:
    tools = tomllib.loads((ROOT / "nix" / "tools.toml").read_text())["tools"]
    expected = {"python3" if tool["package"] == "python312" else tool["package"] for tool in tools}
    assert set(facts["shells"]) == {"default", "cuda", "gpu"}
    for name, shell in facts["shells"].items():
        assert expected <= set(shell["packages"])
        assert ("export CUDA_HOME=" in shell["hook"]) == (name != "default")
        assert ("gpu-driver.sh" in shell["hook"]) == (name == "gpu")
        assert ("NVCC_CCBIN" in shell["env"]) == (name != "default")


def test_uv2nix_resolves_the_versions_of_the_locks(facts: dict[str, Any]) -> None:
    versions = facts["lib"]["versions"]
    assert set(versions) == {"orbit", *with_lock()}
    for name, path in {"orbit": ROOT / "uv.lock", **with_lock()}.items():
        lock = read_lock(path)
        extras = load_profile(name).extras if name != "orbit" else ()
        locked = {package.name: package.version for package in lock.closure(extras=extras) if package.name != "orbit"}
        resolved = {key: value for key, value in versions[name].items() if key in locked}
        assert resolved == locked
        extra = set(versions[name]) - set(locked) - {"orbit"}
        assert extra <= {"orbit-probe", "orbit-kernels"}


def test_what_is_left_out_is_said(facts: dict[str, Any]) -> None:
    assert set(facts["lib"]["leftOut"]) == set(with_lock())
    assert set(facts["lib"]["leftOut"]["cu130"]) == {"flash-attn", "mamba-ssm"}
    assert facts["lib"]["leftOut"]["probe"] == {}


def test_other_systems_are_told_why_there_is_nothing_for_them(facts: dict[str, Any]) -> None:
    done = subprocess.run(["sh", "-c", facts["elsewhere"]], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("orbit: this is aarch64-linux; Orbit works on Linux x86-64 alone")


def test_a_tree_that_is_not_the_locked_one_is_refused(tmp_path: Path) -> None:
    need_nix()
    (tmp_path / "nixpkgs-lib-only").mkdir()
    (tmp_path / "nixpkgs-lib-only" / "flake.nix").write_text("{ outputs = _: { }; }\n")
    done = harness(tmp_path, "show")
    assert done.returncode == 1
    assert "flake.lock says sha256-" in done.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 2), (("x",), 2), (("x", "dance"), 2), (("x", "show", "more"), 2), (("x", "develop", "default"), 2),
     (("x", "build"), 2), (("x", "run"), 2), (("absent", "show"), 3)],
)  # fmt: skip
def test_wrong_words_and_missing_trees_are_told_apart(words: tuple[str, ...], status: int, tmp_path: Path) -> None:
    done = subprocess.run([HARNESS, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stderr.startswith("harness.sh: ")


def test_the_shell_is_entered_and_runs_orbit() -> None:
    programs = "for program in orbit pytest ruff mypy uv; do command -v $program; done"
    script = f'orbit --version && {programs} && echo "NOUSER=$PYTHONNOUSERSITE" && exit 7'
    done = harness(need_wheels(), "develop", "default", "sh", "-c", script)
    lines = done.stdout.splitlines()
    assert done.returncode == 7, done.stderr
    assert lines[0] == f"orbit {__version__}"
    assert all("/store/" in line for line in lines[1:6]), lines
    assert lines[6:] == ["NOUSER=1"]


def test_the_shell_works_on_the_checkout() -> None:
    script = "import orbit, sys; print(orbit.__file__); print(sys.prefix)"
    done = harness(need_wheels(), "develop", "default", "python", "-c", script)
    assert done.returncode == 0, done.stderr
    where, prefix = done.stdout.splitlines()
    assert where == str(ROOT / "orbit" / "__init__.py")
    assert "/store/" in prefix


def test_the_package_is_built_from_the_locked_wheels() -> None:
    done = harness(need_wheels(), "build", "orbit", "sh", "-c", "$result/bin/orbit --version")
    assert (done.returncode, done.stdout) == (0, f"orbit {__version__}\n"), done.stderr


def test_the_app_runs_the_package() -> None:
    done = harness(need_wheels(), "run", "default", "--version")
    assert (done.returncode, done.stdout) == (0, f"orbit {__version__}\n"), done.stderr


def test_the_app_ships_the_checkout_one_stands_in() -> None:
    done = harness(need_wheels(), "run", "ship", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: orbit ship")


def test_the_lint_check_passes() -> None:
    done = harness(need_wheels(), "build", "checks.x86_64-linux.lint", "sh", "-c", "ls $result")
    assert done.returncode == 0, done.stderr


def need_cuda_wheels() -> str:
    inputs = need_wheels()
    if not any(name.startswith("nvidia_cuda_nvcc") for name in os.listdir(os.environ["ORBIT_NIX_WHEELS"])):
        pytest.skip("ORBIT_NIX_WHEELS has no CUDA wheels")
    return inputs


def test_the_compiler_of_the_lock_compiles(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n")
    script = f'nvcc -gencode arch=compute_90a,code=sm_90a -cubin -o {tmp_path}/k.cubin {source} && echo "$CUDA_HOME"'
    done = harness(need_cuda_wheels(), "develop", "cuda", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("/cuda")
    assert (tmp_path / "k.cubin").read_bytes().startswith(b"\x7fELF")


def test_the_driver_is_found_when_the_shell_is_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = tmp_path / "driver"
    driver.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libc.so.6"):
        (driver / name).write_text("")
    monkeypatch.setenv("ORBIT_DRIVER", str(driver))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    script = 'first=${LD_LIBRARY_PATH%%:*}; echo "$LD_LIBRARY_PATH"; ls "$first"'
    done = harness(need_cuda_wheels(), "develop", "gpu", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    path, *linked = done.stdout.splitlines()
    assert path.startswith(f"{tmp_path}/orbit-driver-{os.getuid()}:")
    assert "/cuda/lib64:/usr/local/nvidia/lib64:" in path
    assert linked == ["libcuda.so.1", "libnvidia-ml.so.1"]


def test_a_kernel_is_built_and_proved_inside_nix() -> None:
    done = harness(need_cuda_wheels(), "build", "kernels-probe", "sh", "-c", "ls $result/orbit-probe/")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"orbit_probe-.*\.whl\n", done.stdout)


def test_an_environment_starts_through_its_entry_point(tmp_path: Path) -> None:
    script = (
        f"export ORBIT_STATE={tmp_path}/state; \"$result/bin/orbit-entrypoint\" sh -c 'env -0; python -m orbit_probe'"
    )
    done = harness(need_cuda_wheels(), "build", "stack-probe", "sh", "-c", script)
    words = done.stdout.split("\0")
    env = {name: value for name, _, value in (word.partition("=") for word in words[:-1])}
    assert env["PYTHONNOUSERSITE"] == "1"
    assert re.match(rf"{tmp_path}/state/cache/[0-9a-f]{{12}}/", env["TRITON_CACHE_DIR"])
    assert env["PATH"].startswith(f"{env['ORBIT_PREFIX']}/bin:")
    seen = json.loads(words[-1])
    # what is in the file is known without a driver; with one the probe says what it loaded
    assert seen["status"] in {"no-driver", "ok", "no-device"}
    if seen["status"] == "no-driver":
        assert seen["images"] == ["sm_100a", "sm_90a"]
