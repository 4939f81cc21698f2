"""orbit.kernels.features: what a build left out without a word is a finding, and what nobody can see is not proved."""

from __future__ import annotations

import msgspec

from orbit.core.findings import Finding
from orbit.kernels.features import RULE, check_features
from orbit.kernels.manifest import Unit
from orbit.kernels.recipe import Feature, Recipe, load_recipe

ADD, SUB, HOST = "_Z10add_kernelPf", "_Z10sub_kernelPf", "_Z4initv"
BOTH = {"sm_90a": {ADD, SUB}, "sm_100a": {ADD, SUB}}


def recipe(**asserted: tuple[str, ...]) -> Recipe:
    feature = Feature(name="adding", reason="sums need it", **asserted)
    return msgspec.structs.replace(load_recipe("causal-conv1d"), features=(feature,))


def unit(*sources: str, defines: tuple[str, ...] | None = (), status: int = 0, kind: str = "compile") -> Unit:
    return Unit(kind=kind, sources=sources, requested=(), effective=(), status=status, defines=defines)


UNITS = (unit("src/csrc/add.cu"), unit("src/csrc/sub.cu", defines=("NDEBUG", "WIDTH=4")))


def messages(asserting: Recipe, *, units: tuple[Unit, ...] = UNITS, exports: tuple[str, ...] = (ADD, SUB, HOST),
             kernels: dict[str, set[str]] | None = None) -> list[str]:  # fmt: skip
    found = check_features(asserting, units, exports, BOTH if kernels is None else kernels)
    assert all(finding.rule == RULE and finding.fatal for finding in found)
    return [finding.message for finding in found]


def test_a_recipe_without_features_asserts_nothing() -> None:
    assert check_features(load_recipe("causal-conv1d"), (), (), {}) == ()


def test_what_is_there_is_no_finding() -> None:
    asserting = recipe(
        symbols=("*add_kernel*", "*init*"), units=("csrc/add.cu", "src/csrc/s*.cu"), forbidden_defines=("NO_ADD",)
    )
    assert messages(asserting) == []


def test_a_finding_names_recipe_feature_evidence_and_reason() -> None:
    (finding,) = check_features(recipe(symbols=("*mul_kernel*",)), UNITS, (ADD, SUB, HOST), BOTH)
    assert isinstance(finding, Finding)
    assert finding.subject == "causal-conv1d: adding"
    assert finding.message == "no kernel and no dynamic symbol of the wheel matches *mul_kernel*"
    assert finding.evidence == {"kernels": "sm_90a 2, sm_100a 2", "symbols": "3"}
    assert finding.fix.startswith("sums need it; ")


def test_a_kernel_of_one_architecture_only_is_a_finding_even_when_its_host_side_is_exported() -> None:
    found = messages(recipe(symbols=("*add_kernel*",)), kernels={"sm_90a": {ADD}, "sm_100a": {SUB}})
    assert found == ["no kernel of sm_100a matches *add_kernel*, though others have one"]


def test_a_host_function_is_proved_by_its_export_alone() -> None:
    asserting = recipe(symbols=("*init*",))
    assert messages(asserting) == []
    assert len(messages(asserting, exports=(ADD, SUB))) == 1


def test_without_any_binary_nothing_is_proved() -> None:
    assert len(messages(recipe(symbols=("*",)), exports=(), kernels={"sm_90a": set(), "sm_100a": set()})) == 1
    assert len(messages(recipe(symbols=("*",)), exports=(), kernels={})) == 1


def test_names_are_compared_with_their_case() -> None:
    assert len(messages(recipe(symbols=("*ADD_KERNEL*",)))) == 1
    assert len(messages(recipe(units=("csrc/ADD.cu",)))) == 1


def test_a_unit_that_was_not_compiled_failed_or_was_only_linked_is_a_finding() -> None:
    asserting = recipe(units=("csrc/add.cu",))
    for units in ((UNITS[1],), (unit("src/csrc/add.cu", status=1),), (unit("src/csrc/add.cu", kind="link"),), ()):
        assert messages(asserting, units=units) == ["csrc/add.cu was not compiled"]
    assert messages(asserting, units=(unit("src/csrc/add.cu", status=1), *UNITS)) == []


def test_calls_of_the_host_compiler_count_as_well() -> None:
    units = (*UNITS, unit("src/csrc/api.cpp", kind="host", defines=("NO_ADD",)))
    assert messages(recipe(units=("csrc/api.cpp",)), units=units) == []
    assert messages(recipe(forbidden_defines=("NO_ADD",)), units=units) == ["NO_ADD was defined"]


def test_a_pattern_of_units_begins_at_a_folder() -> None:
    assert messages(recipe(units=("add.cu",))) == []
    assert messages(recipe(units=("dd.cu",))) == ["dd.cu was not compiled"]


def test_a_forbidden_macro_is_a_finding_with_and_without_a_value() -> None:
    for define in ("NO_ADD", "NO_ADD=1"):
        units = (UNITS[0], unit("src/csrc/sub.cu", defines=(define,)))
        (finding,) = check_features(recipe(forbidden_defines=("NO_ADD",)), units, (), BOTH)
        assert finding.message == "NO_ADD was defined"
        assert finding.evidence == {"sources": "src/csrc/sub.cu"}
    assert messages(recipe(forbidden_defines=("NO_ADD",)), units=(unit("a.cu", defines=("NO_ADDITION=1",)),)) == []


def test_calls_without_their_macros_in_the_log_prove_nothing() -> None:
    asserting = recipe(forbidden_defines=("NO_ADD",))
    unknown = "nobody knows which macros the compiler was given"
    assert messages(asserting, units=(*UNITS, unit("src/csrc/mul.cu", defines=None))) == [unknown]
    assert messages(asserting, units=()) == [unknown]
    assert messages(asserting, units=(*UNITS, unit("src/csrc/mul.cu", defines=None, status=1))) == []
