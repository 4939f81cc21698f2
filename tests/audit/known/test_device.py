"""What kernel names say about the architecture they are for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.known.device import (
    guard_pattern,
    identifiers,
    is_for_others,
    knowledge,
    needs_capability,
    own_capability,
)
from orbit.kernels.capabilities import table

HOPPER = "_ZN7cutlass13device_kernelINS_31MainloopSm90TmaGmmaWarpSpecializedILi5EEN4cute4SM904GMMA5ScaleEEEvT_"
BLACKWELL = "_ZN7cutlass13device_kernelINS_21MainloopSm100TmaUmma_N4cute13SM90_TMA_LOADEEEvT_"


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        (HOPPER, "9.0"),
        (BLACKWELL, "10.0"),
        ("_Z41fmha_cutlassB_f16_aligned_64x64_k128_sm75N22PyTorchMemEffAttention1KE", "7.5"),
        ("sm80_xmma_fprop_implicit_gemm", "8.0"),
        ("_Z19enable_sm80_to_sm89v", "8.9"),
        ("_ZN3cub26CUB_300001_SM_800_900_1000_NS6kernelEv", ""),
        ("_Z8smem_256v", ""),
        ("_Z6kernelILi90EEvv", ""),
        ("_Z7prism90v", ""),
        ("_Z4addsPf", ""),
    ],
)
def test_capability_in_a_name(name: str, capability: str) -> None:
    assert own_capability(name) == capability


@pytest.mark.parametrize(
    ("name", "says", "others"),
    [
        (HOPPER, "", {"h100": False, "b200": True}),
        (BLACKWELL, "", {"h100": True, "b200": False}),
        ("_Z10gemm_sm120v", "", {"h100": True, "b200": True}),
        ("_Z9fmha_sm80v", "", {"h100": False, "b200": False}),
        ("_Z21quantize_mxfp8_kernelv", "", {"h100": True, "b200": False}),
        ("_Z4addsPf", "", {"h100": False, "b200": False}),
        ("_Z6kernelv", "This kernel only supports sm100 ~ sm119", {"h100": True, "b200": False}),
        ("_Z6kernelv", "Kernel is only supported on SM 10.0+.", {"h100": True, "b200": False}),
        ("_Z6kernelv", "RHT fusion is only supported on Blackwell.", {"h100": True, "b200": False}),
        ("_Z6kernelv", "index 90 out of SM 3", {"h100": False, "b200": False}),
        ("_Z6kernelv", "used without targeting sm90a compute capability", {"h100": False, "b200": True}),
    ],
)
def test_kernels_for_other_devices(name: str, says: str, others: dict[str, bool]) -> None:
    assert {"h100": is_for_others(name, says, "9.0"), "b200": is_for_others(name, says, "10.0")} == others


def test_formats() -> None:
    assert needs_capability("_ZN2te5nvfp49transposeEv") == "10.0"
    assert needs_capability("_ZN2te3fp89transposeEv") == ""


def test_data_has_what_the_field_prints() -> None:
    pattern = re.compile(guard_pattern())
    for text in (
        "ERROR : Arch conditional MMA instruction used without targeting sm90a compute capability. Aborting.",
        "Attempting to use SM90_64x64x16_F32F16F16_SS without CUTE_ARCH_MMA_SM90A_ENABLED",
        "FP4 cvt PTX instructions are architecture-specific. Try recompiling with sm_XXXa instead of sm_XXX.",
        "This kernel only supports sm90",
        "Kernel is only supported on SM 10.0+.",
        "RHT fusion is only supported on Blackwell.",
        "FATAL: kernel `fmha_cutlassF_f16_aligned_64x64_rf_sm80` is for sm80-sm100, but was built for sm%d",
    ):
        assert pattern.search(text), text
    assert not pattern.search("CUDA kernel assertion failed: index out of bounds")
    assert all(len(item.reason.split()) > 3 for item in knowledge().formats)


@given(st.text(alphabet="_Z0123456789LSTNEIjSm90abA", max_size=60))
def test_any_name_can_be_read(name: str) -> None:
    own = own_capability(name)
    assert not own or table().find(own)
    assert all(identifiers("_Z" + name))
