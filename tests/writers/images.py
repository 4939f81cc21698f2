"""Writers of archives as docker and podman save them, of tars that no honest tool writes, and of large libraries."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

from tests.writers.elf import write_elf
from tests.writers.tiny_image import Members, file, folder, symlink, tar_bytes

SITE = "opt/orbit/lib/python3.12/site-packages"


def zstd_frames(data: bytes, *, frame_bytes: int = 1 << 16) -> bytes:
    """``data`` as several zstd frames with a skippable one between the first two."""
    pieces = [data[at : at + frame_bytes] for at in range(0, len(data), frame_bytes)] or [b""]
    frames = [zstandard.compress(piece) for piece in pieces]
    return frames[0] + struct.pack("<II", 0x184D2A50, 5) + b"notes" + b"".join(frames[1:])


def gzip_members(data: bytes) -> bytes:
    """``data`` as two gzip members."""
    half = len(data) // 2
    return gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0)


def config_of(tars: Sequence[bytes], **run: Any) -> bytes:
    """An image configuration with ``null`` where docker writes it."""
    diff_ids = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in tars]
    base = {"Env": ["PATH=/opt/orbit/bin:/usr/bin"], "Entrypoint": None, "Cmd": ["/bin/sh"], "Labels": None}
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": base | run,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    return json.dumps(document).encode()


def docker_archive(layers: Sequence[Members], *, old: bool = False, **run: Any) -> bytes:
    """What ``docker save`` writes: ``old`` as engines before 25 did (a folder for each layer, links for equal ones)."""
    tars = [tar_bytes(members) for members in layers]
    config = config_of(tars, **run)
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    members = [file(name, config)]
    names: list[str] = []
    for number, data in enumerate(tars):
        own = f"{number:064x}/layer.tar" if old else f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
        first = tars.index(data)
        if old:
            members += [folder(f"{number:064x}"), file(f"{number:064x}/VERSION", b"1.0")]
        if first == number:
            members.append(file(own, data))
        elif old:
            members.append(symlink(own, f"../{first:064x}/layer.tar"))
        names.append(own)
    manifest = [{"Config": name, "RepoTags": ["tiny:latest"], "Layers": names}]
    members.append(file("manifest.json", json.dumps(manifest).encode()))
    return tar_bytes(members)


def layout_tar(layout: Path) -> bytes:
    """An OCI layout folder as one tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(layout.rglob("*")):
            archive.add(path, path.relative_to(layout).as_posix(), recursive=False)
    return buffer.getvalue()


def header(name: bytes, size: bytes = b"00000000000", *, flag: bytes = b"0", link: bytes = b"") -> bytes:
    """One tar header with the fields as given and the right checksum."""
    block = b"".join(
        (
            name.ljust(100, b"\0"),
            b"0000644\0",
            b"0000000\0",
            b"0000000\0",
            size.ljust(12, b"\0"),
            b"00000000000\0",
            b" " * 8,
            flag,
            link.ljust(100, b"\0"),
            b"ustar\x0000",
            bytes(247),
        )
    )
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def pax(records: Mapping[str, str]) -> bytes:
    """A pax header block with these records, as it stands before a member."""
    body = b""
    for key, value in records.items():
        rest = f" {key}={value}\n".encode()
        length = len(rest)
        while length != len(str(length)) + len(rest):
            length = len(str(length)) + len(rest)
        body += str(length).encode() + rest
    return header(b"pax", b"%011o" % len(body), flag=b"x") + body + bytes(-len(body) % 512)


def distribution(name: str, files: Mapping[str, bytes], *, site: str = SITE) -> Members:
    """Members of an installed distribution with a true RECORD."""
    from tests.writers.environment import record_digest

    info = f"{name}-1.0.dist-info"
    content = dict(files) | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{path},sha256={record_digest(data)},{len(data)}" for path, data in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode() + b"\n"
    return [file(f"{site}/{path}", data) for path, data in content.items()]


def python_layer() -> Members:
    """A layer with one distribution and one library."""
    library = write_elf(soname="libnative.so", needed=["libc.so.6"])
    return [*distribution("good", {"good/__init__.py": b"answer = 42\n", "good/libnative.so": library})]
