"""orbit.kernels.wheels.run_paths: libraries of other wheels are found, folders of the build machine are not named."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from orbit.audit.binary.dynamic import Dynamic, read_dynamic
from orbit.audit.binary.elf import open_elf
from orbit.audit.models.loader import loader_of
from orbit.errors import CheckFailed
from orbit.kernels.wheels import run_paths
from orbit.kernels.wheels.run_paths import harm, libraries_of, misaligned, plan_run_path, set_run_paths
from tests.audit.real import site_packages
from tests.audit.support import make_policy, read
from tests.kernels.wheels.support import compiled, lay_out
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

SITE = {
    "libcudart.so.13": ("nvidia/cu13/lib",),
    "libnccl.so.2": ("nvidia/nccl/lib",),
    "libtorch.so": ("torch/lib",),
    "libc10.so": ("torch/lib",),
    "libtwo.so": ("a.libs", "b.libs"),
}


def dynamic(*needed: str, runpath: tuple[str, ...] = (), rpath: tuple[str, ...] = ()) -> Dynamic:
    return Dynamic("", needed, rpath, runpath, (), (), ())


@pytest.mark.parametrize(
    ("file", "facts", "result"),
    [
        ("pkg/_c.so", dynamic("libcudart.so.13", "libc10.so", "libtorch.so", "libc.so.6"),
         ("$ORIGIN/../nvidia/cu13/lib", "$ORIGIN/../torch/lib")),
        ("_c.so", dynamic("libcudart.so.13"), ("$ORIGIN/nvidia/cu13/lib",)),
        ("a/b/_c.so", dynamic("libnccl.so.2"), ("$ORIGIN/../../nvidia/nccl/lib",)),
        # what is needed and nothing else; what is there already stays in front, in its order
        ("pkg/_c.so", dynamic("libnccl.so.2", runpath=("$ORIGIN/z", "$ORIGIN")),
         ("$ORIGIN/z", "$ORIGIN", "$ORIGIN/../nvidia/nccl/lib")),
        ("pkg/_c.so", dynamic("libnccl.so.2", runpath=("${ORIGIN}/../nvidia/nccl/lib/",)),
         ("${ORIGIN}/../nvidia/nccl/lib/",)),
        # the build machine's, DT_RPATH, repeated, empty
        ("pkg/_c.so", dynamic("libc.so.6", runpath=("/opt/x", "$ORIGIN", "", "$ORIGIN", "$ORIGINAL")), ("$ORIGIN",)),
        ("pkg/_c.so", dynamic("libnccl.so.2", rpath=("$ORIGIN/y", "/opt/x")),
         ("$ORIGIN/y", "$ORIGIN/../nvidia/nccl/lib")),
        # the wheel's own library, beside it and below
        ("pkg/_c.so", dynamic("libmine.so"), ("$ORIGIN",)),
        ("pkg/sub/_c.so", dynamic("libmine.so"), ("$ORIGIN/..",)),
        ("pkg/_c.so", dynamic("libtop.so"), ("$ORIGIN/..",)),
        # two folders have it: which one is meant is not known
        ("pkg/_c.so", dynamic("libtwo.so"), ()),
        ("pkg/_c.so", dynamic("libtwo.so", runpath=("$ORIGIN/../b.libs",)), ("$ORIGIN/../b.libs",)),
    ],
)  # fmt: skip
def test_the_plan(file: str, facts: Dynamic, result: tuple[str, ...]) -> None:
    plan = plan_run_path(file, facts, {"libmine.so": ("pkg",), "libtop.so": ("",)}, SITE)
    assert plan.result == result
    assert set(plan.result) - set(facts.runpath or facts.rpath) == set(plan.added)
    assert plan.unclear == (("libtwo.so",) if "libtwo.so" in facts.needed and not facts.runpath else ())


def test_what_the_build_environment_has(tmp_path: Path) -> None:
    files = ["nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/stubs/libcuda.so", "torch/lib/libc10.so", "torch/x.py"]
    lay_out(tmp_path, dict.fromkeys(files, b""))
    assert libraries_of(tmp_path) == {"libcudart.so.13": ("nvidia/cu13/lib",), "libc10.so": ("torch/lib",)}


LIBRARIES = {"nvidia/cu13/lib": "libcudart.so.13", "nvidia/nccl/lib": "libnccl.so.2", "torch/lib": "libc10.so"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site-packages with three libraries, each with one function."""
    folder = tmp_path_factory.mktemp("site")
    for number, (where, name) in enumerate(LIBRARIES.items()):
        compiled(folder / where, f"int f{number}(void) {{ return {number + 1}; }}", f"-Wl,-soname,{name}", name=name)
        (folder / where / "a.c").unlink()
    return folder


