"""Field reports 1 to 6: machine code that is missing for a device, or there without what the device needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.audit.field.support import BOTH, LINUX, add, audit, device, environment, fired, only
from tests.writers.elf import write_elf
from tests.writers.fatbin import write_container, write_section
from tests.writers.wheels import write_wheel

# (public thread, distribution, file, architectures, GPU that gets nothing)
NO_MACHINE_CODE = [
    ("Dao-AILab/flash-attention#1665", "fa", "flash_attn_2_cuda.so", ("sm_80", "sm_90"), "sm_100"),
    ("vllm-project/vllm#20193", "engine", "engine/_C.abi3.so", ("sm_80", "sm_90a"), "sm_100"),
    ("sgl-project/sglang#6936", "ops", "ops/common_ops.abi3.so", ("sm_90a", "sm_120"), "sm_100"),
    ("hiyouga/LlamaFactory#10132", "q", "q/libq_cuda128.so", ("sm_75", "sm_80", "sm_100"), "sm_90"),
    ("ostris/ai-toolkit#475", "t", "t/_C.so", ("sm_50", "sm_60", "sm_80", "sm_86", "sm_90"), "sm_100"),
    ("sibling: B300 only", "k", "k/_k.so", ("sm_90a", "sm_103a"), "sm_100"),
    ("sibling: consumer cards", "rtx", "rtx/ops.so", ("sm_86", "sm_89", "sm_120a"), "sm_90"),
]


@pytest.mark.parametrize(("_thread", "name", "path", "archs", "lacking"), NO_MACHINE_CODE)
@pytest.mark.parametrize("form", ["environment", "wheel"])
def test_1_no_machine_code_for_the_device(
    tmp_path: Path, form: str, _thread: str, name: str, path: str, archs: tuple[str, ...], lacking: str
) -> None:
    data = device(archs, archs)
    if form == "wheel":
        target = write_wheel(tmp_path, name, {path: data}, tags=[LINUX])
    else:
        env = environment(tmp_path)
        add(env, name, {path: data})
        target = env.prefix
    report = audit(target)
    finding = next(item for item in report.findings if item.evidence.get("target") == lacking)
    assert (finding.rule, finding.subject, finding.severity) == ("arch-coverage", path, "error")
    assert f"2 of 2 containers have nothing that {lacking}" in finding.message
    assert {rule for rule, _subject in fired(report)} == {"arch-coverage"}


@pytest.mark.parametrize(
    "archs", [BOTH, ("sm_90", "sm_100"), ("sm_80", "sm_90", "sm_100f"), ("sm_90a", "sm_100", "sm_103", "sm_120")]
)
def test_1_near_misses(tmp_path: Path, archs: tuple[str, ...]) -> None:
    env = environment(tmp_path)
    add(env, "ops", {"ops/_c.so": device(archs, archs)})
    assert fired(audit(env.prefix)) == {}


@pytest.mark.parametrize(
    ("_thread", "path", "section"),
    [
        ("NVIDIA/TransformerEngine#3217", "te/wheel_lib/libte.so", ".nv_fatbin"),
        ("flashinfer-ai/flashinfer#5355", "jit_cache/topk/topk.so", ".nv_fatbin"),
        ("sibling: relocatable device code", "comm/libcomm.so", "__nv_relfatbin"),
    ],
)
def test_2_one_translation_unit_missed(tmp_path: Path, _thread: str, path: str, section: str) -> None:
    """The file as a whole has every architecture; only looking at each container tells."""
    env = environment(tmp_path)
    data = device(*[BOTH] * 60, ("sm_89", "sm_90a"), *[BOTH] * 3, section=section)
    add(env, path.partition("/")[0], {path: data})
    finding = only(audit(env.prefix), "arch-coverage", path)
    assert finding.message.startswith("1 of 64 containers have nothing that sm_100 (B200")
    assert finding.evidence["containers"] == "60"
    assert finding.evidence["first"].startswith(f"{section}[60] at byte ")


def test_2_near_miss_a_vendor_library_chooses(tmp_path: Path) -> None:
    env = environment(tmp_path)
    data = device(("sm_75", "sm_80"), ("sm_90",), ("sm_100",), soname="libcublasLt.so.12")
    add(env, "math", {"nvidia/cublas/lib/libcublasLt.so.12": data, "math.libs/libcublasLt-1a2b3c4d.so.12": data})
    report = audit(env.prefix)
    assert not [item for item in report.findings if item.rule == "arch-coverage"]


@pytest.mark.parametrize(
    ("_thread", "requested", "found"),
    [
        ("vllm-project/vllm#56548", ["10.0", "10.0a"], ("sm_90a", "sm_100a")),
        ("huggingface/kernels#720", ["9.0a", "10.0a", "10.3a"], ("sm_90a", "sm_100a")),
        ("vllm-project/vllm#26592", ["9.0a", "10.0a", "12.0"], ("sm_90a", "sm_100a")),
    ],
)
def test_3_architecture_dropped_by_the_build(
    tmp_path: Path, _thread: str, requested: list[str], found: tuple[str, ...]
) -> None:
    """Orbit's own record of a build says what was asked for."""
    env = environment(tmp_path)
    add(env, "ops", {"ops/_c.so": device(found)})
    asked = [f"compute_{item.replace('.', '')}:sm_{item.replace('.', '')}" for item in requested]
    binary = {"file": "ops/_c.so", "coverage": {"+".join(sorted(found)): 1}, "images": {}, "glibc": "2.17"}
    kernel = {"dist": "ops", "version": "1.0", "requested": asked, "found": [binary]}
    record = {"profile": "other", "lock": "", "kernels": [kernel]}
    record |= {"distributions": [{"name": "ops", "version": "1.0", "origin": "wheelhouse"}]}
    path = env.prefix / "share/orbit/environment.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    findings = [item for item in audit(env.prefix).findings if item.rule == "build-manifest"]
    assert findings
    assert all(item.subject == "ops/_c.so" for item in findings)


