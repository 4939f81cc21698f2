"""The real thing on a CPU, in the environment that ORBIT_TEST_ENV names: child, network, recorder, kernels, identity.

Without that environment all of it is skipped; what is pure is tested beside (tests/qualify).
"""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec
import pytest

from orbit.cli import main
from orbit.core.paths import PACKAGE
from orbit.core.proc import run
from orbit.qualify.prefix import environment_of, python_of
from orbit.qualify.records import Qualification, load_record
from orbit.qualify.tape import BACKWARD, DECODE, FORWARD, INPUT, PHASES, STEP, Entry
from orbit.qualify.trace import origins, same_structure, unequal
from tests.audit.real import environment

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of the environment, made once."""
    out = tmp_path_factory.mktemp("qualify") / "a.json"
    words = ["qualify", "record", "--prefix", str(environment()), "--device", "cpu", "--out", str(out)]
    assert main(words) == 0
    return out


def again(made: Path, name: str, *words: str) -> Path:
    out = made.with_name(name)
    main(["qualify", "record", "--prefix", str(environment()), "--device", "cpu", "--out", str(out), *words])
    return out


def test_a_cpu_passes_with_both_paths_in_both_types(made: Path) -> None:
    record = load_record(made)
    assert record.verdict == "passed"
    assert record.counts == {"proven": 4}
    assert record.identity.device.kind == "cpu"
    assert record.identity.versions["torch"].startswith("2.")
    for case in record.cases:
        assert tuple(dict.fromkeys(entry.phase for entry in case.entries if entry.phase != INPUT)) == PHASES[1:]
        assert all(entry.stats is None or entry.stats.nonfinite == 0 for entry in case.entries)


def test_the_trace_is_of_operations_that_follow_from_each_other(made: Path) -> None:
    entries = load_record(made).cases[0].entries
    made_by_nothing = [entry for entry in entries if not entry.inputs]
    assert {entry.phase for entry in made_by_nothing} <= {INPUT, BACKWARD}
    assert [entry.op for entry in made_by_nothing if entry.phase == BACKWARD] == ["start of the backward pass"]
    gradients = {entry.name for entry in entries if entry.op == "linear backward"}
    assert "layers.1.down, input 0" in gradients
    assert "layers.0.q, input 1" in gradients
    assert len([entry for entry in entries if entry.phase == STEP]) == 26


def test_two_records_of_one_environment_are_equal(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = again(made, "b.json")
    assert main(["qualify", "compare", str(made), str(other)]) == 0
    assert "PASSED: 4 equal" in capsys.readouterr().out


def test_another_attention_kernel_is_traced_to_attention(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = again(made, "c.json", "--set", "attention=flash")
    capsys.readouterr()
    assert main(["qualify", "compare", str(made), str(other), "--json"]) == 1
    found = msgspec.json.decode(capsys.readouterr().out)
    cases = {(case["path"], case["dtype"]): case for case in found["cases"]}
    assert cases["torch", "float32"]["result"] == "equal"
    changed = cases["sdpa", "float32"]
    assert changed["first"]["op"] == "sdpa"
    assert changed["first"]["name"] == "layers.0.attention"
    assert changed["first"]["unequal_inputs"] == []
    assert changed["exceeded"] == []
    assert [item["name"] for item in found["changed"]] == ["setting attention"]


@functools.cache
def planted(*plants: str, folder: str) -> dict[str, tuple[Entry, ...]]:
    """Tapes of the plain model (``none``) and of one with a wrong kernel each."""
    prefix = environment()
    program = (
        f"import sys; sys.path.append({str(PACKAGE.parent)!r}); from tests.qualify.stack.planted import main; main()"
    )
    run([python_of(prefix), "-P", "-s", "-c", program, folder, *plants], doing="planting", env=environment_of(prefix))
    names = {plant: Path(folder, f"{plant.replace(':', '_')}.json") for plant in ("none", *plants)}
    return {plant: msgspec.json.decode(path.read_bytes(), type=tuple[Entry, ...]) for plant, path in names.items()}


PLANTS = {
    "op:layers.1.q": (FORWARD, "layers.1.q"),
    "op:layers.0.gated_silu": (FORWARD, "layers.0.gated_silu"),
    "op:final_norm": (FORWARD, "final_norm"),
    "grad:layers.0.mlp_norm": (BACKWARD, "layers.0.mlp_norm, input 0"),
    "grad:layers.1.attention.softmax": (BACKWARD, "layers.1.attention.softmax, input 0"),
    "grad:layers.0.conv": (BACKWARD, "layers.0.conv, input 0"),
}


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Entry, ...]]:
    environment()
    return planted(*PLANTS, folder=str(tmp_path_factory.mktemp("planted")))


@pytest.mark.parametrize("plant", PLANTS)
def test_a_wrong_kernel_is_traced_to_itself(tapes: dict[str, tuple[Entry, ...]], plant: str) -> None:
    plain, spoiled = tapes["none"], tapes[plant]
    assert same_structure(plain, spoiled) == ""
    first = plain[unequal(plain, spoiled)[0]]
    assert first.key == PLANTS[plant]
    assert [plain[place].key for place in origins(plain, spoiled)] == [PLANTS[plant]]


def test_generating_is_untouched_by_what_is_wrong_in_training(tapes: dict[str, tuple[Entry, ...]]) -> None:
    plain = tapes["none"]
    for plant in PLANTS:
        assert not [plain[at] for at in unequal(plain, tapes[plant]) if plain[at].phase == DECODE]


def test_a_cut_record_of_the_real_thing_is_refused(made: Path, tmp_path: Path) -> None:
    record = load_record(made)
    (tmp_path / "a.json").write_bytes(made.read_bytes())
    (tmp_path / record.tensors.file).write_bytes(made.with_suffix(".tensors").read_bytes()[:-1])
    assert main(["qualify", "compare", str(made), str(tmp_path / "a.json")]) == 2
    assert isinstance(record, Qualification)
