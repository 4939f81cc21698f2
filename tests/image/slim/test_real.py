"""Slimming the libraries of a real environment: every byte that stays is compared, and the loader opens the result."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.audit.binary.coverage import results_of
from orbit.audit.binary.elf import open_elf
from orbit.audit.binary.fatbin import EMBEDDED, SECTIONS, read_containers
from orbit.image.slim.elf import Tables, offset_of, read_tables
from orbit.image.slim.facts import FilePlan
from orbit.image.slim.plan import NOTHING, apply_plan, plan_file
from orbit.profile.model import SlimPolicy
from tests.audit.real import site_packages
from tests.image.slim.world import TARGETS

pytestmark = pytest.mark.integration

BLOCK = 1 << 20
CHANGED = {"holes": set[str](), "shrink": {".rela.dyn", ".nvFatBinSegment", ".symtab"}}
"""Sections outside of the device code in which a byte may differ."""
LIBRARIES = [
    # (path relative to site-packages, entries that go, layout)
    ("sgl_kernel/sm90/common_ops.abi3.so", 204, "shrink"),
    ("sgl_kernel/sm100/common_ops.abi3.so", 204, "shrink"),
    ("sgl_kernel/flashmla_ops.abi3.so", 25, "shrink"),
    ("torch/lib/libtorch_cuda_linalg.so", 297, "shrink"),
    ("nvidia/nccl/lib/libnccl.so.2", 556, "shrink"),
    ("nvidia/cu13/lib/libcusolver.so.12", 1575, "holes"),
    ("nvidia/cudnn/lib/libcudnn_ops.so.9", 88, "shrink"),
]


SLIMMED = ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so")


def real(name: str) -> Path:
    path = site_packages() / name
    if not path.is_file():
        pytest.skip(f"{name} is not in that environment")
    return path


def planned(path: Path, name: str, layout: str) -> FilePlan:
    policy = SlimPolicy(unproved=True, licensed=True, layout="holes" if layout == "holes" else "shrink")
    return plan_file(path, TARGETS, policy=policy, name=name)


def tables_of(path: Path) -> Tables:
    with open_elf(path) as elf:
        return read_tables(elf)


def differing_sections(old: Path, new: Path) -> Iterator[str]:
    """Sections outside of the device code whose bytes differ, at their virtual address or else in their place."""
    before, after = tables_of(old), tables_of(new)
    with old.open("rb") as one, new.open("rb") as other:
        for section, moved in zip(before.sections, after.sections, strict=True):
            if not section.stored or section.name in (*SECTIONS, *EMBEDDED):
                continue
            assert moved._replace(offset=0) == section._replace(offset=0)
            if section.flags & 2:  # SHF_ALLOC
                assert offset_of(after, section.address, section.stored) == moved.offset
            for at in range(0, section.stored, BLOCK):
                size = min(BLOCK, section.stored - at)
                if os.pread(one.fileno(), size, section.offset + at) != os.pread(
                    other.fileno(), size, moved.offset + at
                ):
                    yield section.name
                    break


@pytest.mark.parametrize("layout", ["holes", "shrink"])
@pytest.mark.parametrize(("name", "removed", "best"), LIBRARIES)
def test_a_library_keeps_all_but_the_entries_that_go(
    tmp_path: Path, name: str, removed: int, best: str, layout: str
) -> None:
    path, out = real(name), tmp_path / "slim.so"
    plan = planned(path, name, layout)
    assert plan.layout == (best if layout == "shrink" else "holes")
    assert plan.removed_entries == removed
    done = apply_plan(plan, path, out)
    assert done.size == plan.new_size
    assert set(differing_sections(path, out)) <= CHANGED[plan.layout]
    before, after = read_containers(path), read_containers(out)
    for target in TARGETS:
        assert results_of(before, target.capability) == results_of(after, target.capability)
    with path.open("rb") as one, out.open("rb") as other:
        for box, old, new in zip(plan.containers, before, after, strict=True):
            kept = [image for image, entry in zip(old.images, box.entries, strict=True) if entry.keep]
            assert [image.arch for image in kept] == [image.arch for image in new.images]
            for image, moved in zip(kept, new.images, strict=True):
                payload = os.pread(one.fileno(), image.size, image.offset)
                assert payload == os.pread(other.fileno(), moved.size, moved.offset)
    assert planned(out, name, layout).why_not == NOTHING


@pytest.mark.parametrize("name", ["sgl_kernel/flashmla_ops.abi3.so", "torch/lib/libtorch_cuda_linalg.so"])
def test_cuobjdump_lists_what_stays(tmp_path: Path, name: str) -> None:
    tool = site_packages() / "nvidia/cu13/bin/cuobjdump"
    if not tool.is_file():
        pytest.skip("nvidia-cuda-cuobjdump is not in that environment")
    path = real(name)
    plan = planned(path, name, "shrink")
    apply_plan(plan, path, tmp_path / "slim.so")
    done = subprocess.run([tool, "--list-elf", tmp_path / "slim.so"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    listed = sorted(line.rpartition(".cubin")[0].rpartition(".")[2] for line in done.stdout.splitlines() if line)
    kept = [entry.arch for box in plan.containers for entry in box.entries if entry.keep]
    assert listed == sorted(kept)


def test_torch_imports_with_slimmed_libraries(tmp_path: Path) -> None:
    """The dynamic loader of this machine maps them, applies their relocations, and their host code runs."""
    site = site_packages()
    real("torch/lib/libtorch_cuda.so")
    for other in site.iterdir():  # the loader takes $ORIGIN from the path it was given: links will do
        if other.name != "torch":
            (tmp_path / other.name).symlink_to(other)
    shutil.copytree(site / "torch", tmp_path / "torch", copy_function=os.symlink, symlinks=True)
    for name in SLIMMED:
        (tmp_path / "torch" / "lib" / name).unlink()
        plan = planned(site / "torch" / "lib" / name, f"torch/lib/{name}", "shrink")
        assert plan.layout == "shrink"
        apply_plan(plan, site / "torch" / "lib" / name, tmp_path / "torch" / "lib" / name)
    code = (
        "import ctypes, torch; ctypes.CDLL(torch.__path__[0] + '/lib/libtorch_cuda_linalg.so'); "
        "torch.linalg.inv(torch.eye(3)); print(torch.backends.cudnn.version()); print(open('/proc/self/maps').read())"
    )
    env = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-s", "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    mapped = {line.split()[-1] for line in done.stdout.splitlines() if "libtorch_cuda" in line}
    assert {str(tmp_path / "torch" / "lib" / name) for name in SLIMMED[:2]} <= mapped
