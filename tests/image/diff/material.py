"""Two images with a difference of every sort, written by hand."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from orbit.core.console import Silent
from orbit.image.diff.records import FileDifference, ImageDiff
from orbit.image.diff.run import Options, diff_images
from tests.writers.elf import write_elf
from tests.writers.environment import record_digest
from tests.writers.fatbin import Entry, write_container, write_section
from tests.writers.images import SITE
from tests.writers.tiny_image import Members, file, rewrite, tar_bytes, write_image
from tests.writers.wheels import Entry as ZipEntry
from tests.writers.wheels import zip_bytes

LABELS = {"Labels": {"io.orbit.profile": "tiny"}}
STATUS = b"Package: libfoo\nStatus: install ok installed\nVersion: %s\n"


def base(version: bytes = b"1.0-1", motd: bytes = b"hello\n") -> Members:
    """A Debian base with one package."""
    return [
        file("var/lib/dpkg/status", STATUS % version),
        file("var/lib/dpkg/info/libfoo.list", b"/.\n/usr/lib/libfoo.so\n/etc/foo.conf\n"),
        file("usr/lib/libfoo.so", write_elf(sections=[(".note.gnu.build-id", b"\4\0\0\0" + version)]), 0o755),
        file("etc/foo.conf", b"a = 1\n"),
        file("etc/motd", motd),
    ]


def rich(version: str, body: bytes, *, extra: bool = False) -> Members:
    """A distribution of that version; its folder of metadata is named for it."""
    info = f"rich-{version}.dist-info"
    files = {"rich/__init__.py": body, "rich/same.py": b"same = True\n"} | (
        {"rich/new.py": b"n = 1\n"} if extra else {}
    )
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: rich\nVersion: {version}\n".encode()
    files[f"{info}/LICENSE"] = b"do what you want\n"
    rows = [f"{path},sha256={record_digest(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]).encode() + b"\n"
    return [file(f"{SITE}/{path}", data) for path, data in files.items()]


def left_layers() -> list[Members]:
    """The image that others are compared with."""
    return [base(), rich("14.0", b"x = 1\ny = 2\n"), [file("opt/tool", b"#!/bin/sh\n", 0o755)]]


def library(code: bytes) -> bytes:
    """A library whose device code for one architecture is ``code``."""
    container = write_container(Entry("sm_90a", code), Entry("sm_100a", b"the same" * 64))
    return write_elf(sections=[(".nv_fatbin", write_section(container)), (".text", b"\x90" * 64)])


def image(path: Path, layers: list[Members], **config: object) -> Path:
    """A layout of Orbit's kind with layers that have names."""
    written = write_image(path, layers, config=LABELS | config)

    def name(manifest: dict[str, list[dict[str, dict[str, str]]]]) -> None:
        for number, layer in enumerate(manifest["layers"]):
            layer["annotations"]["io.orbit.layer.name"] = ("base", "stack", "top", "more")[number]

    rewrite(written, manifest=name)
    return written


def compared(left: Path, right: Path, *, whole: bool = False, quick: bool = False) -> ImageDiff:
    return diff_images(str(left), str(right), Options(whole=whole, quick=quick), Silent())


def one_file(tmp_path: Path, name: str, left: bytes, right: bytes) -> FileDifference:
    """The difference of two images that differ in one file."""
    one = image(tmp_path / "left", [base(), [file(name, left)]])
    two = image(tmp_path / "right", [base(), [file(name, right)]])
    (group,) = compared(one, two).groups
    (found,) = group.files
    return found


def tar_of(**contents: bytes) -> bytes:
    return tar_bytes([file(name, data) for name, data in contents.items()])


def zip_of(**contents: bytes) -> bytes:
    return zip_bytes([ZipEntry(name, data) for name, data in contents.items()])


def ar_of(members: dict[str, bytes], *, time: int = 0) -> bytes:
    """A static library with GNU's long names."""
    names = b"".join(f"{name}/\n".encode() for name in members if len(name) > 15)
    found = b"!<arch>\n"

    def member(name: str, data: bytes) -> bytes:
        head = f"{name:<16}{time:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        return head + data + b"\n" * (len(data) % 2)

    if names:
        found += member("//", names)
    at = 0
    for name, data in members.items():
        if len(name) > 15:
            found += member(f"/{at}", data)
            at += len(name) + 2
        else:
            found += member(f"{name}/", data)
    return found


def gz(data: bytes, *, time: int = 0, level: int = 6, name: str = "") -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(name, "wb", level, buffer, mtime=time) as stream:
        stream.write(data)
    return buffer.getvalue()
