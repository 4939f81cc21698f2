"""Symptoms of images and wheels: libraries and loaders, variables, caches, users, what is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orbit.audit.rules import RULES
from orbit.core.findings import Finding
from tests.audit.field.symptoms import Case, Judge, check
from tests.audit.rooted import SITE, judge_root, write_root
from tests.audit.rules.settings.rootfs import DEVICE_CODE, PREFIX, Rootfs, judge_image
from tests.audit.support import judge, judge_wheels, make_policy
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.wheels import write_wheel

ROOT_HOME = "/root"
STATE = "/var/local/state/b9d49c4575ea"
PLACES: dict[str, str | None] = {"CUDA_CACHE_PATH": f"{STATE}/driver", "TRITON_CACHE_DIR": f"{STATE}/triton"}
CUDNN = "nvidia/cudnn/lib"


def image(rule: str, change: Callable[[Rootfs], object] = lambda _rootfs: None, **variables: str | None) -> Judge:
    """Findings about a sound image with Triton in it, changed and with further variables."""

    def run(folder: Path) -> list[Finding]:
        rootfs = Rootfs(folder)
        rootfs.env.add("ext", {"ext/_c.so": DEVICE_CODE})
        rootfs.env.add("triton", {"triton/__init__.py": b""})
        change(rootfs)
        return judge_image(RULES[rule], rootfs, PLACES | variables)

    return run


def configured(rule: str, change: Callable[[Rootfs], object] = lambda _rootfs: None, **config: object) -> Judge:
    """Findings about a sound image with another configuration."""

    def run(folder: Path) -> list[Finding]:
        rootfs = Rootfs(folder)
        change(rootfs)
        return judge_image(RULES[rule], rootfs, policy=make_policy(), **config)

    return run


def rooted(rule: str, files: Mapping[str, bytes], links: Mapping[str, str] | None = None, **variables: str) -> Judge:
    """Findings about a root file system."""
    return lambda folder: judge_root(write_root(folder, files, links), rule, **variables)


def libraries(rule: str, files: Mapping[str, bytes]) -> Judge:
    """Findings about an environment with one distribution of libraries."""

    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder)
        env.add("libraries", files)
        return judge(env.prefix, rule)

    return run


def wheel(rule: str, version: str, tag: str) -> Judge:
    """Findings about a wheel that needs a version of glibc."""

    def run(folder: Path) -> list[Finding]:
        data = write_elf(needed=["libc.so.6"], imports=[Import("f", version, "libc.so.6")])
        return judge_wheels(write_wheel(folder, "router", {"router/_c.abi3.so": data}, tags=[tag]), rule)

    return run


def glibc(version: str) -> Judge:
    """Findings about an installed library that needs a version of glibc, in an image with Debian 12's."""
    libc = write_elf(soname="libc.so.6", exports=[Export("f", "GLIBC_2.34"), Export("g", "GLIBC_2.36")])
    user = write_elf(needed=["libc.so.6"], imports=[Import("f", version, "libc.so.6")])
    return rooted("symbol-version", {"usr/lib/x86_64-linux-gnu/libc.so.6": libc, f"{SITE}/router/_c.abi3.so": user})


def cudnn(part: str) -> bytes:
    return write_elf(soname=f"libcudnn{part}.so.9", runpath="$ORIGIN")


def script(text: str, name: str = "entrypoint.sh") -> Judge:
    """Findings about an image that starts a script."""
    path = f"{PREFIX}/bin/{name}"
    return configured(
        "image-user", lambda rootfs: rootfs.write(path, text.encode(), 0o755), entrypoint=(f"/{path}",), command=()
    )


def plain_entry(rootfs: Rootfs) -> None:
    """An entry point that leaves HOME as it is."""
    rootfs.write(f"{PREFIX}/bin/start-entrypoint", b'#!/bin/sh\nexec "$@"\n', 0o755)


def closed_root(*, open_: bool) -> Judge:
    """An interpreter below root's home."""

    def change(rootfs: Rootfs) -> None:
        rootfs.write("root/.local/python/bin/python3.12", write_elf(needed=["libc.so.6"]), 0o755)
        for folder in ("root", "root/.local", "root/.local/python", "root/.local/python/bin"):
            rootfs.folder(folder, 0o755 if open_ else 0o700)
        (rootfs.env.prefix / "bin").mkdir(exist_ok=True)
        (rootfs.env.prefix / "bin/python3").symlink_to(f"{ROOT_HOME}/.local/python/bin/python3.12")

    return image("unreadable", change)


