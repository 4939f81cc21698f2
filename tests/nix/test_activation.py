"""nix/activation.nix means what orbit/env/activate.py means: compared by what a shell really sets."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from orbit.env.activate import Variable, activation, apply, load_contract
from tests.nix.nixtools import evaluate

pytestmark = pytest.mark.integration

PREFIX = "/opt/it's a prefix"
BASE = {
    "PATH": "/usr/bin:/bin",
    "PYTHONPATH": "/of/the/caller",
    "VIRTUAL_ENV": "/of/the/caller",
    "PYTHONUNBUFFERED": "",
    "NCCL_NVLS_ENABLE": "2",
    "LD_LIBRARY_PATH": "/of/a/module",
}
SHOW = "\nexport -p >/dev/null; env -0"


def placeholders(variable: Variable) -> set[str]:
    return set(re.findall(r"\{([a-z]+)\}", variable.value))


def expected(*, cuda: bool) -> list[Variable]:
    """What belongs to a shell: of a process outside any environment, and of the CUDA compiler below a prefix."""
    raw = load_contract().variables
    filled = activation(PREFIX, state="/state", identity="0" * 64)
    general = [v for v in raw if not v.needs and not placeholders(v)]
    compiler = [full for v, full in zip(raw, filled, strict=True) if v.needs and placeholders(v) <= {"prefix"}]
    assert len(general) >= 10
    assert len(compiler) >= 5
    return [*general, *(compiler if cuda else [])]


def environment_after(script: str) -> dict[str, str]:
    done = subprocess.run(["sh", "-c", script + SHOW], env=BASE, capture_output=True, text=True, check=True)
    pairs = (entry.partition("=") for entry in done.stdout.split("\0") if entry)
    return {name: value for name, _, value in pairs if name not in {"PWD", "OLDPWD", "SHLVL", "_"}}


def nix(expression: str) -> Any:
    return evaluate(f'let activation = import ./nix/activation.nix; prefix = "{PREFIX}"; in {expression}')


def test_every_variable_is_the_contract_s() -> None:
    assert nix("activation.general") == [shown(v) for v in expected(cuda=False)]
    assert nix("activation.general ++ activation.cuda prefix") == [shown(v) for v in expected(cuda=True)]


def shown(variable: Variable) -> dict[str, str]:
    """A variable as the file spells it: what is not said there is not said."""
    fields = {"name": variable.name, "how": variable.how, "reason": variable.reason}
    optional = {"value": variable.value, "needs": variable.needs}
    return fields | {key: value for key, value in optional.items() if value}


@pytest.mark.parametrize("cuda", [False, True])
def test_a_shell_ends_up_where_activation_ends_up(cuda: bool) -> None:
    variables = "activation.general" + (" ++ activation.cuda prefix" if cuda else "")
    after = environment_after(nix(f"activation.shell ({variables})"))
    assert after == apply(expected(cuda=cuda), BASE)


def test_what_needs_a_state_folder_is_left_to_the_entry_point() -> None:
    names = {variable["name"] for variable in nix("activation.general ++ activation.cuda prefix")}
    of_state = {v.name for v in load_contract().variables if placeholders(v) & {"state", "cache", "sockets"}}
    assert len(of_state) >= 10
    assert names.isdisjoint(of_state)


def test_an_empty_list_gets_no_empty_folder() -> None:
    script = nix("activation.shell (activation.cuda prefix)")
    done = subprocess.run(
        ["sh", "-c", f'unset PATH\n{script}\necho "$PATH"'], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{PREFIX}/cuda/bin\n"