SOURCE = """
#include <stdio.h>
int f0(void); int f1(void); int f2(void);
int total(void) { puts("x"); return f0() + f1() + f2(); }
"""


def extension(folder: Path, site: Path, *flags: str) -> Path:
    """An unpacked wheel with one module that needs all three libraries."""
    links = [f"{site / where}/{name}" for where, name in LIBRARIES.items()]
    compiled(folder / "thing", SOURCE, *links, *flags, name="_c.so")
    return folder


def test_needs_are_found_in_a_written_environment(site: Path, tmp_path: Path) -> None:
    tree = extension(tmp_path / "tree", site, "-Wl,--disable-new-dtags,-rpath,/opt/build/lib:$ORIGIN/../thing.libs")
    (done,) = set_run_paths(tree, site)
    assert done.file == "thing/_c.so"
    assert done.removed == ("/opt/build/lib",)
    assert done.result == (
        "$ORIGIN/../thing.libs", "$ORIGIN/../nvidia/cu13/lib", "$ORIGIN/../nvidia/nccl/lib", "$ORIGIN/../torch/lib"
    )  # fmt: skip
    with open_elf(tree / "thing/_c.so") as elf:
        facts = read_dynamic(elf)
        assert facts is not None
        assert (facts.runpath, facts.rpath) == (done.result, ())
        assert misaligned(elf) == []
    assert set_run_paths(tree, site) == ()
    env = EnvironmentWriter(tmp_path / "env")
    env.add("thing", {"thing/_c.so": (tree / "thing/_c.so").read_bytes()})
    for where, name in LIBRARIES.items():
        env.add(name.split(".")[0], {f"{where}/{name}": (site / where / name).read_bytes()})
    found = read(env.prefix)
    loader = loader_of(found, make_policy())
    (module,) = (item for item in found.objects if item.path.endswith("_c.so"))
    by_name = dict(loader.needed(module))
    assert {name: by_name[name].how for name in LIBRARIES.values()} == dict.fromkeys(LIBRARIES.values(), "loader")
    assert by_name["libc.so.6"].how == "base"