def python_link(target: str) -> Judge:
    def change(rootfs: Rootfs) -> None:
        rootfs.write("usr/bin/python3.12", write_elf(needed=["libc.so.6"]), 0o755)
        (rootfs.env.prefix / "bin/python3").symlink_to(target)

    return image("interpreter-link", change)


def deep_gemm(rootfs: Rootfs) -> None:
    headers = ("cutlass/cutlass.h", "deep_gemm/common/types.hpp")
    rootfs.env.add("deep-gemm", {f"deep_gemm/include/{name}": b"" for name in headers}, version="1.5")
    rootfs.write("usr/bin/g++", write_elf(needed=["libc.so.6"]), 0o755)


def toolkit(rootfs: Rootfs) -> None:
    note = b"Cuda compilation tools, release 13.0, V13.0.88\0"
    for name in ("nvcc", "ptxas", "fatbinary", "nvlink", "cudafe++"):
        rootfs.write(f"opt/cuda/bin/{name}", write_elf(needed=["libc.so.6"], sections=[(".rodata", note)]), 0o755)
    rootfs.write("opt/cuda/nvvm/bin/cicc", write_elf(needed=["libc.so.6"], sections=[(".rodata", note)]), 0o755)
    for name in ("cuda_runtime.h", "crt/host_config.h"):
        rootfs.write(f"opt/cuda/include/{name}", b"")


def compiling(**variables: str) -> Judge:
    """Findings about an image that has DeepGEMM and a toolkit, whose place only a variable tells."""

    def run(folder: Path) -> list[Finding]:
        rootfs = Rootfs(folder)
        deep_gemm(rootfs)
        toolkit(rootfs)
        return judge_image(RULES["jit-toolchain"], rootfs, variables)

    return run


def cached(path: str) -> Callable[[Rootfs], object]:
    return lambda rootfs: rootfs.write(path, write_elf(needed=["libcudart.so.12"]))


Z3_USER = {"tilelang/lib/libtvm.so": write_elf(needed=["libz3.so.4.15"], runpath="$ORIGIN")}
Z3 = {"z3/lib/libz3.so.4.15": write_elf(soname="libz3.so.4.15")}
WHOLE = {f"{SITE}/{CUDNN}/libcudnn{part}.so.9": cudnn(part) for part in ("", "_ops", "_graph", "_adv")}
OTHER_CUDNN = {"opt/cudnn/libcudnn_graph.so.9": cudnn("_graph")}
COMPAT = {"usr/local/cuda/compat/libcuda.so.1": write_elf(soname="libcuda.so.1")}
CUDART_USER = {"ext/_c.so": write_elf(needed=["libcudart.so.13"])}
CUDART = {"nvidia/cu13/lib/libcudart.so.13": write_elf(soname="libcudart.so.13")}
TAG, NEW_TAG = "cp38-abi3-manylinux_2_28_x86_64", "cp38-abi3-manylinux_2_39_x86_64"

