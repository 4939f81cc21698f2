"""A small OCI layout written by hand with the standard library: not by the code under test.

``write_image`` takes layers as lists of tar members, so that a test can also write what no honest tool would.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Members = Sequence[tuple[tarfile.TarInfo, bytes]]
Change = Callable[[dict[str, Any]], object]


def file(name: str, data: bytes = b"", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    """A regular file, root's."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    return info, data


def other(name: str, kind: bytes, target: str = "", mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    """A folder, link or device."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info, b""


def folder(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    """A folder, root's."""
    return other(name, tarfile.DIRTYPE, mode=mode)


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    """A symbolic link."""
    return other(name, tarfile.SYMTYPE, target, 0o777)


def tar_bytes(members: Members) -> bytes:
    """The members as a tar stream."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def write_image(
    layout: Path, layers: Sequence[Members], *, config: dict[str, Any] | None = None, diff_ids: Sequence[str] = ()
) -> Path:
    """Write a layout with one image of gzip layers; ``diff_ids`` overrides the right ones."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    tars = [tar_bytes(members) for members in layers]
    right = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in tars]
    described = [
        blob(gzip.compress(data, 1, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
        | {"annotations": {"io.orbit.layer.tar-bytes": str(len(data))}}
        for data in tars
    ]
    document = {
        "created": "1980-01-01T00:00:00Z",
        "architecture": "amd64",
        "os": "linux",
        "config": config or {},
        "rootfs": {"type": "layers", "diff_ids": list(diff_ids or right)},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(document).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": described,
    }
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")],
    }
    (layout / "index.json").write_text(json.dumps(index))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return layout


def _nothing(_document: dict[str, Any]) -> None:
    """The change that changes nothing."""


def rewrite(layout: Path, *, config: Change = _nothing, manifest: Change = _nothing, index: Change = _nothing) -> None:
    """Change documents of a layout of one image. What names a changed one names it rightly, unless changed itself."""
    blobs = layout / "blobs" / "sha256"

    def changed(item: dict[str, Any], change: Change) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((blobs / item["digest"].removeprefix("sha256:")).read_bytes())
        change(document)
        return document

    def describe(item: dict[str, Any], document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        item |= {"digest": f"sha256:{digest}", "size": len(data)}

    top = json.loads((layout / "index.json").read_bytes())
    (described,) = top["manifests"]
    middle = changed(described, _nothing)
    describe(middle["config"], changed(middle["config"], config))
    manifest(middle)
    describe(described, middle)
    index(top)
    (layout / "index.json").write_text(json.dumps(top))


def host_programs(*names: str) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Programs of this machine with the libraries they load, at the places the loader looks for them."""
    wanted: dict[str, Path] = {}
    for name in names:
        program = shutil.which(name)
        assert program is not None, f"{name} is not on this machine"
        wanted[f"usr/bin/{name}"] = Path(program).resolve()
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for path in re.findall(r"(/\S+) \(0x", listed):
            wanted[path.lstrip("/")] = Path(path).resolve()
    return [file(name, path.read_bytes(), 0o755) for name, path in sorted(wanted.items())]
