"""Take the fingerprint of an environment on this node, or of this very process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orbit.core.files import tree_hash
from orbit.core.paths import DATA_FOLDERS, PACKAGE, data_root
from orbit.core.proc import run
from orbit.core.records import content_key
from orbit.env.activate import activation_of, apply, default_state, state_folders
from orbit.env.record import RECORD_PATH, EnvironmentRecord, read_environment
from orbit.errors import CheckFailed, InputError
from orbit.launch.fingerprint import spoken
from orbit.launch.fingerprint.digests import digests
from orbit.launch.fingerprint.maps import mapped, soname
from orbit.launch.fingerprint.model import Fingerprint, Library
from orbit.smoke.machine import MachineFacts, look

PYTHONS = ("bin/python3.12", "bin/python3", "bin/python")
IMAGE_VARIABLE = "ORBIT_IMAGE_DIGEST"
PROGRAM = "import sys; sys.path.append(sys.argv[1]); from orbit.launch.fingerprint.stack.loaded import main; main()"
LOAD_S = 300.0
"""For torch and Ray to be imported from a cold network file system."""
SKIPPED = frozenset({"__pycache__", "_data"})


def take(prefix: Path, *, loaded: bool, read: bool = False, machine: MachineFacts | None = None) -> Fingerprint:
    """The fingerprint of the environment at ``prefix`` on this node.

    ``loaded``: a process with its Python imports the stack, and what is mapped there is told; ``read``: no digest is
    believed that can be computed (see :mod:`orbit.launch.fingerprint.digests`); ``machine``: driver and devices, where
    the caller has asked already. Raises :class:`InputError` for a folder without a Python, and :class:`CheckFailed`
    when the stack cannot be imported.
    """
    prefix = Path(os.path.realpath(prefix))
    python = python_of(prefix)
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(lambda: machine or look())
        said = _load_stack(prefix, python) if loaded else {}
        libraries = _libraries(said.get("maps", ""), prefix, said.get("program", ""), read=read)
        return _put_together(prefix, python, libraries, said.get("versions", {}), asked.result(), read=read)


def take_self(*, machine: MachineFacts | None = None) -> Fingerprint:
    """The fingerprint of this process, with what is mapped into it now: for a trainer whose stack is loaded."""
    prefix = Path(os.path.realpath(os.environ.get("ORBIT_PREFIX") or sys.prefix))
    maps = spoken.read_maps()
    program = os.path.realpath(sys.executable)
    libraries = _libraries(maps, prefix, program, read=False)
    return _put_together(prefix, Path(program), libraries, spoken.versions(maps), machine or look(), read=False)


def own_prefix(env: Mapping[str, str]) -> Path:
    """The environment this process runs in: what the entry point says, else that of this Python."""
    return Path(env.get("ORBIT_PREFIX") or sys.prefix)


def python_of(prefix: Path) -> Path:
    """The interpreter of an environment. Raises :class:`InputError` when there is none."""
    for name in PYTHONS:
        if (prefix / name).is_file():
            return prefix / name
    raise InputError(f"{prefix}: no environment (no {PYTHONS[0]} in it)", fix="name one: --prefix PREFIX")


def orbit_hash() -> str:
    """sha256 over Orbit's own files and data, the same in a checkout and in an image that was made of it."""
    parts = {"orbit": tree_hash(PACKAGE, skip=SKIPPED)}
    for name in DATA_FOLDERS:
        parts[name] = tree_hash(data_root() / name)
    return content_key(parts)


def _put_together(
    prefix: Path,
    python: Path,
    libraries: Sequence[Library],
    versions: Mapping[str, str],
    machine: MachineFacts,
    *,
    read: bool,
) -> Fingerprint:
    record = read_environment(prefix) if (prefix / RECORD_PATH).is_file() else None
    return Fingerprint(
        image=os.environ.get(IMAGE_VARIABLE, ""),
        environment=record.identity if record else "",
        lock=record.lock if record else "",
        kernels=_kernels(record),
        orbit=orbit_hash(),
        interpreter=_interpreter(prefix, python, record, read=read),
        glibc=_glibc(),
        libraries=tuple(libraries),
        versions=dict(versions),
        driver=", CUDA ".join(filter(None, (machine.driver, machine.driver_cuda))),
        devices=tuple(f"{gpu.name} {gpu.capability}" for gpu in machine.gpus),
    )


def _kernels(record: EnvironmentRecord | None) -> str:
    """Over what the build manifests say and over the wheels themselves; empty where Orbit built none."""
    built = [dist for dist in record.distributions if dist.origin == "wheelhouse"] if record else []
    if record is None or not (built or record.kernels):
        return ""
    return content_key({"kernels": record.kernels, "wheels": [[dist.name, dist.sha256] for dist in built]})


def _interpreter(prefix: Path, python: Path, record: EnvironmentRecord | None, *, read: bool) -> str:
    program = os.path.realpath(python)
    if record is not None:
        version = record.python
    elif program == os.path.realpath(sys.executable):
        version = sys.version.split()[0]
    else:
        ask: list[str | Path] = [python, "-I", "-S", "-c", "import sys; print(sys.version.split()[0])"]
        version = run(ask, doing=f"asking {python} for its version", timeout_s=30).stdout.decode().strip()
    found = digests([program], prefix, state=default_state(), read=read)[program]
    return f"{version} sha256:{found.sha256}"


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):
        return ""


def _libraries(maps: str, prefix: Path, program: str, *, read: bool) -> tuple[Library, ...]:
    found = mapped(maps, program=program)
    there = [each.path for each in found if not each.deleted]
    known = digests(there, prefix, state=default_state(), read=read) if there else {}
    libraries = []
    for each in found:
        digest = known.get(each.path)
        libraries.append(
            Library(
                name=soname(each.path) if digest else each.path.rpartition("/")[2],
                path=each.path,
                sha256=digest.sha256 if digest else "",
                inside=each.path.startswith(f"{prefix}/"),
                stated=digest.stated if digest else False,
            )
        )
    return tuple(sorted(libraries, key=lambda each: (each.name, each.path)))


def _load_stack(prefix: Path, python: Path) -> dict[str, Any]:
    done = run(
        [python, "-P", "-s", "-c", PROGRAM, str(PACKAGE.parent)],
        doing=f"loading the stack of {prefix}",
        env=_variables(prefix),
        timeout_s=LOAD_S,
        check=False,
    )
    try:
        said = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode(errors="replace").strip().splitlines()[-8:]
        told = "\n".join(f"  | {line}" for line in lines)
        raise CheckFailed(
            f"{prefix}: loading the stack ended with status {done.returncode}\n{told}",
            fix="orbit doctor --explain 'the last line' knows common causes; orbit image smoke runs every import",
        ) from None
    for name, error in said["errors"].items():
        raise CheckFailed(
            f"{prefix}: import {name}: {error}", fix="orbit doctor --explain with that text knows common causes"
        )
    result: dict[str, Any] = said
    return result


def _variables(prefix: Path) -> dict[str, str]:
    """This process's own where the environment is active already, else those of its activation."""
    env = dict(os.environ)
    active = os.path.realpath(env.get("ORBIT_PREFIX") or sys.prefix) == str(prefix)
    if active or not (prefix / RECORD_PATH).is_file():
        return env
    state = default_state()
    variables = activation_of(prefix, state)
    for folder in state_folders(variables, state):
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
    return apply(variables, env)
