"""Whether the image's own CUDA compiler, headers and host compiler build device code for every target, offline."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orbit.core.proc import run
from orbit.smoke.model import CheckError, Context

SOURCE = """
#include <cstdio>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda/std/cstdint>

__global__ void scale(__nv_bfloat16 *out, const __nv_bfloat16 *in, cuda::std::uint32_t count, float by) {
    const cuda::std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = __float2bfloat16(__bfloat162float(in[i]) * by);
}

extern "C" int launch(__nv_bfloat16 *out, const __nv_bfloat16 *in, unsigned count, float by) {
    scale<<<(count + 255) / 256, 256>>>(out, in, count, by);
    return static_cast<int>(cudaGetLastError());
}
"""
"""Uses the runtime, the bf16 header and CCCL, so that an image without one of them fails here and not in a job."""


def check_compiler(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``nvcc`` is of the profile's release, compiles and links a library, and it holds one cubin per target."""
    del parameters
    home = Path(os.environ.get("CUDA_HOME") or Path(context.prefix or sys.prefix) / "cuda")
    nvcc = home / "bin" / "nvcc"
    if not nvcc.is_file():
        raise CheckError(f"{nvcc}: no such file (CUDA_HOME is {os.environ.get('CUDA_HOME', 'not set')})")
    release = _release(nvcc)
    if context.cuda and release != context.cuda:
        raise CheckError(f"{nvcc} is of CUDA {release}, the profile's release is {context.cuda}")
    wanted = sorted(target.feature for target in context.targets)
    if not wanted:
        raise CheckError("the profile names no target to compile for")
    with tempfile.TemporaryDirectory(prefix="nvcc-") as name:
        library = Path(name) / "smoke.so"
        _compile(nvcc, wanted, library)
        found = list_cubins(home, library)
    if found != wanted:
        raise CheckError(f"compiled for {', '.join(wanted)}, the library holds {', '.join(found) or 'no cubin'}")
    return {"summary": f"nvcc {release} made {' and '.join(found)}", "cubins": found, "release": release}


def list_cubins(home: Path, library: Path) -> list[str]:
    """Architectures of the cubins in ``library`` by ``cuobjdump --list-elf``, sorted, each once.

    Linking a shared library adds an empty cubin per architecture to the compiled one.
    """
    listed = run(
        [home / "bin" / "cuobjdump", "--list-elf", library], doing="listing cubins", env=dict(os.environ)
    ).stdout.decode(errors="replace")
    return sorted(set(re.findall(r"\.(sm_\d+[af]?)\.cubin", listed)))


def _release(nvcc: Path) -> str:
    text = run([nvcc, "--version"], doing="asking nvcc for its version", env=dict(os.environ)).stdout.decode()
    found = re.search(r"release (\d+\.\d+)", text)
    if found is None:
        raise CheckError(f"{nvcc} --version names no release: {text[:200]!r}")
    return found.group(1)


def _compile(nvcc: Path, features: list[str], library: Path) -> None:
    source = library.with_suffix(".cu")
    source.write_text(SOURCE)
    codes = [f"-gencode=arch=compute_{name[3:]},code={name}" for name in features]
    done = run(
        [nvcc, "-std=c++17", "-O2", *codes, "-shared", "-Xcompiler", "-fPIC", "-o", library, source],
        doing="compiling a kernel",
        env=dict(os.environ),
        check=False,
    )
    text = (done.stdout + done.stderr).decode(errors="replace").strip()
    if done.returncode != 0:
        print(text)
        raise CheckError(f"nvcc ended with status {done.returncode}: {' '.join(text.splitlines()[-1:])}")
