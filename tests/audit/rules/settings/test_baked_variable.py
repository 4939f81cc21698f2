"""baked-variable: values that belong to one machine, run or debugging session, and values that do not."""

from __future__ import annotations

import pytest

from orbit.audit.models.settings import load_settings
from orbit.audit.rules import RULES
from orbit.audit.rules.settings.baked_variable import _hits
from orbit.core.findings import Severity
from tests.audit.rules.settings.rootfs import Rootfs, judge_environment, judge_image

RULE = RULES["baked-variable"]


def test_a_sound_image_is_clean(rootfs: Rootfs) -> None:
    assert judge_image(RULE, rootfs) == []
    assert judge_environment(RULE, rootfs.env) == []


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("NCCL_SOCKET_IFNAME", "eth0", Severity.WARNING),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_1", Severity.WARNING),
        ("NCCL_IB_DISABLE", "1", Severity.WARNING),
        ("MASTER_ADDR", "10.0.0.1", Severity.WARNING),
        ("CUDA_VISIBLE_DEVICES", "0,1", Severity.WARNING),
        ("CUDA_VISIBLE_DEVICES", "", Severity.ERROR),
        ("CUDA_VISIBLE_DEVICES", "-1", Severity.ERROR),
        ("CUDA_FORCE_PTX_JIT", "1", Severity.ERROR),
        ("CUDA_LAUNCH_BLOCKING", "1", Severity.WARNING),
        ("NCCL_DEBUG", "INFO", Severity.WARNING),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", Severity.WARNING),
        ("TORCH_LOGS", "+dynamo", Severity.NOTE),
        ("NVIDIA_TF32_OVERRIDE", "0", Severity.WARNING),
        ("NVIDIA_DISABLE_REQUIRE", "1", Severity.WARNING),
        ("https_proxy", "http://proxy.local:3128", Severity.WARNING),
        ("PYTHONHOME", "/usr", Severity.ERROR),
        ("PYTHONOPTIMIZE", "1", Severity.WARNING),
        ("TRITON_INTERPRET", "1", Severity.ERROR),
    ],
)
def test_values_that_are_wrong_for_everybody(rootfs: Rootfs, name: str, value: str, severity: Severity) -> None:
    (finding,) = judge_image(RULE, rootfs, {name: value})
    assert (finding.subject, finding.severity) == (name, severity)
    assert finding.evidence == {"value": value, "set by": "Env"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_SOCKET_IFNAME", ""),
        ("NCCL_IB_DISABLE", "0"),
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_DEBUG", "VERSION"),
        ("CUDA_LAUNCH_BLOCKING", "0"),
        ("CUDA_FORCE_PTX_JIT", "0"),
        ("TORCH_CPP_LOG_LEVEL", "ERROR"),
        ("no_proxy", "localhost"),
        ("PYTHONOPTIMIZE", "0"),
        ("NCCL_CUMEM_ENABLE", "1"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    ],
)
def test_values_that_are_right_or_harmless(rootfs: Rootfs, name: str, value: str) -> None:
    assert judge_image(RULE, rootfs, {name: value}) == []


def test_expandable_segments_beside_torch_memory_saver(rootfs: Rootfs) -> None:
    rootfs.env.add("torch-memory-saver", {"torch_memory_saver/__init__.py": b""})
    values = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True"}
    (finding,) = judge_image(RULE, rootfs, values)
    assert "torch-memory-saver" in finding.message
    assert judge_image(RULE, rootfs, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}) == []


def test_a_password_is_not_repeated(rootfs: Rootfs) -> None:
    (finding,) = judge_image(RULE, rootfs, {"https_proxy": "http://ann:s3cretword@proxy.local:3128"})
    assert finding.evidence["value"] == "http://...@proxy.local:3128"


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("NVIDIA_VISIBLE_DEVICES", "0", Severity.WARNING),
        ("NVIDIA_VISIBLE_DEVICES", "void", Severity.ERROR),
        ("NVIDIA_DRIVER_CAPABILITIES", "utility", Severity.ERROR),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute", Severity.WARNING),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=12.4 brand=tesla,driver>=535,driver<536", Severity.WARNING),
    ],
)
def test_what_the_container_toolkit_reads(rootfs: Rootfs, name: str, value: str, severity: Severity) -> None:
    (finding,) = judge_image(RULE, rootfs, {name: value})
    assert (finding.subject, finding.severity) == (name, severity)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NVIDIA_DRIVER_CAPABILITIES", "all"),
        ("NVIDIA_DRIVER_CAPABILITIES", ""),
        ("NVIDIA_DRIVER_CAPABILITIES", "graphics,compute,utility"),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=13.0"),
        ("NVIDIA_REQUIRE_CUDA", "brand=tesla"),
    ],
)
def test_what_the_container_toolkit_may_read(rootfs: Rootfs, name: str, value: str) -> None:
    assert judge_image(RULE, rootfs, {name: value}) == []


def test_an_image_without_device_code_needs_no_driver(rootfs: Rootfs) -> None:
    nothing = {"NVIDIA_VISIBLE_DEVICES": None, "NVIDIA_DRIVER_CAPABILITIES": None}
    (finding,) = judge_image(RULE, rootfs, nothing)
    assert finding.severity is Severity.NOTE
    (rootfs.env.site / "ext/_c.so").unlink()
    assert judge_image(RULE, rootfs, nothing) == []


def test_packages_of_the_home_folder(rootfs: Rootfs) -> None:
    (finding,) = judge_image(RULE, rootfs, {"PYTHONNOUSERSITE": None})
    assert (finding.subject, finding.severity) == ("PYTHONNOUSERSITE", Severity.NOTE)


def test_values_an_entry_point_computes_are_not_judged(rootfs: Rootfs) -> None:
    script = b"#!/bin/sh\nexport NCCL_SOCKET_IFNAME=$(ip route get 1 | head -1)\nexport NCCL_DEBUG=INFO\n"
    rootfs.write("opt/orbit/bin/start-entrypoint", script, 0o755)
    (finding,) = judge_image(RULE, rootfs)
    assert (finding.subject, finding.evidence["set by"]) == ("NCCL_DEBUG", "entry point")


def test_every_entry_can_match() -> None:
    for item in load_settings().baked:
        values = ["1", "true", "info", "detail", "eth0", "", "expandable_segments:true"]
        assert any(_hits(item, value) for value in values), item.names
