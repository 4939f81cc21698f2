"""orbit.kernels.shim: the fronts as programs, in front of fake compilers that write down how they were called.

Covers nvcc, device, log and program.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.kernels.shim.config import CONFIG_NAME
from orbit.kernels.shim.device import module_id
from orbit.kernels.shim.program import TOOLS
from orbit.kernels.workspace import SCRIPT, install
from tests.kernels.shim.test_arguments import OURS, PAIRS


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """A build root with fake compilers that write down how they were called."""
    folder = tmp_path / "build" / "cuda" / "bin"
    folder.mkdir(parents=True)
    for tool in TOOLS:
        fake = folder / f"{tool}-real"
        fake.write_text(
            f"#!{sys.executable} -IS\nimport sys, os\n"
            "call = ' '.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])\n"
            f"open({str(tmp_path / 'calls')!r}, 'a').write(call + '\\n')\n"
            "sys.exit(7 if 'broken.cu' in ' '.join(sys.argv) else 0)\n"
        )
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    install(folder)
    root = tmp_path / "build"
    config = {
        "bin": str(folder),
        "root": str(root),
        "pairs": PAIRS,
        "threads": 1,
        "flags": [],
        "log": str(root / "log"),
    }
    (folder / CONFIG_NAME).write_text(json.dumps(config))
    return root


def call(root: Path, tool: str, *arguments: str, **env: str) -> int:
    command = [sys.executable, "-I", "-S", str(root / "cuda" / "bin" / SCRIPT), tool, *arguments]
    return subprocess.run(command, cwd=root, env={**os.environ, **env}, stderr=subprocess.PIPE, check=False).returncode


def test_a_compile_is_enforced_logged_and_leaves_no_temporary_folder(farm: Path, tmp_path: Path) -> None:
    status = call(farm, "nvcc", "-arch=sm_80", "-c", f"{farm}/a.cu", "-o", "a.o", NVCC_APPEND_FLAGS="-arch=sm_70")
    assert status == 0
    ran = (tmp_path / "calls").read_text().split()
    assert ran[:8] == ["nvcc-real", *OURS, "-c", "a.cu", "-o", "a.o"][:8]
    assert ran[8] == "--keep"
    line = json.loads((farm / "log").read_text())
    assert line["requested"] == [
        "compute_80:sm_80",
        "compute_80:compute_80",
        "compute_70:sm_70",
        "compute_70:compute_70",
    ]
    assert line["effective"] == ["arch=compute_90a,code=sm_90a", "arch=compute_100a,code=sm_100a"]
    assert (line["sources"], line["kind"], line["status"]) == (["a.cu"], "compile", 0)
    assert not list(farm.glob("nvcc-*"))


def test_the_status_of_the_compiler_is_ours(farm: Path) -> None:
    assert call(farm, "nvcc", "-c", "broken.cu") == 7
    assert json.loads((farm / "log").read_text())["status"] == 7


def test_a_refusal_is_logged(farm: Path) -> None:
    assert call(farm, "nvcc", "-ptx", "a.cu") == 2
    assert "holds one architecture" in json.loads((farm / "log").read_text())["error"]
    assert not (farm.parent / "calls").exists()


def test_host_paths_are_taken_from_cudafe_and_ptxas(farm: Path, tmp_path: Path) -> None:
    assert call(farm, "cudafe++", "--orig_src_path_name", f"{farm}/src/a.cu", "x.ii") == 0
    ptx = farm / "a.ptx"
    ptx.write_text(f'.file 1 "{farm}/src/a.cu"\n.file 2 "/usr/include/x.h"\n')
    assert call(farm, "ptxas", "-arch=sm_90a", "a.ptx", "-o", "a.cubin") == 0
    assert ptx.read_text() == '.file 1 "src/a.cu"\n.file 2 "/usr/include/x.h"\n'
    assert (tmp_path / "calls").read_text().splitlines() == [
        "cudafe++-real --orig_src_path_name /src/a.cu x.ii",
        "ptxas-real -arch=sm_90a a.ptx -o a.cubin",
    ]


def test_internal_names_depend_on_source_and_object_alone(farm: Path, tmp_path: Path) -> None:
    for folder in ("nvcc-one", "nvcc-two"):
        (farm / folder).mkdir()
        id_file = f"{folder}/a.module_id"
        source = ("--orig_src_path_name", f"{farm}/src/a.cu")
        assert call(farm, "cudafe++", *source, "--gen_module_id_file", "--module_id_file_name", id_file, "x.ii") == 0
    one, two = ((farm / folder / "a.module_id").read_text() for folder in ("nvcc-one", "nvcc-two"))
    assert one == module_id("src/a.cu", "/elsewhere/nvcc-one/a.module_id")
    assert re.fullmatch(r"_[0-9a-f]{8}_4_a_cu_[0-9a-f]{8}", one)
    assert one.split("_")[1] == two.split("_")[1]
    assert one != two
    ran = (tmp_path / "calls").read_text()
    assert "--gen_module_id_file" not in ran, "cudafe++ would write its own over it"
    assert ran.count("--module_id_file_name") == 2
