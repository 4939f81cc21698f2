"""device_code, kernel_missing, kernel_stub, arch_guard: each with what must fail and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.policy import Dispatching, Expectations, Stub
from orbit.audit.rules.depth import DEPTH
from tests.audit.depths import both, judge_depth, library
from tests.audit.support import make_policy
from tests.writers.cubin import EMPTY, TRAPS, Body, Calls, Says, cubin_entry, works, write_cubin
from tests.writers.fatbin import Entry, write_container

REASON = "written for this test only"
DISPATCHING = Expectations(schema=1, dispatching=(Dispatching(files=("ext/*.so",), reason=REASON),))
WORK = works(2048)
GUARD = "ERROR : Arch conditional MMA instruction used without targeting appropriate compute capability. Aborting."
HOPPER = "_ZN7cutlass13device_kernelINS_13MainloopSm90EEEvT_"
BLACKWELL = "_ZN7cutlass13device_kernelINS_14MainloopSm100EEEvT_"


def test_a_sound_file_passes_every_rule(tmp_path: Path) -> None:
    same: dict[str, Body] = {"_Z4addsPf": WORK, "_Z5emptyv": EMPTY, "_Z5printv": Says("value %d"), "_Z5callsv": Calls()}
    prefix = library(tmp_path, both(same, same), both({"_Z4mulsPf": WORK}, {"_Z4mulsPf": works(512)}))
    assert {module.ID: judge_depth(prefix, module.ID) for module in DEPTH} == {module.ID: [] for module in DEPTH}


# --- device-code ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (Entry("sm_90a", payload=b"no cubin at all."), "not an ELF file"),
        (Entry("sm_90a", payload=b"junk", compression="zstd"), "cannot be unpacked"),
        (Entry("sm_90a", payload=write_cubin({"k": WORK}, arch="sm_80")), "holds code for sm_80"),
        (Entry("sm_90a", payload=write_cubin({"k": WORK}, arch="sm_90")), "holds code for sm_90"),
        (Entry("sm_90", payload=write_cubin({"k": WORK}, arch="sm_90a", abi=7, note=False)), "holds code for sm_90a"),
        (Entry("compute_90", payload=b".target sm_80\n.entry k()"), "holds code for compute_80"),
    ],
)
def test_content_that_belies_its_header(tmp_path: Path, entry: Entry, said: str) -> None:
    sound = cubin_entry("sm_100a", {"k": WORK})
    (finding,) = judge_depth(library(tmp_path, write_container(entry, sound)), "device-code")
    assert (finding.subject, finding.fatal, finding.evidence["where"]) == (
        "ext/_c.so",
        True,
        f".nv_fatbin[0] {entry.arch}",
    )
    assert said in finding.message


def test_damage_of_one_kind_is_one_finding(tmp_path: Path) -> None:
    prefix = library(tmp_path, *[write_container(Entry("sm_90", payload=b"no cubin"))] * 3)
    (finding,) = judge_depth(prefix, "device-code")
    assert finding.evidence["images"] == "3"


@pytest.mark.parametrize(
    "entry",
    [
        Entry("sm_90", payload=write_cubin({"k": WORK}, arch="sm_90")),
        Entry("sm_100f", payload=write_cubin({"k": WORK}, arch="sm_100", note=False)),
        Entry("compute_90", payload=b"no target here"),
        Entry("sm_80", payload=b"no cubin, but nobody would load it"),
    ],
)
def test_content_that_agrees_or_does_not_say(tmp_path: Path, entry: Entry) -> None:
    assert judge_depth(library(tmp_path, write_container(entry)), "device-code") == []


# --- kernel-missing ---------------------------------------------------------------------------------------------------


def test_a_kernel_that_one_target_lacks(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"_Z4addsPf": WORK, "_Z4mulsPf": WORK}, {"_Z4addsPf": WORK}))
    (finding,) = judge_depth(prefix, "kernel-missing")
    assert (finding.evidence["target"], finding.evidence["kernels"], finding.fatal) == ("b200", "muls", True)
    assert finding.message.startswith("1 kernels are not in what b200 loads")


def test_the_same_kernel_elsewhere_in_the_file_does_not_help(tmp_path: Path) -> None:
    other = both({"_Z4mulsPf": WORK}, {"_Z4mulsPf": WORK})
    prefix = library(tmp_path, both({"_Z4mulsPf": WORK}, {}), other)
    assert [finding.evidence["containers"] for finding in judge_depth(prefix, "kernel-missing")] == ["1"]


def test_ptx_counts_by_its_entries(tmp_path: Path) -> None:
    ptx = Entry("compute_90", payload=b".target sm_90\n.visible .entry _Z4addsPf()\n")
    prefix = library(tmp_path, write_container(cubin_entry("sm_90a", {"_Z4addsPf": WORK, "_Z4mulsPf": WORK}), ptx))
    (finding,) = judge_depth(prefix, "kernel-missing")
    assert finding.evidence["loaded"] == "compute_90"


def test_what_is_no_missing_kernel(tmp_path: Path) -> None:
    none_for_b200 = write_container(cubin_entry("sm_90a", {"_Z4addsPf": WORK}))  # arch-coverage's finding
    third = both({"k": WORK}, {"k": WORK})
    damaged = write_container(cubin_entry("sm_90a", {"_Z4addsPf": WORK}), Entry("sm_100a", payload=b"junk"))
    assert judge_depth(library(tmp_path, none_for_b200, third, damaged), "kernel-missing") == []


def test_dispatching_files_are_not_judged_by_container(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"_Z4addsPf": WORK}, {"_Z4mulsPf": EMPTY, HOPPER: Says(GUARD)}))
    for rule in ("kernel-missing", "kernel-stub", "arch-guard"):
        assert judge_depth(prefix, rule, make_policy(DISPATCHING)) == []


# --- kernel-stub ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (EMPTY, "empty"),
        (TRAPS, "trap"),
        (Says("not here"), "message"),
        (Says("no", function="__assertfail"), "message"),
    ],
)
def test_a_kernel_that_does_nothing_on_one_target(tmp_path: Path, body: Body, kind: str) -> None:
    prefix = library(tmp_path, both({"_Z4addsPf": WORK, "_Z4mulsPf": WORK}, {"_Z4addsPf": body, "_Z4mulsPf": WORK}))
    (finding,) = judge_depth(prefix, "kernel-stub")
    assert (finding.evidence["target"], finding.evidence["kind"], finding.evidence["kernels"]) == ("b200", kind, "adds")
    assert "2048 in sm_90a" in finding.evidence["first"]
    assert finding.fatal


def test_a_small_kernel_that_works_is_no_stub(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"_Z4addsPf": WORK}, {"_Z4addsPf": works(256)}))
    assert judge_depth(prefix, "kernel-stub") == []


def test_a_kernel_that_does_nothing_anywhere_is_meant_so(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"_ZN3cub11EmptyKernelEv": EMPTY}, {"_ZN3cub11EmptyKernelEv": EMPTY}))
    assert judge_depth(prefix, "kernel-stub") == []


@pytest.mark.parametrize(
    ("name", "stub_on"),
    [
        (HOPPER, "b200"),
        (BLACKWELL, "h100"),
        ("_Z21quantize_mxfp8_kernelPf", "h100"),
        ("_ZN2te5nvfp49transposeEPf", "h100"),
    ],
)
def test_kernels_for_the_other_device_by_their_name(tmp_path: Path, name: str, stub_on: str) -> None:
    bodies: tuple[Body, Body] = (EMPTY, WORK) if stub_on == "h100" else (WORK, EMPTY)
    prefix = library(tmp_path, both({name: bodies[0]}, {name: bodies[1]}))
    assert judge_depth(prefix, "kernel-stub") == []


@pytest.mark.parametrize(
    ("name", "stub_on"), [("_Z9fmha_sm80Pf", "b200"), ("_Z21quantize_mxfp8_kernelPf", "b200"), ("_Z3fp8Pf", "h100")]
)
def test_names_that_excuse_nothing(tmp_path: Path, name: str, stub_on: str) -> None:
    bodies: tuple[Body, Body] = (EMPTY, WORK) if stub_on == "h100" else (WORK, EMPTY)
    (finding,) = judge_depth(library(tmp_path, both({name: bodies[0]}, {name: bodies[1]})), "kernel-stub")
    assert finding.evidence["target"] == stub_on


def test_kernels_for_the_other_device_by_their_message(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"_Z1kPf": Says("Kernel is only supported on SM 10.0+.")}, {"_Z1kPf": WORK}))
    assert judge_depth(prefix, "kernel-stub") == []


def test_declared_stubs_pass_only_with_the_declared_number(tmp_path: Path) -> None:
    names = ["_Z5cast1Pf", "_Z5cast2Pf"]
    prefix = library(tmp_path, both(dict.fromkeys(names, EMPTY), dict.fromkeys(names, WORK)))

    def declared(count: int, pattern: str = "*cast?Pf") -> Expectations:
        stub = Stub(file="ext/_c.so", target="h100", kernels=(pattern,), count=count, reason=REASON)
        return Expectations(schema=1, stubs=(stub,))

    assert judge_depth(prefix, "kernel-stub", make_policy(declared(2))) == []
    (finding,) = judge_depth(prefix, "kernel-stub", make_policy(declared(3)))
    assert finding.message == "2 kernels do nothing on h100 where 3 were declared"
    stale, left = judge_depth(prefix, "kernel-stub", make_policy(declared(1, "*other*")))
    assert stale.message.startswith("0 kernels")
    assert left.evidence["kernels"] == "cast1; cast2"


def test_a_declaration_for_a_file_that_is_not_there_is_silent(tmp_path: Path) -> None:
    stub = Stub(file="not/there.so", target="h100", kernels=("*",), count=3, reason=REASON)
    prefix = library(tmp_path, both({"k": WORK}, {"k": WORK}))
    assert judge_depth(prefix, "kernel-stub", make_policy(Expectations(schema=1, stubs=(stub,)))) == []


# --- arch-guard -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [Says(GUARD), Says(GUARD, works=True), EMPTY, TRAPS, Says("not built for it")])
def test_hopper_kernels_built_for_90_instead_of_90a(tmp_path: Path, body: Body) -> None:
    prefix = library(tmp_path, both({HOPPER: body}, {HOPPER: Says(GUARD)}, archs=("sm_90", "sm_100a")))
    (finding,) = judge_depth(prefix, "arch-guard")
    assert (finding.evidence["target"], finding.evidence["loaded"], finding.evidence["needed"]) == (
        "h100",
        "sm_90",
        "sm_90a",
    )
    assert finding.fatal
    assert "sm_90a" in finding.fix
    assert judge_depth(prefix, "kernel-stub") == []


def test_blackwell_kernels_built_for_100_instead_of_100a(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({BLACKWELL: EMPTY}, {BLACKWELL: Says(GUARD)}, archs=("sm_90a", "sm_100")))
    assert [finding.evidence["needed"] for finding in judge_depth(prefix, "arch-guard")] == ["sm_100a"]


def test_a_guard_without_a_mark_that_no_target_escapes(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"_Z1kPf": Says(GUARD)}, {"_Z1kPf": Says(GUARD)}, archs=("sm_90", "sm_100")))
    assert [finding.evidence["target"] for finding in judge_depth(prefix, "arch-guard")] == ["h100", "b200"]


@pytest.mark.parametrize(
    ("hopper", "blackwell"),
    [
        ({HOPPER: WORK}, {HOPPER: Says(GUARD)}),
        ({HOPPER: TRAPS}, {HOPPER: Says(GUARD)}),
        ({HOPPER: Says("not built for it")}, {HOPPER: Says(GUARD)}),
        ({BLACKWELL: Says(GUARD)}, {BLACKWELL: WORK}),
        ({"_Z10gemm_sm120Pf": EMPTY}, {"_Z10gemm_sm120Pf": Says(GUARD)}),
        ({"_Z1kPf": Says("This kernel only supports sm100")}, {"_Z1kPf": WORK}),
        ({"_Z9fmha_sm75Pf": Says("FATAL: kernel is for sm75-sm80, but was built for sm%d")},
         {"_Z9fmha_sm75Pf": Says("FATAL: kernel is for sm75-sm80, but was built for sm%d")}),
        ({"_Z1kPf": Says("value %d", works=True)}, {"_Z1kPf": Says("value %d", works=True)}),
    ],
)  # fmt: skip
def test_guards_of_code_for_other_devices(tmp_path: Path, hopper: dict[str, Body], blackwell: dict[str, Body]) -> None:
    prefix = library(tmp_path, both(hopper, blackwell))
    assert judge_depth(prefix, "arch-guard") == []
    assert judge_depth(prefix, "kernel-stub") == []