def test_3_an_a_image_covers_one_capability(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "ops", {"ops/_c.so": device(("sm_90", "sm_100a"))})
    assert "B300" in only(audit(env.prefix, "9.0", "10.3"), "arch-coverage", "ops/_c.so").message
    (env.site / "ops/_c.so").unlink()
    other = environment(tmp_path, "other")
    add(other, "ops", {"ops/_c.so": device(("sm_90", "sm_100f"))})
    assert fired(audit(other.prefix, "9.0", "10.3")) == {}


@pytest.mark.parametrize(
    ("_thread", "path", "section"),
    [
        ("deepseek-ai/DeepEP#168", "deep_ep_cpp.cpython-312-x86_64-linux-gnu.so", ".nv_fatbin"),
        ("deepseek-ai/DeepEP#224", "deep_ep_cpp.cpython-312-x86_64-linux-gnu.so", "__nv_relfatbin"),
        ("sibling: another expert-parallel library", "pplx_kernels/libpplx_kernels.so", "__nv_relfatbin"),
        ("sibling: the Dockerfile's default", "slime_ops/_C.so", ".nv_fatbin"),
    ],
)
def test_4_hopper_only_default(tmp_path: Path, _thread: str, path: str, section: str) -> None:
    env = environment(tmp_path)
    big = {"hidden": {"filler": bytes(600_000)}}
    add(env, "comm", {path: device(("sm_90",), ("sm_90", "compute_90a"), section=section, **big)})
    finding = only(audit(env.prefix), "arch-coverage", path)
    assert "B200" in finding.message
    assert finding.evidence["target"] == "sm_100"


@pytest.mark.parametrize(
    ("_thread", "path"),
    [
        ("NVIDIA/cutlass#3174", "flash_attn_3/_C.abi3.so"),
        ("sibling: FlashMLA", "flash_mla/cuda.so"),
        ("sibling: vLLM's copy", "vllm/_vllm_fa3_C.abi3.so"),
    ],
)
def test_5_90_instead_of_90a(tmp_path: Path, _thread: str, path: str) -> None:
    env = environment(tmp_path)
    add(env, "kernels", {path: device(("sm_90", "sm_100a"), ("sm_90", "sm_100a"))})
    finding = only(audit(env.prefix), "arch-feature", path)
    assert "plain code for sm_90 where sm_90a is needed" in finding.message


def test_5_name_and_majority(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "named", {"named/_C_gemm_sm90a.so": device(("sm_90", "sm_100a"))})
    only(audit(env.prefix), "arch-feature", "named/_C_gemm_sm90a.so")
    most = environment(tmp_path, "most")
    add(most, "most", {"most/_c.so": device(*[BOTH] * 9, ("sm_90", "sm_100a"))})
    assert only(audit(most.prefix), "arch-feature", "most/_c.so", "warning").message.startswith("1 containers")
    plain = environment(tmp_path, "plain")
    add(plain, "plain", {"plain/_c.so": device(("sm_90", "sm_100"), BOTH)})
    assert fired(audit(plain.prefix)) == {}


@pytest.mark.parametrize(
    ("_thread", "archs", "target"),
    [
        ("vllm-project/vllm#40923", ("sm_90a", "sm_80", "compute_80"), "sm_100"),
        ("vllm-project/vllm#41871", ("sm_90a", "compute_90"), "sm_100"),
        ("sibling: everything by PTX on Hopper", ("sm_100a", "sm_80", "compute_75"), "sm_90"),
    ],
)
def test_6_ptx_is_no_machine_code(tmp_path: Path, _thread: str, archs: tuple[str, ...], target: str) -> None:
    env = environment(tmp_path)
    add(env, "ops", {"ops/_c.so": device(archs)})
    finding = only(audit(env.prefix), "arch-coverage", "ops/_c.so")
    assert (finding.evidence["target"], finding.evidence["result"]) == (target, "ptx-jit")
    assert "only PTX" in finding.message


def test_6_near_miss_ptx_beside_machine_code_and_before_linking(tmp_path: Path) -> None:
    env = environment(tmp_path)
    linked = [
        ("__nv_relfatbin", write_section(write_container("sm_90", "compute_90"))),
        (".nv_fatbin", write_section(write_container("sm_90", "sm_100"))),
    ]
    add(env, "ops", {"ops/_c.so": device((*BOTH, "compute_100")), "ops/libshm.so": write_elf(sections=linked)})
    assert fired(audit(env.prefix)) == {}
