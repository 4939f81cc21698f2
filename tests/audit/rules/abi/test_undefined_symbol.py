"""undefined-symbol: families of symbols against the product that alone defines them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.rules.abi.undefined_symbol import is_old_string
from tests.audit.support import judge
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter

RULE = "undefined-symbol"
NEW = "_ZN3c104cuda9SetDeviceEab"
OLD = "_ZN3c104cuda9SetDeviceEa"
STRING = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    env = EnvironmentWriter(tmp_path / "e")
    exports = [Export(NEW), Export(STRING), Export("_ZN2at4addE"), Export("_ZTIN3c105ErrorE")]
    files = {
        "torch/lib/libc10.so": write_elf(soname="libc10.so", exports=exports),
        "torch/lib/libtorch.so": write_elf(soname="libtorch.so", needed=["libc10.so"]),
    }
    env.add("torch", files, version="2.11.0")
    return env


def extension(*names: str, needed: tuple[str, ...] = ("libtorch.so",), weak: bool = False, **parts: object) -> bytes:
    imports = [Import(name, weak=weak) for name in names]
    return write_elf(needed=needed, imports=imports, **parts)  # type: ignore[arg-type]


def test_symbol_that_this_torch_does_not_have(env: EnvironmentWriter) -> None:
    env.add("flash-attn", {"flash_attn_2_cuda.so": extension(OLD, "_ZN2at4addE")}, version="2.8.3")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal) == ("flash_attn_2_cuda.so", True)
    assert finding.message.startswith("wants 1 symbol of torch 2.11.0 that it does not define")
    assert finding.evidence["symbols"] == OLD
    assert finding.evidence["distribution"] == "flash-attn 2.8.3"


@pytest.mark.parametrize(
    "data",
    [
        extension(NEW, STRING, "_ZN2at4addE", "_ZTIN3c105ErrorE"),
        extension(OLD, weak=True),
        extension("_ZN3foo3barE", "_ZN4c10x3barE", "_ZN6caffe23barE", "malloc", "PyErr_Format"),
        extension(OLD, machine=183),
    ],
)
def test_what_is_not_a_finding(env: EnvironmentWriter, data: bytes) -> None:
    """Defined, weak, of another family, of another machine."""
    env.add("user", {"user/_c.so": data})
    assert judge(env.prefix, RULE) == []


def test_file_that_relies_on_torch_being_loaded_already(env: EnvironmentWriter) -> None:
    env.add("user", {"user/_c.so": extension(OLD, needed=("libc.so.6",))})
    assert len(judge(env.prefix, RULE)) == 1


def test_symbol_of_the_file_s_own_libraries(env: EnvironmentWriter) -> None:
    """tilelang defines CUDA functions itself, in a library that it needs."""
    runtime = {"nvidia/libcudart.so.13": write_elf(soname="libcudart.so.13", exports=[Export("cudaMalloc")])}
    env.add("nvidia-cuda-runtime", runtime)
    stub = write_elf(soname="libcudart_stub.so", exports=[Export("cudaGetDeviceProperties_v2")])
    user = extension("cudaGetDeviceProperties_v2", "cudaMalloc", needed=("libcudart_stub.so",), runpath="$ORIGIN")
    env.add("tilelang", {"tilelang/libcudart_stub.so": stub, "tilelang/libtvm.so": user})
    assert judge(env.prefix, RULE) == []
    env.add("other", {"other/_c.so": extension("cudaGetDeviceProperties_v2", needed=("libcudart.so.13",))})
    assert [finding.subject for finding in judge(env.prefix, RULE)] == ["other/_c.so"]


def test_product_that_is_not_there_is_not_asked(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "bare")
    env.add("user", {"user/_c.so": extension(OLD)})
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize(("symbol", "count"), [("ncclCommWindowRegister", 1), ("ncclCommInitRank", 0)])
def test_symbol_of_a_newer_nccl(env: EnvironmentWriter, symbol: str, count: int) -> None:
    nccl = write_elf(soname="libnccl.so.2", exports=[Export("ncclCommInitRank")])
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": nccl}, version="2.26.2")
    env.add("user", {"user/_c.so": extension(symbol, needed=("libnccl.so.2",))})
    found = judge(env.prefix, RULE)
    assert len(found) == count
    assert all("NCCL 2.26.2" in finding.message for finding in found)


def test_file_for_each_torch_of_which_one_is_right(env: EnvironmentWriter) -> None:
    """torch_c_dlpack_ext has one library for every release of torch and opens that of the one it finds."""
    files = {"ext/libaddon_torch24-cuda.so": extension(OLD), "ext/libaddon_torch29-cuda.so": extension(NEW)}
    env.add("ext", files)
    assert judge(env.prefix, RULE) == []


def test_file_for_each_torch_of_which_none_is_right(env: EnvironmentWriter) -> None:
    env.add("ext", {"ext/libaddon_torch24-cuda.so": extension(OLD), "ext/libaddon_torch25-cuda.so": extension(OLD)})
    assert len(judge(env.prefix, RULE)) == 2


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", True),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", True),
        ("_ZN3c105ErrorC1ESsSs", True),
        (STRING, False),
        ("_ZNK3c106SsList4sizeEv", False),
        ("_ZN3c1010ProcessSsxE", False),
        ("_ZN2at4implILi5EE4callERKSs", True),
        ("_ZN3foo3barB5cxx11ESs", False),
        ("ncclSs", False),
    ],
)
def test_names_with_the_old_string(name: str, old: bool) -> None:
    assert is_old_string(name) is old


def test_a_library_of_others_that_is_named_like_torch_s_stands_for_no_torch(tmp_path: Path) -> None:
    """torch-c-dlpack-ext calls its own libtorch_c_dlpack_addon_torch29-cpu.so."""
    env = EnvironmentWriter(tmp_path / "alone")
    env.add("torch-c-dlpack-ext", {"torch_c_dlpack_ext/libtorch_c_dlpack_addon_torch29-cpu.so": extension(OLD)})
    env.add("user", {"user/_c.so": extension(OLD)})
    assert judge(env.prefix, RULE) == []
