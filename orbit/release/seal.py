"""The seal of a run: ``evidence.json``, made last, names every other file of the folder by its hash.

Whoever edits a record, or puts another one in its place, contradicts the seal; whoever edits the seal contradicts its
own key. It is no signature: it keeps honest people from mistakes. A release is signed as a whole.

What is added to a finished run (a clean room, a second prefix) goes through :func:`add_evidence`, which first looks
whether everything is still as it was sealed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.files import sha256_file, write_atomic
from orbit.core.records import Record, content_key, dump_json, indented_json, load_json
from orbit.errors import InputError, RefusedError
from orbit.release.checkout import Checkout
from orbit.release.evidence import utc_now

SEAL = "evidence.json"
SCHEMA = "orbit.evidence/1"
LAYOUT = "image"
LAYOUT_FILES = ("oci-layout", "index.json")
"""Of the image: everything else in it is named by its own hash."""


class Seal(Record, frozen=True, kw_only=True):
    """What one run left behind."""

    schema: str = SCHEMA
    run: str
    profile: str
    orbit_version: str
    image: str
    """Digest of the image manifest, ``sha256:...``; empty when none was made."""
    checkout: Checkout
    """What the run was made from."""
    files: dict[str, str]
    """sha256 of each file, by its path in the folder."""
    sealed: str
    """When, UTC, ISO 8601."""
    key: str = ""
    """Content key of everything above."""


def keyed(seal: Seal) -> Seal:
    """``seal`` with the key that belongs to it."""
    bare = msgspec.structs.replace(seal, key="")
    return msgspec.structs.replace(bare, key=content_key(bare))


def render(seal: Seal) -> bytes:
    """The bytes of the file."""
    return indented_json(seal)


def hash_files(folder: Path) -> dict[str, str]:
    """sha256 of every file a seal names, by path relative to ``folder``.

    Only regular files count; links and folders other than the image's layout are nothing that a run leaves, and the
    reader of the evidence says so.
    """
    names = [path.name for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
    names += [f"{LAYOUT}/{name}" for name in LAYOUT_FILES if (folder / LAYOUT / name).is_file()]
    return {name: sha256_file(folder / name) for name in sorted(names) if name != SEAL}


def write_seal(folder: Path, seal: Seal) -> Seal:
    """Write ``seal`` with the present hash of every file, and its key."""
    fresh = keyed(msgspec.structs.replace(seal, files=hash_files(folder), sealed=utc_now().isoformat()))
    write_atomic(folder / SEAL, render(fresh))
    return fresh


def read_seal(folder: Path) -> Seal:
    """The seal of the run in ``folder``. Raises :class:`InputError` when there is none, or not one as Orbit writes."""
    path = folder / SEAL
    again = "run `./orbitw ship` again: evidence that was changed afterwards is none"
    if not path.is_file():
        raise InputError(f"{path}: no such file: the run was not finished, or made by an older Orbit", fix=again)
    seal = load_json(path, Seal)
    if seal.schema != SCHEMA:
        raise InputError(f"{path}: schema {seal.schema!r} is not known", fix=f"this version of orbit reads {SCHEMA}")
    if seal.key != keyed(seal).key or path.read_bytes() != render(seal):
        raise InputError(f"{path}: was edited: it does not have the key of its own content", fix=again)
    return seal


def broken(folder: Path, seal: Seal) -> dict[str, str]:
    """What is wrong with each file that is not as sealed, by its path; empty when all is."""
    return differences(seal.files, hash_files(folder))


def differences(sealed: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """See :func:`broken`."""
    wrong: dict[str, str] = {}
    for name in sorted({*sealed, *found}):
        if name not in found:
            wrong[name] = "is gone since the run was sealed"
        elif name not in sealed:
            wrong[name] = "was added since the run was sealed"
        elif sealed[name] != found[name]:
            wrong[name] = f"was changed since the run was sealed: sha256 {found[name][:12]}, then {sealed[name][:12]}"
    return wrong


def add_evidence(folder: Path, name: str, record: Any) -> Path:
    """Put ``record`` as the file ``name`` into a sealed run, and seal it again; an older one of that name is replaced.

    Raises :class:`InputError` for a run without a proper seal and :class:`RefusedError` when a file is not as sealed:
    sealing it again would make a changed record look right.
    """
    seal = read_seal(folder)
    # the file itself is written anew, whatever a killed run left of it
    wrong = {file: how for file, how in broken(folder, seal).items() if file != name}
    if wrong:
        first, how = next(iter(wrong.items()))
        raise RefusedError(
            f"{folder / first}: {how}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""),
            fix="run `./orbitw ship` again; nothing is added to evidence that was changed",
        )
    path = folder / name
    dump_json(path, record)
    write_seal(folder, seal)
    return path
