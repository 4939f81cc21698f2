"""orbit.kernels.shim: the fronts as programs, in front of fake compilers that write down how they were called.

Covers nvcc, device, log and program.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orbit.kernels.shim.device import module_id
from tests.kernels.shim.farm import call, calls, configure, lines, make_farm
from tests.kernels.shim.test_arguments import OURS


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    return make_farm(tmp_path / "build")


def test_a_compile_is_enforced_logged_and_leaves_no_temporary_folder(farm: Path, tmp_path: Path) -> None:
    status = call(farm, "nvcc", "-arch=sm_80", "-c", f"{farm}/src/a.cu", "-o", "a.o", NVCC_APPEND_FLAGS="-arch=sm_70")
    assert status.returncode == 0
    ran = (tmp_path / "calls").read_text().split()
    assert ran[:8] == ["nvcc-real", *OURS, "-c", "src/a.cu", "-o", "a.o"][:8]
    assert ran[8] == "--keep"
    line = json.loads((farm / "log").read_text())
    assert line["requested"] == [
        "compute_80:sm_80",
        "compute_80:compute_80",
        "compute_70:sm_70",
        "compute_70:compute_70",
    ]
    assert line["effective"] == ["arch=compute_90a,code=sm_90a", "arch=compute_100a,code=sm_100a"]
    assert (line["sources"], line["kind"], line["status"]) == (["src/a.cu"], "compile", 0)
    assert not list(farm.glob("nvcc-*"))


def test_the_status_of_the_compiler_is_ours(farm: Path) -> None:
    assert call(farm, "nvcc", "-c", "broken.cu").returncode == 7
    assert json.loads((farm / "log").read_text())["status"] == 7


def test_a_refusal_is_logged(farm: Path) -> None:
    assert call(farm, "nvcc", "-ptx", "a.cu").returncode == 2
    assert "holds one architecture" in json.loads((farm / "log").read_text())["error"]
    assert not (farm.parent / "calls").exists()


def test_host_paths_are_taken_from_cudafe_and_ptxas(farm: Path, tmp_path: Path) -> None:
    assert call(farm, "cudafe++", "--orig_src_path_name", f"{farm}/src/a.cu", "x.ii").returncode == 0
    ptx = farm / "a.ptx"
    ptx.write_text(f'.file 1 "{farm}/src/a.cu"\n.file 2 "/usr/include/x.h"\n')
    assert call(farm, "ptxas", "-arch=sm_90a", "a.ptx", "-o", "a.cubin").returncode == 0
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
        ids = ("--gen_module_id_file", "--module_id_file_name", id_file)
        assert call(farm, "cudafe++", *source, *ids, "x.ii").returncode == 0
    one, two = ((farm / folder / "a.module_id").read_text() for folder in ("nvcc-one", "nvcc-two"))
    assert one == module_id("src/a.cu", "/elsewhere/nvcc-one/a.module_id")
    assert re.fullmatch(r"_[0-9a-f]{8}_4_a_cu_[0-9a-f]{8}", one)
    assert one.split("_")[1] == two.split("_")[1]
    assert one != two
    ran = (tmp_path / "calls").read_text()
    assert "--gen_module_id_file" not in ran, "cudafe++ would write its own over it"
    assert ran.count("--module_id_file_name") == 2


def test_what_cmake_asks_its_compiler_is_answered_and_is_no_unit(farm: Path) -> None:
    probe = "src/build/CMakeFiles/4.1.2/CompilerIdCUDA"
    (farm / probe).mkdir(parents=True)
    source = f"{farm}/{probe}/CMakeCUDACompilerId.cu"
    assert call(farm, "nvcc", "-v", "--keep", "--keep-dir", "tmp", source, cwd=farm / probe).returncode == 0
    assert calls(farm)[0].endswith("--keep --keep-dir tmp CMakeCUDACompilerId.cu"), "two --keep-dir end nvcc"
    assert [line["kind"] for line in lines(farm)] == ["probe"]
    assert call(farm, "nvcc", "--dryrun", "-c", "src/a.cu").returncode == 0
    assert call(farm, "nvcc", "-M", "src/a.cu").returncode == 0
    assert len(lines(farm)) == 1


def test_a_host_compiler_named_by_its_path_is_the_front(farm: Path, tmp_path: Path) -> None:
    real = tmp_path / "g++"
    real.write_text("")
    (tmp_path / "link").symlink_to(real)
    configure(farm, programs={"g++": str(real)})
    for spelling in (["-ccbin", str(real)], [f"-ccbin={real}"], [f"--compiler-bindir={real}"], ["-ccbin", "g++"]):
        call(farm, "nvcc", *spelling, "-c", "src/a.cu", "-o", "a.o")
    assert all(re.search(r"(-ccbin|--compiler-bindir)[ =]g\+\+ ", line) for line in calls(farm))
    call(farm, "nvcc", "-ccbin", "/another/clang++", "-c", "src/a.cu", "-o", "a.o")
    assert "-ccbin /another/clang++" in calls(farm)[-1]
