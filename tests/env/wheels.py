"""Writes wheels, site-packages folders and wheelhouses for the tests of this room."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orbit.core.findings import Skipped


@dataclass(frozen=True)
class Built:
    """A built wheel as the environment sees it."""

    dist: str
    version: str
    path: str
    sha256: str


@dataclass(frozen=True)
class House:
    """A wheelhouse as the environment sees it."""

    wheels: Sequence[Built] = ()
    skipped: Sequence[Skipped] = field(default_factory=tuple)


def record_line(path: str, data: bytes) -> str:
    """One line of RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def dist_files(name: str, version: str, files: Mapping[str, bytes], scripts: Mapping[str, str]) -> dict[str, bytes]:
    """``files`` with the ``.dist-info`` of a pure wheel, RECORD included."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    whole = dict(files)
    whole[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    whole[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        lines = "".join(f"{script} = {target}\n" for script, target in scripts.items())
        whole[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    record = "".join(record_line(path, data) for path, data in whole.items()) + f"{info}/RECORD,,\n"
    return {**whole, f"{info}/RECORD": record.encode()}


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    scripts: Mapping[str, str] | None = None,
    unlisted: Mapping[str, bytes] | None = None,
) -> Built:
    """A wheel file in ``folder``. RECORD does not say what is ``unlisted``: files, and folders (``name/``)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in (dist_files(name, version, files, scripts or {}) | dict(unlisted or {})).items():
            archive.writestr(zipfile.ZipInfo(file), data)  # a fixed date: equal wheels have equal hashes
    return Built(dist=name, version=version, path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def install_by_hand(
    site: Path, name: str, version: str, files: Mapping[str, bytes], scripts: Mapping[str, str] | None = None
) -> None:
    """Unpack such a wheel into ``site``, over what is there."""
    for file, data in dist_files(name, version, files, scripts or {}).items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
