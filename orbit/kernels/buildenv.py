"""Build environments: a dependency group of the lock, installed into the store. Never shipped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.files import require_free
from orbit.core.proc import run
from orbit.core.records import content_key
from orbit.core.store import Entry, Store
from orbit.core.tools import explain_uv, uv
from orbit.errors import CommandFailed
from orbit.profile.lock import Lock

FORMAT = 2
KIND = "build-env"
FREE_BYTES = {"cuda": 1_000_000_000, "torch-build": 8_000_000_000}
SITE = Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
"""site-packages relative to the environment; builds run on the CPython that runs orbit (3.12, pyproject.toml)."""


def closure_hash(lock: Lock, group: str) -> str:
    """Identity of everything a group installs: name, version and the sha256 of the wheel or sdist taken.

    What Orbit itself needs is not part of it: a new library of ours changes no kernel.
    """
    packages = []
    for package in lock.closure(groups=(group,), project=False):
        artifact = package.wheel or package.sdist
        packages.append((package.name, package.version, artifact.sha256 if artifact else package.source.url))
    return content_key(packages)


def interpreter() -> Path:
    """The CPython that builds: the base interpreter of the one running orbit."""
    return Path(os.path.realpath(sys.executable))


def environment_inputs(group: str, lock: Lock) -> dict[str, Any]:
    """The key of an installed group in the store."""
    return {
        "format": FORMAT,
        "group": group,
        "closure": closure_hash(lock, group),
        "python": sys.version.split()[0],
        "interpreter": str(interpreter()),
    }


def build_environment(group: str, lock: Lock, store: Store, progress: Progress) -> Entry:
    """The installed group; ``entry.path / "env"`` is a relocatable virtual environment.

    Raises :class:`MissingError` without uv or when the index cannot be reached, :class:`RefusedError` without room.
    """
    python = interpreter()

    def work(folder: Path) -> dict[str, Any]:
        require_free(store.root, FREE_BYTES.get(group, 1_000_000_000), f"the build environment {group}")
        progress.step(f"installing the build environment {group} from the lock")
        env = folder / "env"
        run([uv(), "venv", "--relocatable", "--python", python, env], doing=f"create the build environment {group}")
        try:
            run(
                # --no-build: what has no wheel is not compiled in passing
                [
                    uv(),
                    "sync",
                    "--frozen",
                    "--no-build",
                    "--no-install-project",
                    "--only-group",
                    group,
                    "--python",
                    python,
                ],
                doing=f"install the build environment {group}",
                cwd=lock.path.parent,
                env={"UV_PROJECT_ENVIRONMENT": str(env), "UV_PYTHON_DOWNLOADS": "never"},
                log=folder / "uv.log",
            )
        except CommandFailed as error:
            raise explain_uv(error) from None
        return {"packages": len(lock.closure(groups=(group,), project=False))}

    return store.obtain(KIND, environment_inputs(group, lock), work)
