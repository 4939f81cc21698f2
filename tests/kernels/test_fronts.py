"""orbit.kernels.fronts: every front is in place, knows its settings, and starts fast."""

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from orbit.core.paths import SOCKET_PATH_BYTES
from orbit.errors import InputError
from orbit.kernels.buildenv import SITE
from orbit.kernels.fronts import PACKAGE, Settings
from orbit.kernels.shim.config import Config, Part
from orbit.kernels.shim.places import CONFIG_NAME
from orbit.kernels.shim.program import CUDA_TOOLS
from orbit.kernels.workspace import Workspace

PAIRS = [("compute_90a", "sm_90a"), ("compute_100a", "sm_100a")]
STANDARD = ("json", "hashlib", "os", "sys", "time", "zlib", "re", "socket", "shlex", "shutil", "__future__")
SLOW = ("dataclasses", "inspect", "pathlib", "shutil", "socket", "subprocess", "typing")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def workspace(tmp_path: Path, settings: Settings) -> Workspace:
    """A build over an environment whose programs say their name and arguments."""
    env = tmp_path / "environment"
    toolkit = env / SITE / "nvidia" / "cu13"
    for tool in CUDA_TOOLS:
        program = toolkit / ("nvvm/bin" if tool == "cicc" else "bin") / tool
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho {tool} "$@"\n')
        program.chmod(0o755)
    (toolkit / "nvvm" / "libdevice").mkdir()
    (toolkit / "nvvm" / "libdevice" / "libdevice.10.bc").write_text("code")
    (env / "bin").mkdir()
    (env / "bin" / "python").symlink_to(sys.executable)
    (env / "bin" / "ninja").write_text('#!/bin/sh\necho ninja "$@"\n')
    (env / "bin" / "ninja").chmod(0o755)
    root = tmp_path / "space"
    root.mkdir()
    space = Workspace(root, tmp_path / "log")
    space.prepare(env, PAIRS, settings)
    return space


def read(space: Workspace) -> Config:
    config: Config = json.loads((space.cuda / "bin" / CONFIG_NAME).read_text())
    return config


def test_the_settings_are_complete(tmp_path: Path) -> None:
    part: Part = {"archs": ["sm_90a"], "index": 1, "count": 1}
    space = workspace(
        tmp_path,
        Settings(
            recipe="thing",
            jobs="/run/jobs",
            inflight=5,
            units=tmp_path / "units",
            shared=tmp_path / "shared",
            wheel_key="key",
            part=part,
        ),
    )
    config = read(space)
    assert set(config) == set(get_type_hints(Config))
    assert (config["recipe"], config["jobs"], config["inflight"], config["wheel_key"]) == (
        "thing",
        "/run/jobs",
        5,
        "key",
    )
    assert config["part"] == part
    assert config["prefixes"][0] == [f"{space.root}/", ""]
    assert set(config["identities"]) >= {"cicc", "ptxas", "cudafe++", "g++", "gcc"}
    assert len(set(config["identities"].values())) >= 4


def test_without_settings_nothing_is_cached_or_asked(tmp_path: Path) -> None:
    config = read(workspace(tmp_path, Settings()))
    assert (config["units"], config["shared"], config["jobs"], config["identities"]) == ("", "", "", {})
    assert "part" not in config
    assert "wheel_key" not in config


def test_the_identity_of_a_compiler_is_its_content(tmp_path: Path) -> None:
    settings = Settings(units=tmp_path / "units")
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    one = read(workspace(tmp_path / "one", settings))["identities"]
    assert read(workspace(tmp_path / "two", settings))["identities"] == one
    space = workspace(tmp_path / "three", settings)
    library = tmp_path / "three" / "environment" / SITE / "nvidia/cu13/nvvm/libdevice/libdevice.10.bc"
    library.write_text("other code")
    shutil.rmtree(space.root)
    space.root.mkdir()
    space.prepare(tmp_path / "three" / "environment", PAIRS, settings)
    assert read(space)["identities"] == {**one, "cicc": read(space)["identities"]["cicc"]}
    assert read(space)["identities"]["cicc"] != one["cicc"]


def test_every_program_is_behind_a_front(tmp_path: Path) -> None:
    space = workspace(tmp_path, Settings(inflight=5))
    for tool in CUDA_TOOLS:
        folder = space.cuda / ("nvvm/bin" if tool == "cicc" else "bin")
        assert f" {tool} " in (folder / tool).read_text()
        assert (folder / f"{tool}-real").read_text().startswith("#!/bin/sh\necho")
    path = space.variables(jobs=2, include=(), extra={})["PATH"]
    for tool in ("g++", "gcc", "ninja"):
        assert shutil.which(tool, path=path) == str(space.root / "fronts" / tool)
    done = subprocess.run([space.root / "fronts" / "ninja", "-j", "64"], capture_output=True, check=True)
    assert done.stdout == b"ninja -j5\n"


def test_a_socket_whose_path_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="107 bytes"):
        workspace(tmp_path, Settings(jobs="/" + "x" * SOCKET_PATH_BYTES))
    path = str(tmp_path / "s")
    longest = path + "x" * (SOCKET_PATH_BYTES - len(path))
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(longest)
        with pytest.raises(OSError, match="too long"):
            line.bind(longest + "x")


def test_the_package_stands_alone_and_brings_in_little(tmp_path: Path) -> None:
    space = workspace(tmp_path, Settings())
    package = space.cuda / "bin" / PACKAGE
    assert list((package / "__pycache__").glob("program.*.pyc"))
    text = "\n".join(path.read_text() for path in package.glob("*.py") if path.name != "config.py")
    assert set(re.findall(r"^(?:import|from) ([a-z_]\S*)", text, re.MULTILINE)) <= set(STANDARD)
    program = (
        f"import sys; sys.path.insert(0, {str(package.parent)!r}); from {PACKAGE} import host, nvcc, program;"
        f"print(sorted({set(SLOW)!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n", "these cost more than everything else together"


def test_a_front_costs_milliseconds(tmp_path: Path) -> None:
    space = workspace(tmp_path, Settings())
    nvcc = str(space.cuda / "bin" / "nvcc")

    def cpu_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    best = 1.0
    for _ in range(5):
        before = cpu_s()
        subprocess.run([nvcc, "--version"], capture_output=True, check=True)
        best = min(best, cpu_s() - before)
    assert best < 0.15, "about 0.03 s of processor time on a slow machine"
