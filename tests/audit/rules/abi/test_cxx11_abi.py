"""cxx11-abi: one clear cause instead of hundreds of undefined symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.rules.abi import cxx11_abi
from orbit.core.findings import Severity
from tests.audit.support import judge, make_policy, read_as_wheels
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter

OLD = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
NEW = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
PLAIN = "_ZN3c104cuda9SetDeviceEa"


def write(root: Path, extension: list[str], torch: list[str] | None = None) -> EnvironmentWriter:
    """An environment with a torch that exports some names and an extension that wants others."""
    env = EnvironmentWriter(root / "e")
    if torch is not None:
        exports = [Export(name) for name in torch]
        env.add("torch", {"torch/lib/libc10.so": write_elf(soname="libc10.so", exports=exports)}, version="2.11.0")
    data = write_elf(needed=["libc10.so"], imports=[Import(name) for name in extension])
    env.add("flash-attn", {"flash_attn_2_cuda.so": data})
    return env


@pytest.mark.parametrize(
    ("wants", "has", "cause", "symbol"),
    [
        ([OLD, PLAIN], [NEW, "other"], "the old std::string, torch 2.11.0 has the new", OLD),
        ([NEW], [OLD, PLAIN], "the new std::string, torch 2.11.0 has the old", NEW),
    ],
)
def test_other_string_than_torch(tmp_path: Path, wants: list[str], has: list[str], cause: str, symbol: str) -> None:
    env = write(tmp_path, wants, has)
    (finding,) = judge(env.prefix, "cxx11-abi")
    assert (finding.subject, finding.fatal) == ("flash_attn_2_cuda.so", True)
    assert cause in finding.message
    assert finding.evidence["symbols"] == symbol
    assert judge(env.prefix, "undefined-symbol") == []


@pytest.mark.parametrize(("wants", "has"), [([NEW, PLAIN], [NEW, PLAIN]), ([PLAIN], [NEW]), ([OLD], ["_ZN3c104nameE"])])
def test_same_string_or_none_or_not_known(tmp_path: Path, wants: list[str], has: list[str]) -> None:
    assert judge(write(tmp_path, wants, has).prefix, "cxx11-abi") == []


def test_missing_symbol_without_a_string_is_the_other_rules(tmp_path: Path) -> None:
    env = write(tmp_path, [PLAIN], [NEW])
    assert judge(env.prefix, "cxx11-abi") == []
    assert len(judge(env.prefix, "undefined-symbol")) == 1


@pytest.mark.parametrize(("wants", "count"), [([OLD, PLAIN], 1), ([NEW, PLAIN], 0), ([PLAIN], 0), ([OLD, NEW], 0)])
def test_wheel_of_the_old_abi_alone(tmp_path: Path, wants: list[str], count: int) -> None:
    env = write(tmp_path, wants)
    found = list(cxx11_abi.check(read_as_wheels(env.prefix), make_policy()))
    assert [finding.severity for finding in found] == [Severity.WARNING] * count
