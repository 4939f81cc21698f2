"""The files of a bundle from where they lie: a sealed run, the checkout, a folder of statements."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orbit.core.files import read_file
from orbit.errors import InputError
from orbit.image.oci import read_layout
from orbit.profile.model import Profile
from orbit.profile.place import PROJECT as PROJECT_FILE
from orbit.profile.place import lock_folder, lock_path
from orbit.release.attest.dsse import SUFFIX
from orbit.release.bundle.model import (
    CONFIG,
    DEFINITION,
    EVIDENCE,
    KEYS,
    LOCK,
    MANIFEST,
    MAX_FILE_BYTES,
    PROFILE,
    PROJECT,
    RUN,
)
from orbit.release.seal import LAYOUT, LAYOUT_FILES

GATE = ("ci", "gate.toml")


def run_files(run: Path) -> dict[str, bytes]:
    """Everything a run left in its folder but the layers of its image; of the image its manifest and configuration.

    Raises :class:`InputError` for a folder without an image.
    """
    layout = read_layout(run / LAYOUT)
    blobs = layout.path / "blobs" / "sha256"
    files = {
        MANIFEST: _read(blobs / layout.digest.removeprefix("sha256:")),
        CONFIG: layout.config_bytes,
    }
    for path in sorted(run.iterdir()):
        if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
            files[RUN + path.name] = _read(path)
    for name in LAYOUT_FILES:
        files[f"{RUN}{LAYOUT}/{name}"] = _read(run / LAYOUT / name)
    return files


def checkout_files(profile: Profile, root: Path) -> dict[str, bytes]:
    """The lock and its project, the profile, and what a release is by definition (gate, smoke lists, recipes)."""
    files = {
        LOCK: _read(lock_path(profile, root)),
        PROJECT: _read(lock_folder(profile, root) / PROJECT_FILE),
        PROFILE: _read(root / "env" / "profiles" / f"{profile.name}.toml"),
        f"{DEFINITION}gate.toml": _read(root.joinpath(*GATE)),
    }
    for name in (*profile.smoke, *profile.smoke_gpu):
        files[f"{DEFINITION}smoke/{name}.toml"] = _read(root / "containers" / "smoke" / f"{name}.toml")
    for name in (*profile.kernels.core, *profile.kernels.extended):
        files[f"{DEFINITION}recipes/{name}.toml"] = _read(root / "kernels" / "recipes" / f"{name}.toml")
    return files


def evidence_files(folder: Path) -> dict[str, bytes]:
    """The statements (``*.intoto.json``) in a folder."""
    return {EVIDENCE + path.name: _read(path) for path in sorted(folder.iterdir()) if path.name.endswith(SUFFIX)}


def key_files(keys: Iterable[Path]) -> dict[str, bytes]:
    """Public keys by their file name; raises :class:`InputError` when two have one name."""
    files: dict[str, bytes] = {}
    for path in keys:
        place = f"{KEYS}{path.name}"
        data = _read(path)
        if files.setdefault(place, data) != data:
            raise InputError(f"{path}: another key with that file name is in the bundle", fix="rename one of them")
    return files


def _read(path: Path) -> bytes:
    try:
        return read_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix="a bundle is made from a whole run and its checkout") from None
