"""Readers of binaries: ELF files whole and as streams, device code and its compression, loader caches."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable

import lz4.block
import zstandard

from orbit.audit.binary.cubin import read_cubin, read_ptx
from orbit.audit.binary.dynamic import read_dynamic, read_exports
from orbit.audit.binary.elf import Elf, FileBuffer
from orbit.audit.binary.fatbin import containers_of, search_section, walk_section
from orbit.audit.binary.payload import unpack
from orbit.audit.binary.sass import direct_calls, immediates, pointers, stub_of
from orbit.audit.files.releases import read_embedded, read_release
from orbit.audit.files.scan import scan_member
from orbit.audit.known.device import guard_pattern
from orbit.audit.models.ld_conf import configured_folders, lookup_table, preloaded, read_cache
from tests.fuzz.base import Reader
from tests.writers.cubin import EMPTY, TRAPS, Calls, Says, works, write_cubin
from tests.writers.elf import Export, Import, write_elf
from tests.writers.fatbin import Entry, write_container, write_section
from tests.writers.ld_cache import write_cache

PTX = b"//\n.version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry _Z1kv(\n.param .u64 p\n)\n{\nret;\n}\n"
GUARDS = re.compile(guard_pattern().encode())
LIBRARY_NAMES = ("nccl/lib/libnccl.so.2", "deep_ep_cpp.cpython-312-x86_64-linux-gnu.so", "lib/libcudnn.so.9")
"""Libraries whose release is looked for in their bytes, each by another way."""
CONF = ("etc/ld.so.conf", "etc/ld.so.conf.d/a.conf", "etc/ld.so.conf.d/b.conf", "etc/ld.so.preload")


def _sections() -> bytes:
    images = write_container("sm_90a", Entry("compute_90", compression="zstd")), write_container("sm_100f")
    return write_section(*images)


def read_elf(data: bytes) -> None:
    """Everything that is read of an ELF file."""
    for buffer in (data, as_file(data)):
        elf = Elf(buffer, "x")
        list(containers_of(elf))
        read_dynamic(elf)
        read_exports(elf)


@functools.cache
def memory_file() -> int:
    """A file that is nowhere on disk."""
    return os.memfd_create("orbit-fuzz")


def as_file(data: bytes) -> FileBuffer:
    """``data`` as the audit sees a file: not as bytes, which are more patient with positions that no file has."""
    os.ftruncate(memory_file(), 0)
    os.pwrite(memory_file(), data, 0)
    return FileBuffer(memory_file(), len(data), "x")


def elf_seeds() -> Iterable[bytes]:
    """Small shared objects: versioned symbols, run paths, containers in each section."""
    imports = [Import("f", "V1", "libp.so.1"), Import("g"), Import("w", weak=True)]
    yield write_elf(soname="libx.so", needed=["libp.so.1"], runpath="$ORIGIN:/x", imports=imports)
    yield write_elf(soname="liby.so", rpath="/y", exports=[Export("a", "V1"), Export("b"), Export("c", "V2")])
    for name in (".nv_fatbin", "__nv_relfatbin", ".ldata"):
        yield write_elf(sections=[(name, _sections())])


def read_releases(data: bytes) -> None:
    """The releases that libraries state in their bytes."""
    elf = Elf(data, "x")
    dynamic = read_dynamic(elf)
    for path in LIBRARY_NAMES:
        read_release(elf, path, dynamic)
        read_embedded(elf, path, dynamic)


def release_seeds() -> Iterable[bytes]:
    """Libraries with texts and version functions."""
    text = b"NCCL version 2.28.9 compiled with CUDA 13.0\0cuDNN 9.19.0\0nvshmem version: 3.4.5\0"
    yield write_elf(soname="libnccl.so.2", sections=[(".rodata", text)])
    exports = [Export("ncclGetVersion"), Export("cudnnGetVersion"), Export("nvshmem_version")]
    yield write_elf(soname="libcudnn.so.9", exports=exports, sections=[(".text", b"\xc7\x07\x3d\x6f\0\0\xc3" * 9)])


def read_stream(data: bytes) -> None:
    """An ELF file that goes by once, as a member of a layer; the first byte says in what pieces."""
    step = 1 + (data[0] if data else 0) * 64
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    for path in ("x/lib.so", "bin/x", "etc/ld.so.conf"):
        found = scan_member(path, len(data), 0o755, pieces)
        if found.missing:
            scan_member(path, len(data), 0o755, pieces, hashed=False, keep=found.missing)
        scan_member(path, len(data) + 1, 0o755, pieces)


def read_boxes(data: bytes) -> None:
    """A section of containers, and containers among other things."""
    list(search_section(data, 0, len(data), ".ldata", "x"))
    list(walk_section(data, 0, len(data), ".nv_fatbin", "x"))


def box_seeds() -> Iterable[bytes]:
    """Containers of every kind of entry."""
    yield _sections()
    yield write_section(write_container("sm_90", "sm_100a", "compute_100f", Entry("sm_90", compression="lz4")))
    yield write_container(Entry("sm_90", header_bytes=112)) + bytes(40)


def read_payload(data: bytes) -> None:
    """A compressed image: the first byte says how, the next four what size is stated."""
    size = int.from_bytes(data[1:5], "little")
    unpack(data[5:], ("lz4", "zstd", "")[(data or b"\0")[0] % 3], size, "x")


def payload_seeds() -> Iterable[bytes]:
    """Images as fatbins hold them."""
    plain = write_cubin({"_Z1kv": works()})
    size = len(plain).to_bytes(4, "little")
    yield b"\0" + size + lz4.block.compress(plain, store_size=False)
    yield b"\1" + size + zstandard.compress(plain)
    yield b"\2" + size + plain


def read_code(data: bytes) -> None:
    """A cubin with its kernels explained."""
    read_cubin(data, "x", GUARDS)


def cubin_seeds() -> Iterable[bytes]:
    """Cubins of both ABIs with kernels of every kind."""
    kernels = {
        "_Z1av": EMPTY,
        "_Z1bv": TRAPS,
        "_Z1cv": works(),
        "_Z1dv": Says("Arch conditional MMA"),
        "_Z1ev": Calls(),
    }
    yield write_cubin(kernels)
    yield write_cubin(kernels, arch="sm_100a", functions=["_Z1fv"])
    yield write_cubin({"_Z1kv": Says("sm90", "__assertfail", works=True)}, arch="sm_90", abi=7, note=False)


def read_sass(data: bytes) -> None:
    """Machine code of one kernel."""
    stub_of(data)
    pointers(data)
    immediates(data)
    direct_calls(data)


def sass_seeds() -> Iterable[bytes]:
    """Bodies of kernels."""
    yield EMPTY
    yield TRAPS
    yield works(256)


def ptx_seeds() -> Iterable[bytes]:
    """PTX texts."""
    yield PTX
    yield PTX.replace(b".visible", b".weak") * 2


def read_conf(data: bytes) -> None:
    """What ldconfig and the loader are told: files that may include each other."""
    texts = dict.fromkeys(CONF, data)
    configured_folders(texts)
    preloaded(texts)


def conf_seeds() -> Iterable[bytes]:
    """Folders, and files that include others and themselves."""
    yield b"include ld.so.conf.d/*.conf\n/usr/local/lib # here\nhwcap 1 x\n/a:/b,/c=libc6\n"
    yield b"include /etc/*.conf /etc/ld.so.conf\n/usr/local/cuda/compat\n"


def read_loader_cache(data: bytes) -> None:
    """What ldconfig made, for both machines."""
    lookup_table(read_cache(data))
    read_cache(data, 183)


def cache_seeds() -> Iterable[bytes]:
    """A cache of each format."""
    entries = [("liba.so.1", "/usr/lib/liba.so.1", ""), ("libb.so", "/opt/lib/libb.so", "x86-64-v3")]
    yield write_cache(entries)
    yield write_cache(entries, old=2)


READERS = {
    "elf": Reader(read_elf, elf_seeds),
    "elf-stream": Reader(read_stream, elf_seeds),
    "releases": Reader(read_releases, release_seeds),
    "fatbin": Reader(read_boxes, box_seeds),
    "payload": Reader(read_payload, payload_seeds),
    "cubin": Reader(read_code, cubin_seeds),
    "sass": Reader(read_sass, sass_seeds),
    "ptx": Reader(lambda data: read_ptx(data), ptx_seeds),
    "ld-conf": Reader(read_conf, conf_seeds),
    "ld-cache": Reader(read_loader_cache, cache_seeds),
}
