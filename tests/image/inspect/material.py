"""An image with a bit of everything that inspection tells apart, written by hand."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import zstandard

from tests.writers.elf import write_elf
from tests.writers.fatbin import Entry, write_container, write_section
from tests.writers.images import SITE, distribution
from tests.writers.tiny_image import Members, file, folder, other, rewrite, symlink, write_image

STATUS = b"""Package: libfoo
Status: install ok installed
Version: 1.2-3
Architecture: amd64

Package: gone
Status: deinstall ok config-files
Version: 9
"""
SM_90, SM_80 = bytes(range(256)) * 16, b"ampere" * 500
HOSTILE = "</script><script>alert(1)</script>\x1b[31m\u202e.py"


def library() -> bytes:
    """A library with device code for two architectures, one of which nobody uses."""
    container = write_container(Entry("sm_90a", SM_90), Entry("sm_80", SM_80))
    return write_elf(sections=[(".nv_fatbin", write_section(container))])


def base() -> Members:
    """A Debian base on merged /usr: the list names /lib, the file is in /usr/lib."""
    return [
        folder("usr"),
        folder("usr/lib"),
        symlink("lib", "usr/lib"),
        file("usr/lib/libfoo.so.1", write_elf(), 0o755),
        file("usr/share/doc/libfoo/copyright", b"free" * 100),
        file("var/lib/dpkg/status", STATUS),
        file("var/lib/dpkg/info/libfoo:amd64.list", b"/.\n/lib\n/lib/libfoo.so.1\n/usr/share/doc/libfoo/copyright\n"),
        file("var/lib/dpkg/info/libfoo:amd64.md5sums", b"0  x\n"),
        file("etc/motd", b"old" * 50),
    ]


def stack() -> Members:
    """Distributions, one of them with device code, and files nobody lists."""
    gpu = {
        "gpu/_c.so": library(),
        "gpu/__init__.py": b"x = 1\n" * 40,
        "gpu/cubins/fmhaSm100aKernel.cubin": b"cubin" * 300,
        "gpu/include/a.h": b"#pragma once\n",
    }
    return [
        *distribution("gpu", gpu),
        file(f"{SITE}/gpu/__pycache__/__init__.cpython-312.pyc", b"compiled" * 9),
        *distribution("pure", {"pure/tests/test_x.py": b"assert True\n", "pure/x.py": b"x = 1\n" * 40, HOSTILE: b"y"}),
        file(f"{SITE}/stray.txt", b"nobody's"),
        file("opt/orbit/lib/python3.12/os.py", b"# os\n"),
        other("opt/orbit/hard", b"1", "opt/orbit/lib/python3.12/os.py"),
        file("etc/motd", b"new"),
    ]


def image(tmp_path: Path, *layers: Members, labels: dict[str, str] | None = None) -> Path:
    """A layout of ``layers`` (:func:`base` and :func:`stack`), for the GPUs that ``labels`` name."""
    chosen = {"io.orbit.targets": "h100=sm_90a"} if labels is None else labels
    return write_image(tmp_path / "layout", layers or (base(), stack()), config={"Labels": chosen, "Cmd": ["sh"]})


def as_zstd(layout: Path) -> Path:
    """The same layout with zstd layers of several blocks."""
    blobs = layout / "blobs" / "sha256"

    def change(manifest: dict[str, Any]) -> None:
        for layer in manifest["layers"]:
            tar = gzip.decompress((blobs / layer["digest"][7:]).read_bytes())
            data = zstandard.ZstdCompressor(level=3, write_checksum=True).compress(tar)
            digest = hashlib.sha256(data).hexdigest()
            (blobs / digest).write_bytes(data)
            layer |= {"digest": f"sha256:{digest}", "size": len(data)}
            layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar+zstd"

    rewrite(layout, manifest=change)
    return layout
