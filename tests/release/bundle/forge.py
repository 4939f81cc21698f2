"""Bundles that somebody changed and listed and signed anew, as far as the keys at hand allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.records import compact_json
from orbit.release.attest.dsse import envelope_bytes, parse_envelope
from orbit.release.attest.signers import LocalSigner, sign_statement
from orbit.release.attest.statement import Statement, make_statement, parse_statement
from orbit.release.bundle.model import (
    INDEX,
    PAGE,
    RELEASE,
    SUMS,
    BundleFile,
    Index,
    indexed,
    role_of,
    sha256,
    summed,
    sums,
)
from orbit.release.bundle.targets import headline

Plain = dict[str, Any]


def load(folder: Path) -> dict[str, bytes]:
    """Every file of a bundle."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def save(folder: Path, files: Mapping[str, bytes]) -> None:
    """These files and no others."""
    for place in [place for place in folder.rglob("*") if place.is_file()]:
        place.unlink()
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def statement(files: Mapping[str, bytes], path: str) -> Statement:
    """What a signed file says."""
    return parse_statement(parse_envelope(files[path], path).payload, path)


def resigned(files: Mapping[str, bytes], path: str, signer: LocalSigner, change: Callable[[Plain], object]) -> bytes:
    """A signed file with its predicate changed, signed by ``signer``."""
    before = statement(files, path)
    predicate = msgspec.json.decode(msgspec.json.encode(before.predicate))
    change(predicate)
    after = make_statement(before.subject[0].name, before.image_digest, before.predicate_type, predicate)
    return envelope_bytes(sign_statement(after, signer))


def edited_json(data: bytes, change: Callable[[Plain], object]) -> bytes:
    """A JSON file as Orbit writes it, changed."""
    value = msgspec.json.decode(data)
    change(value)
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n"


def relist(files: dict[str, bytes], signer: LocalSigner, change: Callable[[Plain], object] = lambda _: None) -> None:
    """Make every list say what ``files`` are, and sign the release by ``signer`` with its predicate changed."""
    index = msgspec.json.decode(files[INDEX], type=Index)
    first = headline(index.image.name, index.version, index.targets).encode()
    files[PAGE] = first + files[PAGE][files[PAGE].index(b"\n") :]
    rows = tuple(
        BundleFile(path=path, role=role_of(path), size=len(files[path]), sha256=sha256(files[path]))  # type: ignore[arg-type]
        for path in sorted(indexed(frozenset(files)))
    )
    index = msgspec.structs.replace(index, files=rows)
    files[INDEX] = msgspec.json.format(compact_json(index), indent=1) + b"\n"
    files[SUMS] = sums({path: files[path] for path in summed(frozenset(files))})

    def whole(predicate: Plain) -> None:
        predicate["files"] = {path: sha256(data) for path, data in files.items() if path != RELEASE}
        change(predicate)

    files[RELEASE] = resigned(files, RELEASE, signer, whole)
