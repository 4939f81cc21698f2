"""The locked stack: our kernels are cuobjdump's and nvdisasm's, and no depth rule raises a false alarm."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from orbit.audit.binary.cubin import read_cubin
from orbit.audit.binary.fatbin import Image, read_containers
from orbit.audit.binary.payload import unpack
from orbit.audit.binary.sass import BPT, BRA, CALL, PURE
from orbit.audit.deep.depth import open_below, read_depth
from orbit.audit.facts import SharedObject
from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import load_policy
from orbit.audit.rules.depth import DEPTH
from orbit.core.console import Silent
from orbit.core.proc import run
from orbit.profile.model import load_profile
from tests.audit.depths import library, read
from tests.audit.real import environment, site_packages
from tests.audit.support import make_policy

pytestmark = pytest.mark.integration

GOLDEN = [
    "sgl_kernel/flashmla_ops.abi3.so",
    "torchaudio/lib/torchaudio_prefixctc.abi3.so",
    "torchvision/_C.so",
    "nvidia/cudnn/lib/libcudnn_cnn.so.9",
]
LISTED = re.compile(r"^\s*\w+\s+\w+\s+\w+\s+0x\w*2\s+0x10\s+\w+\s+(\S+)$", re.MULTILINE)
"""A symbol of ``cuobjdump -elf``: index, value, size, info (a function), other (an entry), section, name."""
DISASSEMBLED = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)[^;]*;\s+/\* 0x([0-9a-f]{16}) \*/")


def tool(name: str) -> Path:
    """A program of the CUDA toolkit in the environment."""
    path = site_packages() / "nvidia" / "cu13" / "bin" / name
    if not path.is_file():
        pytest.skip(f"{name} is not in the environment")
    return path


def images(name: str) -> list[Image]:
    path = site_packages() / name
    if not path.is_file():
        pytest.skip(f"{name} is not in the environment")
    return [image for box in read_containers(path) for image in box.images if image.kind == "elf"]


def content(name: str, image: Image) -> bytes:
    with open_below(site_packages(), name) as data:
        payload = data[image.offset : image.offset + image.size]
    return unpack(payload, image.compression, image.uncompressed_size, name)


@pytest.mark.parametrize("name", GOLDEN)
def test_kernels_are_those_of_cuobjdump(name: str) -> None:
    ours = Counter(kernel.name for image in images(name) for kernel in read_cubin(content(name, image), name).kernels)
    text = run([tool("cuobjdump"), "-elf", site_packages() / name], doing="listing symbols", timeout_s=600).stdout
    theirs = Counter(match[1] for match in LISTED.finditer(text.decode()))
    assert sum(ours.values()) > 30
    assert ours == theirs


@pytest.mark.parametrize("name", GOLDEN)
def test_architectures_are_those_of_the_containers(name: str) -> None:
    for image in images(name):
        assert read_cubin(content(name, image), name).arch in (image.arch, f"{image.arch}*")


def test_operations_are_those_of_nvdisasm(tmp_path: Path) -> None:
    """Every operation taken for harmless is called by the name we give it, on every architecture of two files."""
    seen: dict[str, Image] = {}
    names = ("torchvision/_C.so", "sgl_kernel/flashmla_ops.abi3.so")
    for name in names:
        for image in images(name):
            seen.setdefault(f"{image.arch} {name}", image)
    count = 0
    for key, image in seen.items():
        path = tmp_path / "image.cubin"
        path.write_bytes(content(key.partition(" ")[2], image))
        text = run([tool("nvdisasm"), "-hex", "-c", path], doing="disassembling", timeout_s=600).stdout.decode()
        for match in DISASSEMBLED.finditer(text):
            operation = int(match[2], 16) & 0x1FF
            mnemonic = match[1].partition(".")[0]
            if operation in PURE:
                assert mnemonic in PURE[operation].split(), (key, match[0])
            assert (operation == BRA) == (mnemonic == "BRA"), (key, match[0])
            assert operation != BPT or mnemonic == "BPT"
            assert operation != CALL or mnemonic == "CALL"
            count += 1
    assert count > 100_000


def test_no_false_alarm_on_the_locked_stack() -> None:
    profile = load_profile("cu130")
    env = read_environment(environment(), profile, Silent())
    depth = read_depth(env.layout.prefix, env.objects, profile.targets, Silent())
    policy = load_policy(profile)
    assert [finding for module in DEPTH for finding in module.check(env, policy, depth)] == []
    assert len(depth.files) == sum(bool(item.containers) for item in env.objects)
    kernels = {
        kernel for item in depth.files for box in item.containers for i in box.loaded.values() for kernel in i.kernels
    }
    assert len(kernels) > 80_000
    assert depth.unpacked_bytes > 8_000_000_000


def test_without_the_declaration_the_empty_casts_are_found() -> None:
    profile = load_profile("probe")
    name = "transformer_engine/wheel_lib/libtransformer_engine.so"
    env = read_environment(environment(), profile, Silent())
    objects: list[SharedObject] = [item for item in env.objects if env.in_site(item.path) == name]
    depth = read_depth(env.layout.prefix, objects, profile.targets, Silent())
    findings = [finding for module in DEPTH for finding in module.check(env, load_policy(profile), depth)]
    assert [(finding.rule, finding.message.split()[0]) for finding in findings] == [("kernel-stub", "378")]


SOURCE = r"""
#include <cassert>
#include <cstdio>
__global__ void adds(float* p) { p[threadIdx.x] += 1; }
__device__ __noinline__ void helper(float* p, int n) { for (int i = 0; i < n; i++) p[i] = i; }
__global__ void calls(float* p, int n) { helper(p, n); }
__global__ void blackwell_only(float* p) {
#if __CUDA_ARCH__ >= 1000
  p[threadIdx.x] += 2;
#endif
}
__global__ void wgmma_sm90(float* p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  p[threadIdx.x] += 3;
#else
  if (threadIdx.x == 0) printf("ERROR : Arch conditional MMA instruction used without targeting sm90a. Aborting.\n");
#endif
}
#if __CUDA_ARCH__ >= 1000
#define HOPPER_ONLY(other) other
#else
#define HOPPER_ONLY(other) p[threadIdx.x] += 4;
#endif
__global__ void asserts(float* p) { HOPPER_ONLY(assert(false && "not for this device");) }
__global__ void traps(float* p) { HOPPER_ONLY(__trap();) }
#if __CUDA_ARCH__ != 1000
__global__ void gone(float* p) { p[0] = 5; }
#endif
"""


@pytest.mark.parametrize("options", [(), ("-rdc=true",), ("-lineinfo", "-O1")], ids=["plain", "rdc", "lineinfo"])
def test_what_the_compiler_makes_of_each_mistake(tmp_path: Path, options: tuple[str, ...]) -> None:
    """One source with one mistake of each kind, compiled for 90 where 90a is needed, and once for both as it should."""
    (tmp_path / "k.cu").write_text(SOURCE)

    def findings(*archs: str) -> set[tuple[str, str, str]]:
        pairs = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
        out = tmp_path / f"{'_'.join(archs)}.fatbin"
        argv = [tool("nvcc"), "-fatbin", *options, *pairs, tmp_path / "k.cu", "-o", out]
        run(argv, doing="compiling a fatbin", timeout_s=600)
        prefix = library(tmp_path / out.stem, out.read_bytes())
        policy = make_policy()
        env, depth = read(prefix, policy)
        found = [finding for module in DEPTH for finding in module.check(env, policy, depth)]
        return {(finding.rule, finding.evidence["target"], finding.evidence["kernels"]) for finding in found}

    always = {
        ("kernel-missing", "b200", "gone"),
        ("kernel-stub", "h100", "blackwell_only"),
        ("kernel-stub", "b200", "asserts"),
        ("kernel-stub", "b200", "traps"),
    }
    assert findings("90a", "100a") == always
    assert findings("90", "100a") == always | {("arch-guard", "h100", "wgmma_sm90")}
