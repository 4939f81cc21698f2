"""orbit.kernels.prebuilt.jit: every way in which a probe can prove nothing is a finding."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.findings import Finding
from orbit.errors import CheckFailed
from orbit.kernels.prebuilt.jit import prove, without_probe
from orbit.kernels.prebuilt.record import JitProof
from orbit.kernels.recipe import Probe, Recipe
from orbit.profile.model import load_profile
from tests.kernels.prebuilt.made import (
    BLACKWELL,
    HOPPER,
    USE,
    disassembler,
    generator_bytes,
    published,
    recipe,
    toolkit,
)
from tests.writers.cubin import Says, code, works, write_cubin

NAME = "_ZN5thing12product_implE"
SOUND = {
    "sm_90a": write_cubin({NAME: works()}, arch="sm_90a"),
    "sm_100f": write_cubin({NAME: works()}, arch="sm_100f"),
}


def jit_recipe(*probes: Probe) -> Recipe:
    return recipe(mode="jit", jit=USE, probes=probes or (HOPPER, BLACKWELL), device_units=0)


def attempt(
    tmp_path: Path,
    *probes: Probe,
    cubins: dict[str, bytes] | None = None,
    binary: bytes | None = None,
    listed: tuple[str, ...] = ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4]", "UTCHMMA gdesc[UR4], gdesc[UR6]", "EXIT"),
) -> tuple[JitProof, tuple[Finding, ...]]:
    files = {"thing/_C.so": binary or generator_bytes(), "thing/include/thing/product.cuh": b"// a header\n"}
    wheel = published(tmp_path, files)
    (tmp_path / "jit").mkdir()
    return prove(
        jit_recipe(*probes),
        wheel,
        load_profile("probe"),
        environment_site=toolkit(tmp_path / "site", cubins=SOUND if cubins is None else cubins),
        nvdisasm=disassembler(tmp_path / "nvdisasm", *listed),
        scratch=tmp_path / "jit",
        progress=Silent(),
    )


def test_probes_of_every_target_are_compiled_and_recorded(tmp_path: Path) -> None:
    proof, findings = attempt(tmp_path)
    assert findings == ()
    assert [(probe.target, probe.arch, probe.kernels) for probe in proof.probes] == [
        ("h100", "sm_90a", (NAME,)),
        ("b200", "sm_100f", (NAME,)),
    ]
    assert proof.probes[0].instructions == {"HGMMA": 1}
    assert proof.probes[0].code_bytes == len(works())
    assert proof.compiler == "Cuda compilation tools, release 13.0, V13.0.88"
    assert proof.flags == ("-std=c++20", "-I{include}", "--gpu-architecture=sm_{arch}", "-O3")
    assert proof.headers == 1
    assert str(tmp_path) not in msgspec.json.encode(proof).decode()


@pytest.mark.parametrize(
    ("cubin", "words"),
    [
        (write_cubin({NAME: works()}, arch="sm_90"), "is code for sm_90, not for sm_90a"),
        (write_cubin({}, arch="sm_90a"), "holds no kernel"),
        (write_cubin({NAME: code((0x14D | 7 << 12, 0))}, arch="sm_90a"), "holds a kernel that does nothing"),
        (write_cubin({NAME: Says("no sm_90a code here")}, arch="sm_90a"), "holds a kernel that does nothing"),
        (b"not an ELF file", "is no cubin"),
    ],
)
def test_a_result_that_proves_nothing_is_a_finding(tmp_path: Path, cubin: bytes, words: str) -> None:
    _proof, findings = attempt(tmp_path, HOPPER, cubins={"sm_90a": cubin})
    found = [finding.message for finding in findings if "b200" not in finding.subject]
    assert len(found) == 1
    assert found[0].startswith(words)
    assert {finding.rule for finding in findings} == {"kernel-probe"}


def test_code_without_the_instructions_that_matter(tmp_path: Path) -> None:
    proof, findings = attempt(tmp_path, listed=("HGMMA.64x128x16.F32.BF16 R24", "EXIT"))
    assert [(finding.rule, finding.message) for finding in findings] == [("kernel-probe", "holds no UTCHMMA")]
    assert proof.probes[1].instructions == {"UTCHMMA": 0}


def test_a_source_that_does_not_compile_is_a_finding_with_the_compiler_s_words(tmp_path: Path) -> None:
    proof, findings = attempt(tmp_path, cubins={"sm_90a": SOUND["sm_90a"]})
    assert [(finding.rule, finding.message) for finding in findings] == [
        ("kernel-probe", "does not compile for sm_100f")
    ]
    assert "--gpu-architecture=sm_100f" in findings[0].evidence["arguments"]
    assert "cubins/sm_100f" in findings[0].evidence["says"]
    assert len(proof.probes) == 1


def test_a_target_without_a_probe_is_a_finding() -> None:
    found = list(without_probe(jit_recipe(HOPPER), load_profile("probe")))
    assert [(finding.subject, finding.message) for finding in found] == [
        ("thing: b200", "has no probe for capability 10.0")
    ]


def test_a_package_with_other_flags_or_another_cache_key_is_noticed(tmp_path: Path) -> None:
    _proof, findings = attempt(tmp_path, binary=generator_bytes(key="kernel.{}").replace(b"-O3", b"-O2"))
    assert [(finding.rule, finding.evidence["text"]) for finding in findings] == [
        ("kernel-jit-text", USE.flags[1]),
        ("kernel-jit-text", USE.cache_key[0]),
    ]


def test_a_kernel_that_the_package_no_longer_has_is_a_finding(tmp_path: Path) -> None:
    gone = msgspec.structs.replace(HOPPER, kernel="gone_impl")
    _proof, findings = attempt(tmp_path, gone, BLACKWELL)
    assert [(finding.rule, finding.subject) for finding in findings] == [("kernel-jit-text", "thing: product")]


def test_a_wheel_without_its_generator_is_refused(tmp_path: Path) -> None:
    use = msgspec.structs.replace(USE, generator="thing/gone.so")
    wheel = published(tmp_path)
    (tmp_path / "jit").mkdir()
    with pytest.raises(CheckFailed, match=r"thing/gone\.so: not in the wheel"):
        prove(
            msgspec.structs.replace(jit_recipe(), jit=use),
            wheel,
            load_profile("probe"),
            environment_site=toolkit(tmp_path / "site", cubins=SOUND),
            nvdisasm=tmp_path / "none",
            scratch=tmp_path / "jit",
            progress=Silent(),
        )