CASES = [
    Case("20", "needs-library", libraries("needs-library", CUDART_USER),
         libraries("needs-library", CUDART_USER | CUDART), "libcudart.so.13"),
    Case("40", "needs-library", libraries("needs-library", Z3_USER), libraries("needs-library", Z3_USER | Z3),
         "libz3.so.4.15"),
    Case("39", "library-mix",
         rooted("library-mix", WHOLE | OTHER_CUDNN, LD_LIBRARY_PATH="/opt/cudnn"),
         rooted("library-mix", WHOLE, LD_LIBRARY_PATH=f"/{SITE}/{CUDNN}"), "opt/cudnn/libcudnn_graph.so.9"),
    Case("42", "companion-library",
         libraries("companion-library", {f"{CUDNN}/libcudnn.so.9": cudnn("")}),
         libraries("companion-library",
                   {f"{CUDNN}/libcudnn{part}.so.9": cudnn(part) for part in ("", "_graph", "_ops", "_cnn", "_adv",
                    "_engines_precompiled", "_engines_runtime_compiled", "_heuristic")}),
         "libcudnn_graph.so.9"),
    Case("43", "wheel-tag", wheel("wheel-tag", "GLIBC_2.38", NEW_TAG), wheel("wheel-tag", "GLIBC_2.28", TAG),
         "manylinux_2_39"),
    Case("43", "symbol-version", glibc("GLIBC_2.38"), glibc("GLIBC_2.34"), "GLIBC_2.38"),
    Case("25", "cache-location", image("cache-location", TRITON_CACHE_DIR="/lustre/group/triton-3.6"),
         image("cache-location", TRITON_CACHE_DIR=f"{STATE}/lustre"), "network file system"),
    Case("32 c8", "cache-location", image("cache-location", TRITON_CACHE_DIR=None), image("cache-location"),
         "TRITON_CACHE_DIR"),
    Case("33 c6", "cache-location", image("cache-location", TMPDIR="/scratch/" + "x" * 90),
         image("cache-location", TMPDIR="/tmp"), "TMPDIR"),
    Case("c5", "cache-location", image("cache-location", TRITON_CACHE_DIR="/tmp/triton"),
         image("cache-location", TRITON_CACHE_DIR=f"{STATE}/tmp"), "/tmp"),
    Case("37", "jit-toolchain", compiling(), compiling(CUDA_HOME="/opt/cuda"), "CUDA_HOME"),
    Case("37", "variable-conflict", image("variable-conflict", toolkit, CUDA_HOME="/usr/local/cuda-13.2"),
         image("variable-conflict", toolkit, CUDA_HOME="/opt/cuda"), "CUDA_HOME"),
    Case("47", "shipped-cache", image("shipped-cache", cached("root/.cache/flashinfer/cached_ops/norm/norm.so")),
         image("shipped-cache", cached("root/.cache/flashinfer/0.6.14/90a_100a/cached_ops/norm/norm.so")),
         "flashinfer"),
    Case("66", "baked-variable", image("baked-variable", http_proxy="http://proxy:3128"),
         image("baked-variable", no_proxy="localhost,127.0.0.1"), "proxy"),
    Case("c10", "baked-variable", image("baked-variable", CUDA_VISIBLE_DEVICES="0,1"),
         image("baked-variable", CUDA_DEVICE_ORDER="PCI_BUS_ID"), "CUDA_VISIBLE_DEVICES"),
    Case("c12", "baked-variable", image("baked-variable", NVIDIA_DISABLE_REQUIRE="1"),
         image("baked-variable", NVIDIA_REQUIRE_CUDA="cuda>=13.0"), "NVIDIA_DISABLE_REQUIRE"),
    Case("c14", "baked-variable", image("baked-variable", NCCL_SOCKET_IFNAME="eth0"),
         image("baked-variable", NCCL_SOCKET_NTHREADS="4"), "NCCL_SOCKET_IFNAME"),
    Case("c17", "baked-variable", image("baked-variable", RAY_ADDRESS="10.0.0.1:6379"),
         image("baked-variable", RAY_DEDUP_LOGS="0"), "RAY_ADDRESS"),
    Case("c12", "compat-libcuda",
         rooted("compat-libcuda", COMPAT, LD_LIBRARY_PATH="/usr/local/cuda/compat:/usr/lib"),
         rooted("compat-libcuda", COMPAT, LD_LIBRARY_PATH="/usr/lib"), "compat"),
    Case("c7", "image-user", configured("image-user", user="12345"), configured("image-user", user="1000"), "12345"),
    Case("c8", "image-user",
         image("image-user", plain_entry, HOME="/nonexistent"),
         image("image-user", HOME="/home/ann"), "/nonexistent"),
    Case("c9", "interpreter-link", python_link(f"{ROOT_HOME}/.local/python/bin/python3.12"),
         python_link("/usr/bin/python3.12"), "root"),
    Case("c9", "unreadable", closed_root(open_=False), closed_root(open_=True), "root"),
    Case("c10", "image-user", configured("image-user", entrypoint=("/opt/gone/start",)),
         configured("image-user", entrypoint=(), command=("/usr/bin/env", "python3")), "/opt/gone/start"),
    Case("c20", "image-user", script('#!/bin/sh\nset -e\npython3 train.py "$@"\n'),
         script('#!/bin/sh\nset -e\nmkdir -p "$HOME"\nexec python3 train.py "$@"\n'), "passes no signal on"),
    Case("c20", "image-user", script("#!/bin/sh\n# exec happens elsewhere\nexec 2>&1\npython3 train.py\n"),
         script("#!/bin/sh\ntrap 'kill -TERM $child' TERM\npython3 train.py &\nchild=$!\nwait\n"),
         "passes no signal on"),
    Case("c20", "image-user", configured("image-user", entrypoint=("/bin/sh", "-c", "cd /opt && python3 train.py")),
         configured("image-user", entrypoint=("/bin/sh", "-c", "python3 train.py")), "its shell"),
    Case("c20", "image-user", configured("image-user", entrypoint=(), command=("/bin/sh", "-ec", "-c", "a; b")),
         configured("image-user", entrypoint=("/bin/sh", "-c", "cd /opt && exec python3 train.py")), "its shell"),
    Case("c24", "image-user", configured("image-user", working_dir="/workspace"),
         configured("image-user", working_dir="/tmp"), "/workspace"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.numbers}-{case.rule}")
def test_seen_and_not_seen_where_it_is_not(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
