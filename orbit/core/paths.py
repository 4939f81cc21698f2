"""Where Orbit's own data lies: the top-level folders of a checkout, or the copy inside an installed package;
and folders that people name."""

from __future__ import annotations

import os
from pathlib import Path

from orbit.errors import InputError

PACKAGE = Path(__file__).resolve().parent.parent
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket, its closing zero apart (``sun_path``, unix(7))."""
DATA_FOLDERS = ("env", "kernels", "containers", "ci/qualify", "docs/rules")


def data_root() -> Path:
    """The folder that holds ``env/``, ``kernels/`` and ``containers/``: the checkout, else ``orbit/_data``."""
    checkout = PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "env" / "profiles").is_dir():
        return checkout
    return PACKAGE / "_data"


def checkout_root() -> Path:
    """The checkout (needed by whatever reads uv.lock or builds). Raises :class:`InputError` in an installed copy."""
    root = data_root()
    if not (root / "uv.lock").is_file():
        raise InputError(
            "this command needs Orbit's checkout (uv.lock, recipes, sources)",
            fix="run ./orbitw in a clone of the repository",
        )
    return root


def data_file(*parts: str) -> Path:
    """A data file by its path under the data root, e.g. ``data_file("env", "profiles", "cu130.toml")``."""
    return data_root().joinpath(*parts)


def folder_named(what: str, value: str) -> Path:
    """The folder that ``what`` (a variable or an option) names, absolute, there or not.

    Raises :class:`InputError` when something else is in its way.
    """
    path = Path(value).absolute()
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not there.is_dir():
        raise InputError(f"{what}: {path}: {there} is not a folder", fix=f"name another one: {what}")
    return path
