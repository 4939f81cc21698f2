"""orbit.kernels.shim with the lock's nvcc: cold, warm, in parts, killed, elsewhere; always the same bytes.

Needs g++ and the package index.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.proc import clean_env
from orbit.core.store import Store
from orbit.kernels.buildenv import build_environment
from orbit.kernels.fronts import Settings
from orbit.kernels.shim.config import Part
from orbit.kernels.workspace import Workspace, network_isolation
from orbit.profile.lock import read_lock

pytestmark = [
    pytest.mark.integration,
    pytest.mark.network,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]
PAIRS = [("compute_90a", "sm_90a"), ("compute_100a", "sm_100a")]
KERNEL = """
#include <cuda_bf16.h>
static __device__ int counter;
namespace { __global__ void hidden(int *a) { atomicAdd(&counter, *a); } }
template <int N> __global__ void shown(float *a, __nv_bfloat16 *b) {
#pragma unroll
  for (int i = 0; i < N; ++i) a[i] = sinf(a[i]) * float(b[i]) + NAME;
}
void run_NAME(float *a) { hidden<<<1, 1>>>(nullptr); shown<16><<<1, 1>>>(a, nullptr); }
"""
FLAGS = ("-O3", "-std=c++17", "-lineinfo", "-Xcompiler", "-fPIC")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    store = tmp_path_factory.mktemp("store")
    yield build_environment("cuda", read_lock(checkout_root() / "uv.lock"), Store(store), Silent()).path / "env"
    shutil.rmtree(store)


class Build:
    """One folder with two units."""

    def __init__(self, root: Path, environment: Path, pairs: list[tuple[str, str]] | None = None, **more: Any) -> None:
        root.mkdir(parents=True)
        self.space = Workspace(root, root / "log")
        self.space.prepare(environment, pairs or PAIRS, Settings(recipe="test", **more))
        self.space.source.mkdir()
        for name in "12":
            (self.space.source / f"{name}.cu").write_text(KERNEL.replace("NAME", name))

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        env = clean_env(self.space.variables(jobs=2, include=(), extra={}))
        words = [os.fspath(word) for word in self.space.command(argv)]
        return subprocess.Popen(
            words,
            cwd=self.space.source,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *argv: str) -> bytes:
        with self.start(*argv) as child:
            out, err = child.communicate()
        assert child.returncode == 0, err.decode()
        return out + err

    def nvcc(self, *words: str) -> bytes:
        return self.run(str(self.space.cuda / "bin" / "nvcc"), *words)

    def compile(self, *more: str) -> dict[str, str]:
        """Both units; digest per object."""
        for name in "12":
            self.nvcc(*FLAGS, *more, "-c", f"{self.space.source}/{name}.cu", "-o", f"{name}.o")
        return {name: digest(self.space.source / f"{name}.o") for name in "12"}

    def lines(self, kind: str) -> list[dict[str, Any]]:
        text = self.space.units.read_text() if self.space.units.exists() else ""
        return [line for line in map(json.loads, text.splitlines()) if line.get("kind") == kind]

    def became(self) -> dict[str, Counter[str]]:
        """Step -> how often it was what."""
        found: dict[str, Counter[str]] = {}
        for line in self.lines("step"):
            found.setdefault(line["step"], Counter())[line["cache"]] += 1
        return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


ALL = {"cudafe": 2, "cicc": 4, "ptxas": 4, "host": 2}


@pytest.fixture(scope="module")
def cold(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A unit cache that a whole build filled, and its objects."""
    folder = tmp_path_factory.mktemp("cold")
    build = Build(folder / "build", environment, units=folder / "units")
    objects = build.compile()
    assert build.became() == {step: Counter(miss=count) for step, count in ALL.items()}
    assert all(line["cpu_s"] > 0 and line["peak_bytes"] > 1 << 20 for line in build.lines("step"))
    assert {(line["source"], line["arch"]) for line in build.lines("step") if line["step"] == "ptxas"} == {
        (f"{name}.cu", arch) for name in "12" for _, arch in PAIRS
    }
    return folder / "units", objects


