"""Rendered shell scripts, run with recorders in the place of docker and srun: what these would have been given."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File, render

RECORDER = """#!/bin/sh
printf '%s\\0' {name} "$@" >"{out}/$(ls {out} | wc -l)"
"""
FIXED_PORTS = tuple(range(21000, 21008))


def steady(plan: LaunchPlan, form: str) -> tuple[File, ...]:
    """Rendered with an identity and ports that do not follow from fields the contract gains later."""
    return render(msgspec.structs.replace(plan, identity="0123456789abcdef" * 4, ports=FIXED_PORTS), form)


def check_shell(text: str, folder: Path) -> None:
    """A POSIX shell reads it, and shellcheck, where it is installed, finds no error and nothing to warn of."""
    path = folder / "script"
    path.write_text(text)
    for shell in ("/bin/sh", "dash"):
        if shutil.which(shell):
            subprocess.run([shell, "-n", str(path)], check=True)
    if checker := shutil.which("shellcheck"):
        done = subprocess.run([checker, "-S", "warning", "-s", "sh", str(path)], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode()


def recorded(text: str, folder: Path, *words: str, programs: tuple[str, ...], **env: str) -> list[list[str]]:
    """Run the script; the words of every call of one of ``programs``, the program's name first."""
    tools, out = folder / "tools", folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    tools.mkdir(exist_ok=True)
    for name in programs:
        (tools / name).write_text(RECORDER.format(name=name, out=out))
        (tools / name).chmod(0o755)
    script = folder / "script"
    script.write_text(text)
    variables = {"PATH": f"{tools}:{os.defpath}", "TMPDIR": str(folder), "HOME": str(folder)} | env
    done = subprocess.run(["/bin/sh", str(script), *words], env=variables, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.fail(done.stderr.decode())
    calls = sorted(out.iterdir(), key=lambda path: int(path.name))
    return [path.read_bytes().decode().removesuffix("\0").split("\0") for path in calls]


def options_of(call: list[str], flag: str) -> list[str]:
    """The values of an option of docker's, which may stand several times; not of the command's."""
    own = call[: call.index("--entrypoint")]
    return [own[place + 1] for place, word in enumerate(own) if word == flag]
