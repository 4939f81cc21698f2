"""The activation contract: which variables a process in an environment gets, and why. Data: ``env/activation.toml``.

One list serves a shell on a cluster, the environment of an image and the processes the launchers start.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.env.record import read_environment
from orbit.errors import InputError

type How = Literal["set", "default", "prepend", "unset"]
SHELLS = ("sh", "fish")
IDENTITY_DIGITS = 12
IMAGE_STATE = "/tmp/orbit"  # noqa: S108 - short on purpose, see TMPDIR in the contract
"""State folder where the caller names none, as in an image that runs as any uid with a writable /tmp."""

SOCKETS_BYTES = 39
"""Longest folder for sockets: 107 bytes for a path (``sun_path``, unix(7)) less the 68 that Ray 2.55 appends,
``/ray/session_<26 of date>_<7 of pid>/sockets/plasma_store`` (``ray._private.node``)."""


class Variable(Record, frozen=True, kw_only=True):
    """One variable and what is done with it."""

    name: str
    value: str = ""
    how: How
    """``set``, ``default`` (only when unset), ``prepend`` (to a list of folders) or ``unset``."""
    reason: str
    needs: str = ""
    """Name of a condition: only in environments that meet it."""


class Contract(Record, frozen=True, kw_only=True):
    """The whole of ``env/activation.toml``."""

    schema: int
    conditions: dict[str, str]
    """What a variable may need -> the path below the prefix that is there where it is met."""
    variables: tuple[Variable, ...]


def load_contract() -> Contract:
    """Read and check ``env/activation.toml``."""
    path = data_file("env", "activation.toml")
    contract = load_toml(path, Contract)
    for variable in contract.variables:
        if (variable.how == "unset") != (variable.value == ""):
            raise InputError(f"{path}: {variable.name}: how = {variable.how!r}, value = {variable.value!r}")
        if variable.needs and variable.needs not in contract.conditions:
            raise InputError(f"{path}: {variable.name}: needs = {variable.needs!r}, which is no key of [conditions]")
    return contract


def conditions(exists: Callable[[str], bool]) -> frozenset[str]:
    """The conditions of the contract that an environment meets; ``exists`` answers for a path below its prefix."""
    return frozenset(name for name, path in load_contract().conditions.items() if exists(path))


def conditions_of(prefix: Path) -> frozenset[str]:
    """:func:`conditions` of an environment on disk."""
    return conditions(lambda path: (prefix / path).exists())


def conditions_by_name(dists: Iterable[str]) -> frozenset[str]:
    """:func:`conditions` of an environment that is not there yet, by the names of its distributions.

    ``nvidia-cuda-nvcc`` is the compiler of CUDA 13 and later. What has that name with a suffix, and the run time alone,
    make a toolkit without nvcc (:mod:`orbit.env.cuda_home`).
    """
    names = set(dists)
    present = set()
    if any(name.startswith(("nvidia-cuda-nvcc", "nvidia-cuda-runtime")) for name in names):
        present.add("cuda")
    if "nvidia-cuda-nvcc" in names:
        present.add("cuda/bin/nvcc")
    return conditions(present.__contains__)


def activation(
    prefix: str,
    *,
    state: str = IMAGE_STATE,
    sockets: str = "",
    identity: str = "",
    has: Collection[str] | None = None,
) -> tuple[Variable, ...]:
    """The variables of the environment at ``prefix``, in the order they apply, with every placeholder filled in.

    ``state`` is the folder for everything written; ``sockets`` the one for sockets (default: ``state``), of at most
    :data:`SOCKETS_BYTES` bytes; ``identity`` the environment's (see
    :class:`orbit.env.record.EnvironmentRecord`), which keeps its caches apart from those of others; ``has`` the
    conditions it meets (:func:`conditions`), all where nothing is said. Nothing on disk is looked at but the contract.
    """
    cache = f"{state}/cache/{identity[:IDENTITY_DIGITS] or 'orbit'}"
    return tuple(
        Variable(
            name=variable.name,
            value=variable.value.format(prefix=prefix, state=state, cache=cache, sockets=sockets or state),
            how=variable.how,
            reason=variable.reason,
            needs=variable.needs,
        )
        for variable in load_contract().variables
        if has is None or not variable.needs or variable.needs in has
    )


def apply(variables: Sequence[Variable], base: Mapping[str, str]) -> dict[str, str]:
    """``base`` (an environment) after activation. Prepended folders keep the order of the contract."""
    env = dict(base)
    for variable in variables:
        if variable.how == "unset":
            env.pop(variable.name, None)
        elif variable.how == "set" or (variable.how == "default" and not env.get(variable.name)):
            env[variable.name] = variable.value
    for name, value in _prepended(variables).items():
        old = env.get(name, "")
        env[name] = f"{value}:{old}" if old else value
    return env


def _prepended(variables: Sequence[Variable]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for variable in variables:
        if variable.how == "prepend":
            joined[variable.name] = (
                f"{joined[variable.name]}:{variable.value}" if variable.name in joined else variable.value
            )
    return joined


def default_state() -> str:
    """``$ORBIT_STATE``, else ``/tmp/orbit-<uid>``: short, of this node, of this user."""
    return os.environ.get("ORBIT_STATE") or f"/tmp/orbit-{os.getuid()}"  # noqa: S108 - short on purpose, see TMPDIR


def activation_of(prefix: Path, state: str) -> tuple[Variable, ...]:
    """:func:`activation` of an environment on disk: identity and conditions are read from it."""
    identity = read_environment(prefix).identity
    return activation(os.path.abspath(prefix), state=state, identity=identity, has=conditions_of(prefix))


def state_folders(variables: Sequence[Variable], state: str) -> tuple[str, ...]:
    """Folders below ``state`` that must exist before the first process starts, sorted; to be made with mode 0700."""
    inside = {v.value for v in variables if v.value == state or v.value.startswith(f"{state}/")}
    return tuple(sorted({state, *inside}))


def render(variables: Sequence[Variable], state: str, shell: str) -> str:
    """Commands for ``eval``: make the folders, then set and unset. ``shell`` is one of :data:`SHELLS`."""
    words = shlex.join if shell == "sh" else _fish_join
    lines = [words(["mkdir", "-p", "-m", "0700", *state_folders(variables, state)])]
    for variable in variables:
        name, value = variable.name, words([variable.value])
        if variable.how == "unset":
            lines.append(f"unset {name}" if shell == "sh" else f"set -e {name}")
        elif variable.how == "set":
            lines.append(f"export {name}={value}" if shell == "sh" else f"set -gx {name} {value}")
        elif variable.how == "default":
            lines.append(
                f'[ -n "${{{name}:-}}" ] || export {name}={value}'
                if shell == "sh"
                else f'test -n "${name}"; or set -gx {name} {value}'
            )
    for name, value in _prepended(variables).items():
        folders = words([value]) if shell == "sh" else words(value.split(":"))
        lines.append(
            f'export {name}={folders}"${{{name}:+:${name}}}"' if shell == "sh" else f"set -gx {name} {folders} ${name}"
        )
    return "\n".join(lines) + "\n"


def _fish_join(words: Sequence[str]) -> str:
    quoted = ("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words)
    return " ".join(quoted)