def test_without_a_cache_the_objects_are_the_same(environment: Path, tmp_path: Path, cold: Any) -> None:
    build = Build(tmp_path / "b", environment)
    assert build.compile() == cold[1]
    assert build.became() == {step: Counter(off=count) for step, count in ALL.items()}


def test_another_folder_hits_every_step(environment: Path, tmp_path: Path, cold: Any) -> None:
    build = Build(tmp_path / "in" / "another-place" / "b", environment, units=cold[0])
    assert build.compile() == cold[1]
    assert build.became() == {step: Counter(step=count) for step, count in ALL.items()}
    assert [line["cache"] for line in build.lines("compile")] == ["step", "step"]


def test_a_flag_of_ptxas_changes_ptxas_only(environment: Path, tmp_path: Path, cold: Any) -> None:
    build = Build(tmp_path / "b", environment, units=cold[0])
    build.compile("-Xptxas", "-O1")
    made = build.became()
    assert made["cicc"] == Counter(step=4)
    assert made["cudafe"] == Counter(step=2)
    assert made["ptxas"] == Counter(miss=4)


def test_two_parts_make_a_whole(environment: Path, tmp_path: Path, cold: Any) -> None:
    parts: tuple[Part, ...] = (
        {"archs": ["sm_90a"], "index": 1, "count": 1},
        {"archs": ["sm_100a"], "index": 1, "count": 1},
    )
    for number, part in enumerate(parts):
        build = Build(tmp_path / f"b{number}", environment, units=tmp_path / f"u{number}", wheel_key="w", part=part)
        assert build.compile("-MD", "-MF", "x.d") != cold[1]
        assert (build.space.source / "x.d").read_text().startswith("2.o")
        build.run("g++", "-shared", "-Wl,-z,defs", "1.o", "2.o", "-o", "both.so")
        made = build.became()
        assert made["cicc"] == made["ptxas"] == Counter(miss=2, placeholder=2)
        assert made["host"] == Counter(placeholder=2)
        shutil.copytree(tmp_path / f"u{number}", tmp_path / "merged", dirs_exist_ok=True)
    assert not (tmp_path / "merged" / "object").exists(), "an object with a placeholder was kept"
    whole = Build(tmp_path / "whole", environment, units=tmp_path / "merged", wheel_key="w")
    assert whole.compile("-MD", "-MF", "x.d") == cold[1]
    made = whole.became()
    assert made["cicc"] == made["ptxas"] == Counter(step=4)
    assert made["host"] == made["cudafe"] == Counter(miss=2)
    again = Build(tmp_path / "again", environment, units=tmp_path / "merged", wheel_key="w")
    assert again.compile("-MD", "-MF", "x.d") == cold[1]
    assert [line["cache"] for line in again.lines("compile")] == ["object", "object"]
    assert again.became() == {}


def test_shares_of_units_make_a_whole(environment: Path, tmp_path: Path, cold: Any) -> None:
    for index in (1, 2, 3):
        part: Part = {"archs": [], "index": index, "count": 3}
        Build(tmp_path / f"b{index}", environment, units=tmp_path / "units", part=part).compile()
    whole = Build(tmp_path / "whole", environment, units=tmp_path / "units")
    assert whole.compile() == cold[1]
    assert whole.became()["cicc"] == whole.became()["ptxas"] == Counter(step=4)


def test_killed_at_any_moment_finished_steps_stay_finished(environment: Path, tmp_path: Path, cold: Any) -> None:
    choose = random.Random(4)
    units = tmp_path / "units"
    kept: set[tuple[str, str, str]] = set()
    for attempt in range(6):
        build = Build(tmp_path / f"b{attempt}", environment, units=units)
        words = [str(build.space.cuda / "bin" / "nvcc"), *FLAGS, "-c", f"{build.space.source}/1.cu", "-o", "1.o"]
        with build.start(*words) as child:
            while len(build.lines("step")) < attempt and child.poll() is None:
                time.sleep(0.01)
            time.sleep(choose.uniform(0.0, 0.3))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        steps = build.lines("step")
        done = {(line["step"], line["source"], line["arch"]) for line in steps if line["status"] == 0}
        repeated = {(s["step"], s["source"], s["arch"]) for s in steps if s["cache"] == "miss"} & kept
        assert not repeated, "compiled again though it was finished before"
        kept |= done
    resumed = Build(tmp_path / "resumed", environment, units=units)
    assert resumed.compile() == cold[1]
    first = [line for line in resumed.lines("step") if line["source"] == "1.cu"]
    assert {(s["step"], s["source"], s["arch"]) for s in first if s["cache"] == "miss"}.isdisjoint(kept)
    assert kept, "no attempt got anywhere"
    assert not [
        path for path in units.rglob("*") if path.is_file() and path.suffix != ".tmp" and path.stat().st_size < 80
    ]


