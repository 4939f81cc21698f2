"""How long it takes to look into an image and to compare it with another one.

    python tests/bench/bench_image_diff.py LAYOUT [--whole] [--folder DIR]

LAYOUT is an image (``orbit image build`` leaves one in dist). Each line is a command in a process of its own with its
wall seconds, CPU seconds and peak memory: ``inspect`` with nothing remembered and again; ``diff`` with a second image
that has another last layer (every file of more than 64 bytes has one other byte in its middle), with nothing remembered
and again; with ``--whole`` also a second image of which every layer is changed so. That takes as much room in DIR
(default: the folder for temporary files) as the image, and some minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from orbit.audit.images.opened import OpenImage, open_image
from orbit.audit.images.tar_stream import TarStream
from orbit.core.console import Silent

SMALL_BYTES = 64


def changed(image: OpenImage, number: int) -> Iterator[bytes]:
    """The tar stream of a layer with one other byte in every file of more than :data:`SMALL_BYTES`."""
    places = [
        member.offset + member.size // 2
        for member in TarStream(image.layer_stream(number), "layer")
        if stat.S_ISREG(member.mode) and member.size > SMALL_BYTES
    ]
    places.reverse()
    at = 0
    for piece in image.layer_stream(number):
        data = bytearray(piece)
        while places and places[-1] < at + len(data):
            data[places.pop() - at] ^= 1
        at += len(piece)
        yield bytes(data)


def variant(source: Path, out: Path, *, whole: bool) -> Path:
    """An image like ``source`` with its last layer, or every layer, changed."""
    image = open_image(str(source), Silent())
    manifest, config = json.loads(image.ref.manifest), json.loads(image.ref.config)
    blobs = out / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for number, layer in enumerate(manifest["layers"]):
        if not whole and number + 1 < len(manifest["layers"]):
            (blobs / layer["digest"][7:]).symlink_to((source / "blobs" / "sha256" / layer["digest"][7:]).resolve())
            continue
        inner, outer, size = hashlib.sha256(), hashlib.sha256(), 0
        pack = zstandard.ZstdCompressor(level=1).compressobj()
        with open(blobs / "partial", "wb") as file:
            for piece in changed(image, number):
                inner.update(piece)
                size += write(file, outer, pack.compress(piece))
            size += write(file, outer, pack.flush())
        (blobs / "partial").rename(blobs / outer.hexdigest())
        layer |= {"digest": f"sha256:{outer.hexdigest()}", "size": size}
        config["rootfs"]["diff_ids"][number] = f"sha256:{inner.hexdigest()}"
    index = json.loads((source / "index.json").read_bytes())
    manifest["config"] |= document(blobs, config)
    index["manifests"][0] |= document(blobs, manifest)
    (out / "index.json").write_text(json.dumps(index))
    (out / "oci-layout").write_bytes((source / "oci-layout").read_bytes())
    return out


def write(file: Any, state: Any, data: bytes) -> int:
    """Write and hash; how many bytes."""
    state.update(data)
    file.write(data)
    return len(data)


def document(blobs: Path, value: Any) -> dict[str, Any]:
    """Write a document as a blob; what describes it."""
    data = json.dumps(value).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def measure(title: str, words: list[str], cache: Path) -> None:
    """Run one command of ``orbit image`` and print what it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    # the peak is that of one process: a program of its own asks for it, as the counter of our children never falls
    program = (
        "import resource, subprocess, sys; status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, "
        "stderr=subprocess.DEVNULL).returncode; print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, sys.executable, "-m", "orbit", "image", *words],
        env=os.environ | {"ORBIT_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    status, peak = done.stdout.split()
    print(f"{title:44} {wall:8.1f} s {cpu:8.1f} s CPU {int(peak) / 1e3:8.0f} MB  status {status}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layout", type=Path)
    parser.add_argument("--whole", action="store_true", help="also compare with an image of which everything changed")
    parser.add_argument("--folder", type=Path, help="where the second image is put")
    args = parser.parse_args()
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        place, layout = Path(folder), str(args.layout)
        cache = place / "cache"
        measure("inspect, nothing remembered", ["inspect", layout], cache)
        time.sleep(3)  # what was read less than two seconds after it was written is not remembered
        measure("inspect, layers remembered", ["inspect", layout], cache)
        measure("inspect --brief", ["inspect", layout, "--brief"], cache)
        other = str(variant(args.layout, place / "last", whole=False))
        time.sleep(3)
        measure("diff, one layer of all, nothing remembered", ["diff", layout, other], place / "cache2")
        measure("diff, one layer of all, again", ["diff", layout, other], place / "cache2")
        measure("diff with itself", ["diff", layout, layout], place / "cache3")
        if args.whole:
            other = str(variant(args.layout, place / "all", whole=True))
            time.sleep(3)
            measure("diff, every file, --quick", ["diff", layout, other, "--quick"], cache)
            measure("diff, every file", ["diff", layout, other], cache)


if __name__ == "__main__":
    main()
