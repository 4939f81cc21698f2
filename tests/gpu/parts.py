"""Take chosen distributions of an installed environment to a GPU machine as files, in parts of a given size.

    python tests/gpu/parts.py pack --site PREFIX/lib/python3.12/site-packages --out dist/gpu/parts
    python3 tests/gpu/parts.py unpack dist/gpu/parts /tmp/carried

For machines that have torch but no network. ``pack`` follows the distributions' requirements, leaves out what the other
machine brings (torch, triton, the CUDA wheels but cublas) and files that no check of ``containers/smoke/gpu.toml``
loads, overwrites machine code for other GPUs than the named one with zeros (the driver never reads it, and zeros travel
for nothing), and writes ``partNNN.of.NNN/data`` (one gzip stream cut into pieces). ``pack`` needs Orbit's package,
``unpack`` only the standard library.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import IO

DISTS = ("orbit-probe", "orbit-kernels", "causal-conv1d", "transformer-engine-torch", "transformer-engine-cu13",
         "transformer-engine", "sglang-kernel", "nvidia-cublas")  # fmt: skip
THERE = ("torch", "triton", "numpy", "nvidia-*", "cuda-*", "setuptools", "ninja", "onnx*", "einops", "packaging")
"""What a machine with torch has; requirements matching these are not followed. Named distributions are always taken."""
DROP = ("sgl_kernel/flash_ops*", "sgl_kernel/flashmla_ops*", "sgl_kernel/infllm_ops*",
        "nvidia/cu13/lib/libnvblas*", "nvidia/cu13/include/*", "*/__pycache__/*")  # fmt: skip
PART_MIB = 56
CHUNK = 1 << 20


class Splitter:
    """A write-only file cut into pieces."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self.pieces: list[Path] = []
        self.file: IO[bytes] | None = None
        self.room = 0

    def write(self, data: bytes) -> int:
        """Write everything, opening new pieces as they fill."""
        rest = memoryview(data)
        while rest:
            if self.file is None or self.room == 0:
                self.close()
                self.pieces.append(self.folder / f"piece{len(self.pieces):03d}")
                self.file, self.room = self.pieces[-1].open("wb"), self.limit
            piece, rest = rest[: self.room], rest[self.room :]
            self.file.write(piece)
            self.room -= len(piece)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """End the current piece."""
        if self.file is not None:
            self.file.close()
            self.file = None


class Joiner:
    """The pieces as one readable file."""

    def __init__(self, paths: list[Path]) -> None:
        self.files = [path.open("rb") for path in paths]

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes; empty at the end of the last piece."""
        while self.files:
            data = self.files[0].read(size if size >= 0 else CHUNK)
            if data:
                return data
            self.files.pop(0).close()
        return b""


def normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(installed: dict[str, metadata.Distribution], names: list[str]) -> Iterator[metadata.Distribution]:
    """The named distributions and, of what they require, whatever is installed and not already there."""
    queue, seen = [normal(name) for name in names], set()
    while queue:
        name = queue.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if name not in installed:
            sys.exit(f"parts: {name} is not installed in that environment")
        yield installed[name]
        for requirement in installed[name].requires or ():
            text, _, marker = requirement.partition(";")
            found = re.match(r"[A-Za-z0-9._-]+", text)
            wanted = normal(found[0]) if found else ""
            if "extra" not in marker and wanted in installed and not any(fnmatch.fnmatch(wanted, p) for p in THERE):
                queue.append(wanted)


def add(archive: tarfile.TarFile, path: Path, name: str, arch: str) -> None:
    """Add a file; in a shared object, machine code and PTX that a GPU of ``arch`` does not load are zeros."""
    if ".so" not in path.suffixes or path.stat().st_size < CHUNK:
        archive.add(path, arcname=name, recursive=False)
        return
    from orbit.audit.binary.fatbin import read_containers

    data = bytearray(path.read_bytes())
    for container in read_containers(path):
        own = {image.offset for image in container.images if image.arch.rstrip("af") == arch}
        for image in container.images:
            # machine code of another GPU never loads here; PTX is a fallback only where there is no machine code
            if image.offset not in own and (own or image.kind == "elf"):
                data[image.offset : image.offset + image.size] = bytes(image.size)
    info = archive.gettarinfo(path, arcname=name)
    info.type, info.linkname, info.size = tarfile.REGTYPE, "", len(data)
    archive.addfile(info, io.BytesIO(data))


def pack(args: argparse.Namespace) -> None:
    """Write the parts and ``manifest.json``."""
    site, out = args.site.resolve(), args.out
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        sys.exit(f"parts: {out} is not empty")
    installed = {normal(dist.metadata["Name"]): dist for dist in metadata.distributions(path=[str(site)])}
    splitter, taken, total = Splitter(out, args.part_mib << 20), [], 0
    drop = (*DROP, *(f"sgl_kernel/{name}/*" for name in ("sm90", "sm100") if name != args.arch.replace("_", "")))
    with (
        gzip.GzipFile(fileobj=splitter, mode="wb", compresslevel=6, mtime=0) as stream,  # type: ignore[call-overload]
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        for dist in closure(installed, args.dist or list(DISTS)):
            taken.append(f"{normal(dist.metadata['Name'])}=={dist.version}")
            for entry in dist.files or ():
                path = Path(str(dist.locate_file(entry))).resolve()
                if site not in path.parents or not path.is_file():
                    continue
                name = path.relative_to(site).as_posix()
                if not any(fnmatch.fnmatch(name, pattern) for pattern in drop):
                    add(archive, path, name, args.arch)
                    total += path.stat().st_size
    splitter.close()
    for number, piece in enumerate(splitter.pieces):
        folder = out / f"part{number:03d}.of.{len(splitter.pieces):03d}"
        folder.mkdir()
        piece.rename(folder / "data")
    (out / "manifest.json").write_text(json.dumps({"distributions": taken, "bytes": total}, indent=1))
    print(f"parts: {len(taken)} distributions, {total / 1e6:.0f} MB in {len(splitter.pieces)} parts under {out}")


def unpack(args: argparse.Namespace) -> None:
    """Join the parts and extract them into a folder for PYTHONPATH."""
    folders = sorted(args.parts.glob("part*.of.*"))
    want = int(folders[0].name.split(".of.")[1]) if folders else 0
    if not folders or len(folders) != want:
        sys.exit(f"parts: {len(folders)} of {want} parts are under {args.parts}: carry the others here too")
    joined = Joiner([folder / "data" for folder in folders])
    with (
        gzip.GzipFile(fileobj=joined) as stream,  # type: ignore[call-overload]
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(args.dest, filter="data")
    print(f"parts: unpacked into {args.dest}")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("pack")
    command.add_argument("--site", type=Path, required=True, help="site-packages of the environment")
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--dist", action="append", help="a distribution to take (default: what gpu.toml needs)")
    command.add_argument("--arch", choices=("sm_90", "sm_100"), default="sm_90", help="the other machine's GPU")
    command.add_argument("--part-mib", type=int, default=PART_MIB)
    command.set_defaults(run=pack)
    command = commands.add_parser("unpack")
    command.add_argument("parts", type=Path)
    command.add_argument("dest", type=Path)
    command.set_defaults(run=unpack)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