def test_every_kind_of_call(environment: Path, tmp_path: Path) -> None:
    build = Build(tmp_path / "b", environment, units=tmp_path / "units")
    source = build.space.source
    (source / "host.cpp").write_text("int host() { return 1; }\n")
    shutil.copyfile(source / "1.cu", source / "1.cpp")
    build.nvcc("-c", "host.cpp", "-o", "host.o")
    build.nvcc("-x", "cu", "-c", "1.cpp", "-o", "as-cuda.o")
    build.nvcc("-dc", "1.cu", "-Xcompiler", "-fPIC", "-o", "1.o")
    build.nvcc("-rdc=true", "-c", "2.cu", "-Xcompiler", "-fPIC", "-o", "2.o")
    build.nvcc("-dlink", "1.o", "2.o", "-Xcompiler", "-fPIC", "-o", "link.o")
    build.nvcc("-shared", "1.o", "2.o", "host.o", "-o", "all.so")
    (source / "flags").write_text("-DFROM_FILE -c 1.cu -o file.o")
    build.nvcc("--options-file", "flags")
    assert b"stdc-predef.h" in build.nvcc("-M", "1.cu")
    steps = Counter((line["step"], line["arch"]) for line in build.lines("step"))
    assert steps["link", "sm_90a"] == steps["link", "sm_100a"] == 2, "nvlink is measured too"
    assert {line["effective"][0] for line in build.lines("compile")} == {"arch=compute_90a,code=sm_90a"}
    one = Build(tmp_path / "one", environment, pairs=PAIRS[:1], units=tmp_path / "units")
    first = [digest(one.space.source / "x") for _ in (1, 2) if one.nvcc("-cubin", "1.cu", "-o", "x") is not None]
    assert first[0] == first[1]
    assert one.became()["cicc"] == Counter(miss=1, step=1)
    one.nvcc("-ptx", "1.cu", "-o", "x.ptx")
    assert ".target sm_90a" in (one.space.source / "x.ptx").read_text()


def test_cmake_can_ask_its_compiler(environment: Path, tmp_path: Path) -> None:
    build = Build(tmp_path / "b", environment, units=tmp_path / "units")
    probe = build.space.source / "build" / "CMakeFiles" / "4.1.2" / "CompilerIdCUDA"
    (probe / "tmp").mkdir(parents=True)
    (probe / "CMakeCUDACompilerId.cu").write_text("int main() { return 0; }\n")
    (build.space.source / "ask").write_text(
        f"cd {probe} && {build.space.cuda}/bin/nvcc -v --keep --keep-dir tmp -gencode=arch=compute_75,code=sm_75 "
        '"CMakeCUDACompilerId.cu" -o a.out && ./a.out\n'
    )
    said = build.run("sh", "ask")
    assert b"#$ LIBRARIES=" in said
    assert b"#$ _CUDART_=cudart" in said
    assert [line["kind"] for line in map(json.loads, build.space.units.read_text().splitlines())][-1] == "probe"
    assert not (tmp_path / "units").exists()


def test_a_build_has_no_network(environment: Path, tmp_path: Path) -> None:
    if not network_isolation():
        pytest.skip("this machine allows no network namespaces")
    build = Build(tmp_path / "b", environment)
    program = "import os, socket; print(os.listdir('/sys/class/net')); socket.create_connection(('192.0.2.1', 80), 2)"
    with build.start("python", "-c", program) as child:
        _, err = child.communicate()
    assert child.returncode == 1
    assert b"Network is unreachable" in err