def test_the_real_loader_finds_them_too(site: Path, tmp_path: Path) -> None:
    tree = extension(tmp_path / "tree", site)
    set_run_paths(tree, site)
    installed = tmp_path / "elsewhere" / "site-packages"
    shutil.copytree(site, installed)
    shutil.copytree(tree, installed, dirs_exist_ok=True)
    program = f"import ctypes; print(ctypes.CDLL({str(installed / 'thing/_c.so')!r}).total())"
    done = subprocess.run(["python3", "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["x", "6"] or done.stdout.split() == ["6", "x"]


@pytest.mark.integration
def test_libraries_of_the_lock_are_found(tmp_path: Path) -> None:
    """Every library of torch and CUDA that kernels are linked with, found by the real loader beside the real wheels."""
    real = site_packages()
    folders = libraries_of(real)
    wanted = ["libc10.so", "libtorch_cpu.so", "libcudart.so.13", "libcublas.so.13", "libcudnn.so.9", "libnccl.so.2"]
    wanted += ["libnvshmem_host.so.3", "libcufile.so.0", "libcusparseLt.so.0"]
    missing = [name for name in wanted if name not in folders]
    if missing:
        pytest.skip(f"ORBIT_TEST_ENV has no {missing[0]}")
    assert [name for name in wanted if len(folders[name]) != 1] == []
    links = [f"{real / folders[name][0]}/{name}" for name in wanted]
    compiled(tmp_path / "tree/thing/sub", "int f;", "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", *links)
    (done,) = set_run_paths(tmp_path / "tree", real)
    assert len(done.added) == 6
    site = tmp_path / "site-packages"
    shutil.copytree(tmp_path / "tree/thing", site / "thing")
    for name in ("nvidia", "torch", "cusparselt"):
        if (real / name).exists():
            (site / name).symlink_to(real / name)
    done_ = subprocess.run(["ldd", site / "thing/sub/a.so"], capture_output=True, text=True, check=True)
    found = {line.split()[0]: line.split("=>")[1].split()[0] for line in done_.stdout.splitlines() if "=>" in line}
    assert {name for name in wanted if not found[name].startswith(str(site))} == set()


def test_the_same_input_gives_the_same_bytes_and_grows_little(site: Path, tmp_path: Path) -> None:
    one, two = (extension(tmp_path / name, site) for name in ("one", "two"))
    assert (one / "thing/_c.so").read_bytes() == (two / "thing/_c.so").read_bytes()
    (first,), (second,) = set_run_paths(one, site), set_run_paths(two, site)
    assert first == second
    assert (one / "thing/_c.so").read_bytes() == (two / "thing/_c.so").read_bytes()
    assert 0 < first.grown_bytes < 20_000
    assert sorted(path.name for path in (one / "thing").iterdir()) == ["_c.so", "a.c"]


def test_nothing_is_left_of_a_path_that_named_the_build_machine_only(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    compiled(tree / "thing", "int f(void) { return 1; }", "-Wl,-rpath,/opt/build/lib")
    (done,) = set_run_paths(tree, tmp_path / "none")
    assert (done.removed, done.added, done.result) == (("/opt/build/lib",), (), ())
    assert b"/opt/build" not in (tree / "thing/a.so").read_bytes()


def test_damage_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fatbin = write_section(write_container("sm_90a", "sm_100a"))
    sound = {"needed": ["libc.so.6"], "runpath": "$ORIGIN", "sections": [(".nv_fatbin", fatbin)]}
    variants = {
        "its run path": {**sound, "runpath": "/opt"},
        "its needed differs": {**sound, "needed": []},
        "its device code differs": {**sound, "sections": [(".nv_fatbin", fatbin.replace(b"codecode", b"codefake"))]},
    }
    before = tmp_path / "before.so"
    before.write_bytes(write_elf(**sound))  # type: ignore[arg-type]
    assert harm(before, before, ["$ORIGIN"]) == ()
    for says, parts in variants.items():
        (tmp_path / "after.so").write_bytes(write_elf(**parts))  # type: ignore[arg-type]
        assert any(says in line for line in harm(before, tmp_path / "after.so", ["$ORIGIN"])), says
    data = bytearray(before.read_bytes())
    at = struct.unpack_from("<Q", data, 32)[0]
    struct.pack_into(
        "<Q", data, at + 16, struct.unpack_from("<Q", data, at + 16)[0] + 8
    )  # p_vaddr of the first segment
    (tmp_path / "after.so").write_bytes(data)
    with open_elf(tmp_path / "after.so") as elf:
        assert "is not aligned" in misaligned(elf)[0]
    tree = tmp_path / "tree"
    compiled(tree / "thing", "int f(void) { return 1; }", "-Wl,-rpath,/opt/build/lib")
    monkeypatch.setattr(run_paths, "harm", lambda *_args: ("its symbols differ",))
    with pytest.raises(CheckFailed, match="its symbols differ"):
        set_run_paths(tree, tmp_path / "none")
