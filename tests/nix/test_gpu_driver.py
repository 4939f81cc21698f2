"""nix/gpu-driver.sh finds the driver on NixOS, Debian, WSL and others, and links nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orbit.audit.known.knowledge import libraries
from tests.nix.nixtools import ROOT

SCRIPT = ROOT / "nix" / "gpu-driver.sh"
DEBIAN = "usr/lib/x86_64-linux-gnu"
DRIVER_FILES = ("libcuda.so", "libcuda.so.1", "libcuda.so.580.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1")
OTHER_FILES = ("libc.so.6", "libstdc++.so.6", "libnvidia-container.so.1", "libcudart.so.13", "libcudadebuggers.txt")


class Machine:
    """A root folder with libraries, and an ldconfig that lists what it is told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "fake-bin"
        self.bin.mkdir(parents=True)
        self.cache()

    def cache(self, *lines: str) -> None:
        text = "\n".join([f"{len(lines)} libs found in cache `/etc/ld.so.cache'", *(f"\t{line}" for line in lines)])
        (self.bin / "ldconfig").write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (self.bin / "ldconfig").chmod(0o755)

    def libraries(self, folder: str, *names: str) -> Path:
        place = self.root / folder
        place.mkdir(parents=True, exist_ok=True)
        for name in names or (*DRIVER_FILES, *OTHER_FILES):
            (place / name).write_text(name)
        return place

    def run(self, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
        driver = libraries().driver
        return subprocess.run(
            ["sh", SCRIPT, folder, *driver.files, "--", *driver.others],
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "ORBIT_DRIVER_ROOT": str(self.root), **env},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def linked(folder: Path) -> dict[str, str]:
    return {path.name: str(path.readlink()) for path in folder.iterdir()}


def test_nixos_keeps_a_folder_for_it(machine: Machine, tmp_path: Path) -> None:
    place = machine.libraries("run/opengl-driver/lib")
    machine.libraries(DEBIAN)
    done = machine.run(tmp_path / "links")
    assert (done.returncode, done.stdout) == (0, f"{place}\n")
    assert not (tmp_path / "links").exists()


def test_the_driver_alone_is_linked_from_among_all_libraries(machine: Machine, tmp_path: Path) -> None:
    place = machine.libraries(DEBIAN)
    machine.cache(
        f"libcuda.so.1 (libc6) => /{DEBIAN}/../i386-linux-gnu/libcuda.so.1",
        f"libcuda.so.1 (libc6,x86-64) => /{DEBIAN}/libcuda.so.1",
        f"libc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /{DEBIAN}/libc.so.6",
    )
    done = machine.run(tmp_path / "links")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/links\n"), done.stderr
    assert linked(tmp_path / "links") == {name: f"{place}/{name}" for name in DRIVER_FILES}
    assert (tmp_path / "links").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("folder", ["usr/lib64", "usr/lib64/nvidia", DEBIAN, "usr/lib"])
def test_distributions_are_known_without_a_cache(machine: Machine, tmp_path: Path, folder: str) -> None:
    place = machine.libraries(folder)
    machine.run(tmp_path / "links")
    assert linked(tmp_path / "links")["libcuda.so.1"] == f"{place}/libcuda.so.1"


def test_the_contract_s_folders_are_looked_into(machine: Machine, tmp_path: Path) -> None:
    place = machine.libraries("usr/lib/wsl/lib", "libcuda.so.1", "libdxcore.so")
    done = machine.run(tmp_path / "links", LD_LIBRARY_PATH="/usr/local/nvidia/lib64::/usr/lib/wsl/lib")
    assert done.returncode == 0
    assert linked(tmp_path / "links") == {"libcuda.so.1": f"{place}/libcuda.so.1"}


def test_a_cache_that_names_what_is_gone_is_not_believed(machine: Machine, tmp_path: Path) -> None:
    machine.cache("libcuda.so.1 (libc6,x86-64) => /gone/libcuda.so.1")
    place = machine.libraries("usr/lib64")
    machine.run(tmp_path / "links")
    assert linked(tmp_path / "links")["libcuda.so.1"] == f"{place}/libcuda.so.1"


def test_a_new_driver_replaces_the_old_one(machine: Machine, tmp_path: Path) -> None:
    links = tmp_path / "links"
    machine.libraries("usr/lib64", "libcuda.so.1", "libcuda.so.570.1")
    machine.run(links)
    assert set(linked(links)) == {"libcuda.so.1", "libcuda.so.570.1"}
    (machine.root / "usr/lib64/libcuda.so.570.1").unlink()
    place = machine.libraries("usr/lib64", "libcuda.so.1", "libcuda.so.580.1")
    assert machine.run(links).returncode == 0
    assert linked(links) == {name: f"{place}/{name}" for name in ("libcuda.so.1", "libcuda.so.580.1")}


def test_the_caller_may_name_the_folder(machine: Machine, tmp_path: Path) -> None:
    machine.libraries("run/opengl-driver/lib")
    own = machine.libraries("opt/driver", "libcuda.so.1")
    assert machine.run(tmp_path / "links", ORBIT_DRIVER=str(own)).returncode == 0
    assert linked(tmp_path / "links") == {"libcuda.so.1": f"{own}/libcuda.so.1"}
    wrong = machine.run(tmp_path / "more", ORBIT_DRIVER=str(tmp_path))
    assert wrong.returncode == 3
    assert f"ORBIT_DRIVER={tmp_path}" in wrong.stderr


def test_a_machine_without_a_driver_says_so(machine: Machine, tmp_path: Path) -> None:
    done = machine.run(tmp_path / "links")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no libcuda.so.1 on this machine" in done.stderr
    assert not (tmp_path / "links").exists()


def test_a_folder_that_somebody_else_could_fill_is_refused(machine: Machine, tmp_path: Path) -> None:
    machine.libraries("usr/lib64")
    (tmp_path / "links").symlink_to(tmp_path)
    done = machine.run(tmp_path / "links")
    assert (done.returncode, done.stdout) == (4, "")


def test_wrong_words_are_refused() -> None:
    assert subprocess.run(["sh", SCRIPT], capture_output=True, check=False).returncode == 2
