"""Reading every ELF file of a tree: links and text are left out, damage is a reason and never an exception."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from orbit.audit.binary.dynamic import Export
from orbit.audit.binary.elf import EM_CUDA, HEADER, Elf
from orbit.audit.facts import SharedObject
from orbit.audit.files.objects import elf_candidates, needed_exports, read_objects
from orbit.audit.installed.tree import read_tree
from orbit.audit.run import audit_environment
from orbit.profile.model import load_profile
from tests.writers import elf as writer
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.fatbin import write_container, write_section

HOPPER = write_elf(sections=[(".nv_fatbin", write_section(write_container("sm_90a")))])


def read(folder: Path) -> tuple[list[str], dict[str, str]]:
    objects, damaged = read_objects(folder, read_tree(folder))
    return [item.path for item in objects], damaged


def write(folder: Path, name: str, data: bytes, mode: int = 0o644) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_libraries_by_name_and_programs_by_mode(tmp_path: Path) -> None:
    write(tmp_path, "b/libx.so.1.2", write_elf())
    write(tmp_path, "a.cpython-312-x86_64-linux-gnu.so", write_elf())
    write(tmp_path, "bin/tool", write_elf(), 0o755)
    write(tmp_path, "data.bin", write_elf())
    write(tmp_path, "x.so.d/readme.txt", write_elf())
    assert read(tmp_path) == (["a.cpython-312-x86_64-linux-gnu.so", "b/libx.so.1.2", "bin/tool"], {})


def test_device_code_and_dynamic_facts_of_one_file(tmp_path: Path) -> None:
    write(tmp_path, "x.so", HOPPER)
    ((item,), _damaged) = read_objects(tmp_path, read_tree(tmp_path))
    assert item.dynamic is not None
    assert [[image.arch for image in container.images] for container in item.containers] == [["sm_90a"]]


def test_links_are_not_second_files(tmp_path: Path) -> None:
    write(tmp_path, "lib/libx.so.1", write_elf())
    (tmp_path / "lib/libx.so").symlink_to("libx.so.1")
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "gone.so").symlink_to("none")
    (tmp_path / "circle.so").symlink_to("circle.so")
    assert read(tmp_path) == (["lib/libx.so.1"], {})


def test_folders_and_fifos_named_like_libraries(tmp_path: Path) -> None:
    (tmp_path / "folder.so").mkdir()
    os.mkfifo(tmp_path / "fifo.so")
    assert list(elf_candidates(read_tree(tmp_path))) == []


@pytest.mark.parametrize(
    "data", [b"/* GNU ld script */\nINPUT(libx.so.1)\n", b"#!/bin/sh\n" * 20, b"\xcf\xfa\xed\xfe" * 40, b"PK\x03\x04"]
)
def test_other_formats_named_like_a_library_are_left_out(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, "libx.so", data, 0o755)
    assert read(tmp_path) == ([], {})


def test_device_code_of_its_own_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "kernel.so.cubin", write_elf(machine=EM_CUDA))
    assert read(tmp_path) == ([], {})


@pytest.mark.parametrize(
    ("ident", "machine", "seen"),
    [
        (b"\x01\x01", b"\x03\x00", 3),  # i386
        (b"\x01\x01", b"\x3e\x00", 3),  # x32
        (b"\x01\x01", b"\x28\x00", 40),  # 32-bit ARM
        (b"\x02\x02", b"\x00\x16", 22),  # s390x, big-endian
    ],
)
def test_of_other_classes_only_the_machine_is_read(tmp_path: Path, ident: bytes, machine: bytes, seen: int) -> None:
    write(tmp_path, "lib.so", HOPPER[:4] + ident + HOPPER[6:18] + machine + HOPPER[20:])
    write(tmp_path, "short.so", HOPPER[:4] + ident + b"x")
    (item,) = objects_of(tmp_path)
    assert (item.path, item.machine, item.containers, item.dynamic) == ("lib.so", seen, (), None)


@pytest.mark.parametrize(("data", "names"), [(b"", 1), (bytes(4096), 1), (b"\0\0", 0)])
def test_library_without_content_is_damaged(tmp_path: Path, data: bytes, names: int) -> None:
    """What a copy that was interrupted, or a file system that lost its last writes, leaves behind."""
    write(tmp_path, "libx.so.1", data)
    write(tmp_path, "libx.some-name.parquet", data)
    found, damaged = read(tmp_path)
    assert found == []
    assert list(damaged) == (["libx.so.1"] if names else [])
    assert all("empty, or zeros" in reason for reason in damaged.values())


@pytest.mark.parametrize("size", [6, 20, HEADER.size - 1, HEADER.size, 200, len(HOPPER) - 1])
def test_truncated_library_is_damaged(tmp_path: Path, size: int) -> None:
    write(tmp_path, "libx.so", HOPPER[:size])
    write(tmp_path, "sound.so", HOPPER)
    found, damaged = read(tmp_path)
    assert found == ["sound.so"]
    assert list(damaged) == ["libx.so"]
    assert damaged["libx.so"].startswith("libx.so: ")


def test_damaged_device_code_is_damage(tmp_path: Path) -> None:
    write(tmp_path, "libx.so", write_elf(sections=[(".nv_fatbin", b"\x51" + write_container("sm_90a")[1:])]))
    assert "magic" in read(tmp_path)[1]["libx.so"]


def test_file_that_vanishes_or_is_closed_is_a_reason(tmp_path: Path) -> None:
    path = write(tmp_path, "libx.so", write_elf())
    tree = read_tree(tmp_path)
    path.unlink()
    assert read_objects(tmp_path, tree) == ((), {"libx.so": "No such file or directory"})


USER = write_elf(needed=["libp.so.1"], imports=[writer.Import("f", "V1", "libp.so.1")])
PROVIDER = write_elf(soname="libp.so.1", exports=[writer.Export("f", "V1"), writer.Export("g")])


def with_bad_symbol_names(data: bytes) -> bytes:
    """A library whose headers and version tables are sound, but whose exported symbols have no names."""
    table = next(section for section in Elf(data, "x").sections() if section.name == ".dynsym")
    out = bytearray(data)
    for at in range(table.offset + 24, table.offset + table.size, 24):
        struct.pack_into("<I", out, at, 10**6)
    return bytes(out)


def objects_of(folder: Path) -> tuple[SharedObject, ...]:
    return read_objects(folder, read_tree(folder))[0]


def test_exports_are_read_of_libraries_that_a_version_need_names(tmp_path: Path) -> None:
    write(tmp_path, "user.so", USER)
    write(tmp_path, "libp.so.1", PROVIDER)
    write(tmp_path, "libp-copy.so", PROVIDER)
    write(tmp_path, "libq.so.1", write_elf(soname="libq.so.1", exports=[writer.Export("h")]))
    exports, damaged = needed_exports(tmp_path, objects_of(tmp_path))
    expected = {Export("f", "V1"), Export("g", "")}
    assert exports == {"libp.so.1": expected, "libp-copy.so": expected}
    assert damaged == {}


def test_of_a_family_s_libraries_only_wanted_symbols_are_read(tmp_path: Path) -> None:
    names = ["ncclSend", "ncclRecv", "ncclAllReduce"]
    nccl = write_elf(soname="libnccl.so.2", exports=[writer.Export(name) for name in names])
    write(tmp_path, "libnccl.so.2", nccl)
    user = write_elf(needed=["libnccl.so.2"], imports=[writer.Import("ncclSend"), writer.Import("ncclNew")])
    write(tmp_path, "user.so", user)
    exports, damaged = needed_exports(tmp_path, objects_of(tmp_path))
    assert exports == {"libnccl.so.2": {Export("ncclSend", "")}}
    assert damaged == {}


def test_what_a_family_s_libraries_lack_is_looked_up_in_all_that_is_needed(tmp_path: Path) -> None:
    write(tmp_path, "libnccl.so.2", write_elf(soname="libnccl.so.2", exports=[writer.Export("ncclSend")]))
    inner = write_elf(soname="libinner.so", exports=[writer.Export("ncclNew"), writer.Export("other")])
    write(tmp_path, "libinner.so", inner)
    write(tmp_path, "libshim.so", write_elf(soname="libshim.so", needed=["libinner.so", "libshim.so"]))
    write(tmp_path, "libunused.so", write_elf(soname="libunused.so", exports=[writer.Export("ncclNew")]))
    imports = [writer.Import("ncclSend"), writer.Import("ncclNew")]
    write(tmp_path, "user.so", write_elf(needed=["libshim.so", "libnccl.so.2"], imports=imports))
    exports, _damaged = needed_exports(tmp_path, objects_of(tmp_path))
    assert exports["libinner.so"] == {Export("ncclNew", "")}
    assert "libunused.so" not in exports


def test_library_that_shows_which_string_torch_has_is_read_whole(tmp_path: Path) -> None:
    names = ["_ZN3c101aE", "_ZN3c101bE"]
    write(tmp_path, "libc10.so", write_elf(soname="libc10.so", exports=[writer.Export(name) for name in names]))
    write(tmp_path, "user.so", write_elf(needed=["libc10.so"], imports=[writer.Import("_ZN3c101aE")]))
    exports, _damaged = needed_exports(tmp_path, objects_of(tmp_path))
    assert exports["libc10.so"] == {Export(name, "") for name in names}


def test_damage_of_a_family_s_library_is_a_reason(tmp_path: Path) -> None:
    nccl = write_elf(soname="libnccl.so.2", exports=[writer.Export("ncclSend")])
    path = write(tmp_path, "libnccl.so.2", nccl)
    write(tmp_path, "user.so", write_elf(needed=["libnccl.so.2"], imports=[writer.Import("ncclNew")]))
    objects = objects_of(tmp_path)
    path.write_bytes(nccl[:80])
    exports, damaged = needed_exports(tmp_path, objects)
    assert exports == {}
    assert list(damaged) == ["libnccl.so.2"]


def test_exports_that_cannot_be_read_are_a_reason(tmp_path: Path) -> None:
    write(tmp_path, "user.so", USER)
    write(tmp_path, "a/libp.so.1", with_bad_symbol_names(PROVIDER))
    gone = write(tmp_path, "b/libp.so.1", PROVIDER)
    objects = objects_of(tmp_path)
    assert len(objects) == 3
    gone.unlink()
    exports, damaged = needed_exports(tmp_path, objects)
    assert exports == {}
    assert "runs past the dynamic string table" in damaged["a/libp.so.1"]
    assert damaged["b/libp.so.1"] == "No such file or directory"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


@pytest.mark.parametrize(
    "data", [b"", bytes(200), PROVIDER[:30], PROVIDER[:300], with_bad_symbol_names(PROVIDER), PROVIDER[:-1]]
)
def test_damage_is_a_finding_of_the_audit_and_never_an_exception(env: EnvironmentWriter, data: bytes) -> None:
    env.add("user", {"user/_c.so": USER})
    env.add("vendor", {"vendor/libp.so.1": data})
    report = audit_environment(env.prefix, load_profile("probe"))
    (finding,) = [finding for finding in report.findings if finding.rule == "damaged-binary"]
    assert (finding.subject, finding.fatal) == ("vendor/libp.so.1", True)
    assert finding.evidence["distribution"] == "vendor"
    assert report.facts["shared_objects"] == 2  # the damaged one does not count as read
    assert {other.rule for other in report.findings if other.fatal} == {"damaged-binary", "needs-library"}
