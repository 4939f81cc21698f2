"""What the name of DeepGEMM's cache entries depends on: asked of the locked package itself, without a GPU.

``deep_gemm_key.cpp`` makes the package's own compiler object and lets it build with a stand-in for nvcc. The name of
the folder that appears is compared with a model of the key, and changed inputs with what the recipe says of it.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orbit.core.proc import run
from orbit.kernels.prebuilt.generated import flags_for
from orbit.kernels.recipe import load_recipe
from tests.audit.real import environment, site_packages
from tests.kernels.prebuilt.made import program

pytestmark = pytest.mark.integration

SOURCE = "\n#include <deep_gemm/impls/sm90_bf16_gemm.cuh>\nint x;\n"
INCLUDE = re.compile(r"#include <(deep_gemm[^>]*)>")
ASK = """
import ctypes, glob, sys
import torch
folder, root, cuda, source = sys.argv[1:]
ctypes.CDLL(glob.glob(f"{root}/../tvm_ffi/lib/libtvm_ffi.so")[0], mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL(f"{folder}/libkey.so").ask(root.encode(), cuda.encode(), source.encode())
"""


@dataclass(frozen=True)
class Question:
    """Inputs of a name."""

    root: Path
    """The package's folder."""
    capability: str = "9.0"
    nvcc: str = "13.0, V13.0.88"
    source: str = SOURCE


@dataclass(frozen=True)
class Answer:
    headers: str
    compiler: str
    flags: str
    entry: str
    """Name of the folder in the cache."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that asks and the device that is not there."""
    folder = tmp_path_factory.mktemp("key")
    source, site = Path(__file__).with_name("deep_gemm_key.cpp"), site_packages()
    common: list[str | Path] = ["g++", "-std=c++17", "-shared", "-fPIC", source]
    cuda = site / "nvidia" / "cu13" / "include"
    run([*common, "-DDEVICE", f"-I{cuda}", "-o", folder / "libdevice.so"], doing="build the device that is not there")
    package = site / "deep_gemm" / "_C.so"
    run([*common, "-Wl,--no-as-needed", package, "-o", folder / "libkey.so"], doing="build what asks")
    return folder


def ask(built: Path, work: Path, question: Question) -> Answer:
    work.mkdir()
    nvcc = program(
        work / "nvcc",
        f'[ "$1" = --version ] && {{ echo "Cuda compilation tools, release {question.nvcc}"; exit 0; }}\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo x > "$2"; shift; done\nexit 0\n',
    )
    source = work / "k.cu"
    source.write_text(question.source)
    shown = run(
        [
            environment() / "bin" / "python3.12",
            "-c",
            ASK,
            built,
            question.root,
            site_packages() / "nvidia/cu13",
            source,
        ],
        doing="ask DeepGEMM",
        env={
            "LD_PRELOAD": str(built / "libdevice.so"),
            "PYTHONPATH": str(site_packages()),
            "FAKE_CAPABILITY": question.capability,
            "DG_JIT_NVCC_COMPILER": str(nvcc),
            "DG_JIT_CACHE_DIR": str(work / "cache"),
            # or it would make a handle and a tensor on the device at once
            "DG_USE_PYTORCH_CUBLASLT_HANDLE": "1",
            "DG_USE_TEMP_CUBLASLT_WORKSPACE": "1",
        },
    )
    headers, compiler, flags, said = shown.stdout.decode().splitlines()
    assert "libcuda.so.1" in said
    (entry,) = (work / "cache" / "cache").iterdir()
    assert (entry / "kernel.cu").read_text() == f"// Includes' hash value: {headers}\n{question.source}"
    return Answer(headers, compiler, flags, entry.name)


def hex_digest(data: bytes) -> str:
    """Two FNV-1a hashes with other starts, each finished by splitmix64."""
    mask = (1 << 64) - 1
    found = ""
    for start in (0xC6A4A7935BD1E995, 0x9E3779B97F4A7C15):
        state = start
        for byte in data:
            state = (state ^ byte) * 0x100000001B3 & mask
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
        found += f"{state ^ state >> 31:016x}"
    return found


def header_hash(root: Path, code: str, known: dict[str, str]) -> str:
    """Over the content of the deep_gemm headers that ``code`` includes, through all levels."""
    total = ""
    for name in INCLUDE.findall(code):
        if name not in known:
            inner = (root / "include" / name).read_text()
            known[name] = hex_digest(f"{header_hash_text(root, inner, known)}#{hex_digest(inner.encode())}".encode())
        total += f"{known[name]}$"
    return hex_digest(total.encode())


def header_hash_text(root: Path, code: str, known: dict[str, str]) -> str:
    """The text that is hashed for one header: the hashes of those it includes."""
    header_hash(root, code, known)
    return "".join(f"{known[name]}$" for name in INCLUDE.findall(code))


def model(question: Question, include: Path) -> Answer:
    """The recipe's facts as a function."""
    use = load_recipe("sgl-deep-gemm").jit
    assert use is not None
    arch = "sm_100f" if question.capability == "10.0" else f"sm_{question.capability.replace('.', '')}a"
    flags = " ".join(flags_for(use, include=str(include), arch=arch))
    compiler = f"NVCC{question.nvcc.partition(',')[0]}"
    headers = header_hash(question.root, question.source, {})
    code = f"// Includes' hash value: {headers}\n{question.source}"
    return Answer(
        headers, compiler, flags, f"kernel.probe.{hex_digest(f'probe$${compiler}$${flags}$${code}'.encode())}"
    )


def test_the_name_is_what_the_model_says_and_depends_on_what_the_recipe_says(built: Path, tmp_path: Path) -> None:
    first = Question(site_packages() / "deep_gemm")
    base = ask(built, tmp_path / "base", first)
    assert base == model(first, first.root / "include")
    moved = tmp_path / "moved" / "deep_gemm"
    shutil.copytree(first.root / "include", moved / "include")
    (tmp_path / "moved" / "tvm_ffi").symlink_to(site_packages() / "tvm_ffi")
    keyed = {
        "architecture": replace(first, capability="10.0"),
        "release": replace(first, nvcc="13.1, V13.1.80"),
        "source": replace(first, source=SOURCE.replace("int x", "int y")),
        "folder": replace(first, root=moved),
    }
    names = {base.entry}
    for what, question in keyed.items():
        answer = ask(built, tmp_path / what, question)
        assert answer == model(question, question.root / "include"), what
        assert answer.entry not in names, what
        names.add(answer.entry)
    with open(moved / "include/deep_gemm/common/math.cuh", "a", encoding="utf-8") as header:
        header.write("// another line\n")
    changed = ask(built, tmp_path / "header", replace(first, root=moved))
    assert changed == model(replace(first, root=moved), moved / "include")
    assert changed.entry not in names
    # and what it does not depend on, though the compiler would give something else
    with open(moved / "include/cutlass/cutlass.h", "a", encoding="utf-8") as header:
        header.write("// another line\n")
    patched = replace(first, root=moved, nvcc="13.0, V13.0.48")
    assert ask(built, tmp_path / "unkeyed", patched).entry == changed.entry
