"""Readers of archives: wheels on disk and behind a server, source archives, layers, whole images."""

from __future__ import annotations

import atexit
import functools
import gzip
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from orbit.audit.archives.wheels import read_wheels
from orbit.audit.facts import Layout
from orbit.audit.images import layers
from orbit.audit.images.decompress import decompressed
from orbit.audit.images.image import assemble
from orbit.audit.images.image_stream import read_stream
from orbit.audit.images.overlay import stack
from orbit.audit.locks.remote import Part, RemoteZip, Web
from orbit.audit.locks.sdist import read_sdist
from orbit.audit.locks.wheel_metadata import metadata_facts, read_metadata
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from tests.fuzz.base import Reader
from tests.writers.elf import write_elf
from tests.writers.fatbin import write_container
from tests.writers.images import docker_archive, header, pax, python_layer, zstd_frames
from tests.writers.tiny_image import file, folder, other, symlink, tar_bytes
from tests.writers.wheels import Entry as Member
from tests.writers.wheels import wheel_entries, zip_bytes

LAYOUT = Layout(Path("/"), "lib/python3.12/site-packages", (3, 12), "")
WHEEL = "demo-1.0-cp312-cp312-linux_x86_64.whl"


@functools.cache
def wheel_path() -> Path:
    """A file to put archives into; gone when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="orbit-fuzz-wheel-")
    atexit.register(folder.cleanup)
    return Path(folder.name) / WHEEL


def read_wheel(data: bytes) -> None:
    """An archive: its directory, every member, and all that is told of a wheel."""
    wheel_path().write_bytes(data)
    read_wheels([wheel_path()], load_profile("probe"), Silent())


def wheel_seeds() -> Iterable[bytes]:
    """A wheel of every kind of member; data descriptors, zip64, and lies."""
    library = write_elf(soname="libx.so", needed=["libc.so.6"], sections=[(".nv_fatbin", write_container("sm_90a"))])
    files = {"demo/__init__.py": b"x = 1\n", "demo/_c.abi3.so": library, "demo-1.0.data/scripts/tool": b"#!python\n"}
    entries = wheel_entries("demo", files, tags=["cp312-cp312-linux_x86_64"])
    yield zip_bytes(entries)
    yield zip_bytes([replace(entry, zip64=True) for entry in entries], zip64_end=True)
    yield zip_bytes([replace(entry, descriptor=True) for entry in entries])
    yield zip_bytes([*entries, Member("../x", b"x"), Member("demo/l", b"/x", mode=0o120777), Member("demo/s", flags=1)])


class LocalWeb(Web):
    """A server that has one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def part(self, url: str, start: int, stop: int) -> Part:
        """See :meth:`orbit.audit.locks.remote.Web.part`."""
        first = max(0, len(self.data) + start) if start < 0 else start
        return Part(self.data[first : len(self.data) if start < 0 else stop], first, len(self.data))


def read_remote(data: bytes) -> None:
    """The metadata of a wheel behind a server, as from disk."""
    with RemoteZip(LocalWeb(data), f"https://host/{WHEEL}", WHEEL) as source:
        found = read_metadata(source)
    metadata_facts(WHEEL, found, LAYOUT)


def read_source(data: bytes) -> None:
    """A source archive of either form."""
    read_sdist(data, "a-1.zip" if data.startswith(b"PK") else "a-1.tar.gz")


def source_seeds() -> Iterable[bytes]:
    """Source archives with and without what setup.py names."""
    setup = b"sources=['csrc/a.cu', \"csrc/b.cpp\"]\n"
    yield gzip.compress(tar_bytes([file("a-1/setup.py", setup), file("a-1/csrc/a.cu", b"x")]), mtime=0)
    yield tar_bytes([file("a-1/setup.py", setup)])
    yield zip_bytes([Member("a-1/setup.py", setup, deflate=True), Member("a-1/csrc/a.cu", b"x")])


def _tree() -> list[bytes]:
    whiteouts = [file("opt/.wh.gone"), file("opt/x/.wh..wh..opq"), symlink("opt/l", "../opt/x"), file("opt/l/y", b"y")]
    odd = [other("dev/null", b"3"), other("pipe", b"6"), other("hard", b"1", "opt/x/y"), folder("opt/x")]
    return [tar_bytes([*odd, *whiteouts, *python_layer()])]


def read_layers(data: bytes) -> None:
    """The same bytes as two layers on each other, packed and remembered in between."""
    found, missing = layers.read_layer(decompressed([data], "layer"), "layer")
    if missing:
        layers.read_again(decompressed([data], "layer"), "layer", found, missing)
    again = layers.decode(layers.encode(found))
    assert again == found
    stack([found, again])


def layer_seeds() -> Iterable[bytes]:
    """Layers of every kind of member, plain and packed."""
    (tree,) = _tree()
    yield tree
    yield gzip.compress(tree, mtime=0)
    yield zstd_frames(tree)
    yield pax({"path": "a" * 200, "size": "3"}) + header(b"x", b"00000000003") + b"abc".ljust(512, b"\0") + bytes(1024)
    yield header(b"big", b"\x80" + bytes(10) + b"\x05") + b"hello".ljust(512, b"\0") + bytes(1024)


def read_facts(data: bytes) -> None:
    """Remembered facts of a layer."""
    found = layers.decode(data)
    assert layers.decode(layers.encode(found)) == found


def facts_seeds() -> Iterable[bytes]:
    """What the reader of layers remembers."""
    for data in layer_seeds():
        yield layers.encode(layers.read_layer(decompressed([data], "layer"), "layer")[0])


def read_saved(data: bytes) -> None:
    """An image as an engine hands it out."""
    image, found, _remark = read_stream(lambda: iter([data]), "x", "x", "amd64")
    assemble(image, found, frozenset(), load_profile("probe"))


def saved_seeds() -> Iterable[bytes]:
    """Archives of docker's two forms."""
    layer = python_layer()
    yield docker_archive([layer], User="65534")
    yield docker_archive([layer, [file("opt/.wh.x")], layer], old=True)
    yield gzip.compress(docker_archive([layer]), mtime=0)


READERS = {
    "wheel": Reader(read_wheel, wheel_seeds),
    "remote-wheel": Reader(read_remote, wheel_seeds),
    "sdist": Reader(read_source, source_seeds),
    "layer": Reader(read_layers, layer_seeds),
    "layer-facts": Reader(read_facts, facts_seeds),
    "image": Reader(read_saved, saved_seeds),
}
