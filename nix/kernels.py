"""Give the store of a Nix build its build environment, which Orbit would install from the package index otherwise.

    python nix/kernels.py PROFILE GROUP ENVIRONMENT

ENVIRONMENT holds the wheels of the same group of the same lock, checked against the same hashes, with run paths set for
the Nix store. The wheel that is built with it is proved like any other, but is not the one that a build without Nix
makes: interpreter and host compiler are others.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from orbit.core.paths import checkout_root
from orbit.core.store import open_store
from orbit.kernels.buildenv import KIND, environment_inputs
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile


def main(profile: str, group: str, environment: Path) -> None:
    """Put a link to ``environment`` where `orbit kernels build` looks for the installed ``group``."""

    def work(folder: Path) -> dict[str, Any]:
        (folder / "env").symlink_to(environment)
        return {"from": "nix"}

    lock = read_lock(checkout_root() / load_profile(profile).lock / "uv.lock")
    open_store().obtain(KIND, environment_inputs(group, lock), work)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
