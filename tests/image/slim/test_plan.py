"""Slimming one file, end to end: what goes, that nothing else changes, and what is refused."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbit.audit.binary.coverage import result_of, results_of
from orbit.audit.binary.elf import open_elf
from orbit.audit.binary.fatbin import read_containers
from orbit.core.records import canonical
from orbit.errors import InputError
from orbit.image.slim.facts import FilePlan, SlimRefused
from orbit.image.slim.fatbin import measure
from orbit.image.slim.plan import NO_CODE, NOTHING, apply_plan, check_written, plan_file, require_same_results
from orbit.image.slim.rules import Forbidden, Proved, SlimRules
from orbit.profile.model import SlimPolicy
from tests.image.slim.world import TARGETS, Library, Memory
from tests.writers.fatbin import Entry, write_container

CAPABILITIES = ("9.0", "10.0")
ANY = SlimPolicy(unproved=True)
HOLES = SlimPolicy(unproved=True, layout="holes")
FAT = write_container(Entry("sm_80", b"a" * 9000), Entry("sm_90a", b"b" * 700), Entry("sm_100", b"c" * 600))


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def slim(path: Path, policy: SlimPolicy = ANY) -> Path:
    plan = plan_file(path, TARGETS, policy=policy)
    out = path.with_name(f"{path.name}.{policy.layout}")
    apply_plan(plan, path, out)
    return out


# --- what is decided --------------------------------------------------------------------------------------------------


def test_entries_of_undeclared_devices_go_and_the_plan_says_so(tmp_path: Path) -> None:
    path = save(tmp_path / "a.so", Library([FAT, FAT]).write())
    plan = plan_file(path, TARGETS, policy=ANY, name="x/a.so")
    assert (plan.path, plan.layout, plan.targets, plan.size) == ("x/a.so", "shrink", CAPABILITIES, path.stat().st_size)
    assert plan.removed_entries == 2
    assert plan.removed_bytes == 2 * (64 + 9000)
    assert plan.new_size < plan.size - 3 * 4096
    rows = [(row.arch, row.keep, row.reason, row.entries) for row in plan.by_arch()]
    assert rows == [("sm_100", True, "loads", 2), ("sm_80", False, "unused", 2), ("sm_90a", True, "loads", 2)]
    assert msgspec.json.decode(canonical(plan), type=FilePlan) == plan


def test_the_result_names_both_files(tmp_path: Path) -> None:
    path = save(tmp_path / "a.so", Library([FAT]).write())
    path.chmod(0o755)
    plan = plan_file(path, TARGETS, policy=ANY)
    done = apply_plan(plan, path, tmp_path / "b.so")
    again = plan_file(tmp_path / "b.so", TARGETS, policy=ANY)
    assert (done.original_sha256, done.sha256) == (plan.sha256, again.sha256)
    assert (done.original_size, done.size) == (plan.size, plan.new_size)
    assert done.size == (tmp_path / "b.so").stat().st_size
    assert (tmp_path / "b.so").stat().st_mode & 0o777 == 0o755
    assert again.why_not == NOTHING


def test_holes_take_less_room_on_disk(tmp_path: Path) -> None:
    box = write_container(Entry("sm_80", os.urandom(200_000)), Entry("sm_90", b"b"), Entry("sm_100", b"c"))
    path = save(tmp_path / "a.so", Library([box]).write())
    done = apply_plan(plan_file(path, TARGETS, policy=HOLES), path, tmp_path / "b.so")
    assert done.size == path.stat().st_size
    if done.disk_bytes == done.size:
        pytest.skip("this file system has no holes")
    assert done.disk_bytes < done.size - 190_000


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"#!/bin/sh\n", NO_CODE),
        (b"", NO_CODE),
        (Library().write(), NO_CODE),
        (Library([write_container("sm_90", "sm_100")]).write(), NOTHING),
        (Library([write_container("sm_80", "sm_86")]).write(), NOTHING),
    ],
)
def test_a_file_with_nothing_to_lose_says_why(tmp_path: Path, data: bytes, why: str) -> None:
    path = save(tmp_path / "a.so", data)
    plan = plan_file(path, TARGETS, policy=ANY)
    assert (plan.layout, plan.why_not, plan.removed_bytes, plan.removed_entries) == ("none", why, 0, 0)
    with pytest.raises(ValueError, match="nothing to do"):
        apply_plan(plan, path, tmp_path / "b.so")


def test_a_licence_and_a_missing_proof_keep_hands_off(tmp_path: Path) -> None:
    path = save(tmp_path / "libx.so", Library([FAT]).write())
    known = SlimRules(
        schema=1,
        forbidden=(Forbidden(distributions=("x",), clause="1.2", reason="not to be changed at all"),),
        proved=(Proved(files=("p/*",), layout="holes", by="compared on an H200"),),
    )

    def why(name: str, distribution: str, policy: SlimPolicy) -> tuple[str, str]:
        plan = plan_file(path, TARGETS, name=name, distribution=distribution, policy=policy, known=known)
        return plan.layout, plan.why_not

    assert why("p/libx.so", "x", ANY) == ("none", "licence: 1.2: not to be changed at all")
    assert why("q/libx.so", "y", SlimPolicy())[0] == "none"
    assert why("p/libx.so", "y", SlimPolicy()) == ("holes", "proved on hardware in place only")
    assert why("p/libx.so", "x", SlimPolicy(licensed=True))[0] == "holes"
    assert why("q/libx.so", "x", SlimPolicy(licensed=True, unproved=True)) == ("shrink", "")


def test_the_plan_of_an_untouched_file_still_counts(tmp_path: Path) -> None:
    path = save(tmp_path / "libcublas.so.13", Library([FAT]).write())
    plan = plan_file(path, TARGETS, policy=ANY)
    assert plan.layout == "none"
    assert plan.why_not.startswith("licence: CUDA Toolkit EULA")
    assert [row.bytes for row in plan.by_arch() if not row.keep] == [64 + 9000]


# --- that nothing else changes ----------------------------------------------------------------------------------------

ARCHS = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120",
         "compute_90", "compute_80", "compute_120", "lto_90"]  # fmt: skip
entries = st.builds(
    Entry,
    st.sampled_from(ARCHS),
    st.binary(min_size=1, max_size=40).flatmap(lambda seed: st.integers(1, 200).map(lambda n: seed * n)),
    st.sampled_from(["", "", "zstd", "lz4"]),
    st.sampled_from([64, 80, 96, 112]),
)
boxes = st.lists(entries, min_size=0, max_size=6).map(lambda items: write_container(*items))
libraries = st.builds(
    Library,
    containers=st.lists(boxes, max_size=5),
    relocatable=st.lists(boxes, max_size=3),
    embedded=st.one_of(st.just(b""), boxes.map(lambda box: b"table" * 8 + box + b"more" * 9)),
    gap=st.sampled_from([0, 8, 24]),
    align=st.sampled_from([4096, 4096, 65536]),
    in_place=st.booleans(),
    phdr=st.booleans(),
    static_symbols=st.booleans(),
)
policies = st.builds(
    SlimPolicy,
    ptx=st.sampled_from(["keep", "newest", "drop"]),
    others=st.sampled_from(["leave", "one"]),
    layout=st.sampled_from(["holes", "shrink"]),
    unproved=st.just(True),
)


def loadable(entries: Sequence[tuple[str, bytes]], capability: str) -> list[tuple[str, bytes]]:
    """What a device of that capability chooses from: machine code, or PTX where there is none."""
    result = result_of(frozenset(arch for arch, _data in entries), capability)
    return [item for item in entries if result != "none" and result_of(frozenset((item[0],)), capability) == result]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(libraries, policies)
def test_every_target_finds_what_it_found_and_nothing_else_changes(
    tmp_path: Path, library: Library, policy: SlimPolicy
) -> None:
    path = save(tmp_path / "a.so", library.write())
    plan = plan_file(path, TARGETS, policy=policy)
    if plan.layout == "none":
        assert plan.why_not in (NOTHING, NO_CODE)
        return
    out = tmp_path / "b.so"
    apply_plan(plan, path, out)
    old, new = Memory(path.read_bytes()), Memory(out.read_bytes())
    # every wrapper still names a container with what each target loads
    before, after = old.relocated(), new.relocated()
    wrappers = library.find(".nvFatBinSegment")
    slots = [wrappers.address + at for at in range(8, wrappers.size, 24)]
    assert before.keys() == after.keys()
    for slot in slots:
        found, kept = old.container(before[slot]), new.container(after[slot])
        rest = iter(found)
        assert all(item in rest for item in kept)  # in their old order
        assert bool(found) == bool(kept)
        for capability in CAPABILITIES:
            assert loadable(found, capability) == loadable(kept, capability)
    # the audit says the same of both files
    for capability in CAPABILITIES:
        assert results_of(read_containers(path), capability) == results_of(read_containers(out), capability)
    # every other byte is what and where it was; pointers differ by their targets alone
    for part in library.parts:
        if part.segment is None or part.kind == 8 or part.name in ("__nv_relfatbin", ".nv_fatbin", ".cask_resource"):
            continue
        whole = bytearray(new.read(part.address, part.size))
        if part.name == ".rela.dyn":
            table = struct.iter_unpack("<QQq", whole)
            whole = bytearray(b"".join(struct.pack("<QQq", place, info, before[place]) for place, info, _to in table))
        if part.name == ".nvFatBinSegment" and library.in_place:
            for slot in slots:
                at = slot - part.address
                assert whole[at : at + 8] == struct.pack("<Q", after[slot])
                whole[at : at + 8] = struct.pack("<Q", before[slot])
        assert whole == part.data, part.name
    bss = library.find(".bss")
    assert new.read(bss.address, bss.size) == bytes(bss.size)
    assert sections(out)[".comment"] == b"made\0"
    # and once is enough
    again = plan_file(out, TARGETS, policy=policy)
    assert (again.layout, again.why_not) == ("none", NOTHING)


def sections(path: Path) -> dict[str, bytes]:
    """Content of each section that has some, through the section table."""
    data = path.read_bytes()
    header = struct.unpack("<16sHHIQQQIHHHHHH", data[:64])
    table = list(struct.iter_unpack("<IIQQQQIIQQ", data[header[6] : header[6] + 64 * header[12]]))
    names = table[header[13]]
    text = data[names[4] : names[4] + names[5]]
    return {
        text[item[0] : text.index(b"\0", item[0])].decode(): data[item[4] : item[4] + item[5]]
        for item in table
        if item[1] != 8
    }


@pytest.mark.parametrize("layout", ["holes", "shrink"])
def test_the_dynamic_loader_agrees(tmp_path: Path, layout: str) -> None:
    """The system's own ld.so maps both files, and the wrappers it relocated lead to the same containers."""
    library = Library([FAT] * 5, relocatable=[FAT] * 3, phdr=True)
    path = save(tmp_path / "a.so", library.write())
    out = slim(path, HOLES if layout == "holes" else ANY)
    for file, size in ((path, len(FAT)), (out, len(FAT) - 9064)):
        handle = ctypes.CDLL(str(file))
        wrappers = (ctypes.c_char * 24 * 8).in_dll(handle, "wrappers")
        for number in range(8):
            _magic, _version, place, _next = struct.unpack("<IIQQ", bytes(wrappers[number]))
            box = ctypes.string_at(place, size)
            assert box[8:16] == struct.pack("<Q", size - 16)
            assert box[16:].endswith(FAT[16 + 9064 :])


def test_a_shrunk_file_has_a_true_section_table_and_symbols(tmp_path: Path) -> None:
    library = Library([FAT] * 4)
    out = slim(save(tmp_path / "a.so", library.write()))
    found = sections(out)
    assert found[".eh_frame"] == library.find(".eh_frame").data
    assert found[".strtab"] == library.find(".strtab").data
    new = Memory(out.read_bytes())
    values = [item[4] for item in struct.iter_unpack("<IBBHQQ", found[".symtab"])][1:]
    assert values == [new.relocated()[library.find(".nvFatBinSegment").address + 24 * n + 8] for n in range(4)]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_file_that_changed_since_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.so", Library([FAT]).write())
    out = save(tmp_path / "b.so", b"what was there")
    plan = plan_file(path, TARGETS, policy=ANY)
    data = bytearray(path.read_bytes())
    data[data.index(b"bbbb")] ^= 1
    path.write_bytes(data)
    with pytest.raises(SlimRefused, match="not the file that was planned"):
        apply_plan(plan, path, out)
    path.write_bytes(data + b"\0")
    with pytest.raises(SlimRefused, match="not the file that was planned"):
        apply_plan(plan, path, out)
    path.write_bytes(b"")
    with pytest.raises(SlimRefused, match="not the file that was planned"):
        apply_plan(plan, path, out)
    assert out.read_bytes() == b"what was there"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.so", "b.so"]


def test_a_plan_that_takes_too_much_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.so", Library([FAT]).write())
    plan = plan_file(path, TARGETS, policy=ANY)
    box = plan.containers[0]
    wrong = tuple(msgspec.structs.replace(entry, keep=entry.arch == "sm_80") for entry in box.entries)
    with open_elf(path) as elf, pytest.raises(SlimRefused, match="less in it than before"):
        require_same_results("a.so", measure(elf), [msgspec.structs.replace(box, entries=wrong)], CAPABILITIES)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = save(tmp_path / "a.so", Library([FAT, FAT]).write())
    plan = plan_file(path, TARGETS, policy=ANY)
    with pytest.raises(SlimRefused, match="not what was planned"):
        check_written(plan, path)
    out = slim(path)
    check_written(plan, out)
    data = bytearray(out.read_bytes())
    new = Memory(bytes(data))
    table = new.dynamic()[7]
    named = frozenset(list(new.relocated().values())[:2])
    check_written(plan, out, named=named)
    data[table + 16] ^= 8  # just in front of the first container: that is no device code
    with pytest.raises(SlimRefused, match="not what was planned"):
        check_written(plan, save(tmp_path / "c.so", bytes(data)), named=named)
    data[table + 16] ^= 8 + 16
    with pytest.raises(SlimRefused, match="not what was planned"):
        check_written(plan, save(tmp_path / "c.so", bytes(data)))
    with pytest.raises(SlimRefused, match="no ELF file"):
        check_written(plan, save(tmp_path / "d.so", b"no ELF file"))


WHOLE = Library([FAT, FAT], relocatable=[FAT], embedded=b"0123456789abcdef" + FAT).write()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.integers(0, len(WHOLE) - 1))
def test_a_file_cut_short_is_refused_or_unharmed(tmp_path: Path, size: int) -> None:
    check_hostile(tmp_path, WHOLE[:size])


TABLES = len(Library().write())
HEADERS = [*range(500), *range(len(WHOLE) - TABLES + 400, len(WHOLE))]
NUMBERS = [struct.pack("<Q", n) for n in (0, 8, 64, 4096, len(WHOLE), 1 << 40, (1 << 64) - 1)]
lies = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(HEADERS), st.integers(0, len(WHOLE) - 8)),
        st.one_of(st.integers(0, 255).map(lambda n: bytes([n])), st.binary(min_size=4, max_size=8),
                  st.sampled_from(NUMBERS)),
    ),
    min_size=1,
    max_size=3,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=500)
@given(lies)
def test_a_lying_file_is_refused_or_unharmed(tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(WHOLE)
    for at, new in changes:
        data[at : at + len(new)] = new
    check_hostile(tmp_path, bytes(data[: len(WHOLE)]))


def check_hostile(folder: Path, data: bytes) -> None:
    """Either a sound result or a refusal; never another exception, a changed source or a half-written file."""
    path, out = save(folder / "a.so", data), folder / "b.so"
    out.unlink(missing_ok=True)
    for policy in (HOLES, ANY):
        try:
            plan = plan_file(path, TARGETS, policy=policy)
            if plan.layout != "none":
                apply_plan(plan, path, out)
                check_written(plan, out)
        except (InputError, SlimRefused):
            assert not out.exists() or policy is ANY
    assert path.read_bytes() == data
    assert not list(folder.glob(".*partial"))


def test_a_container_that_reaches_into_another_section_is_refused(tmp_path: Path) -> None:
    library = Library([FAT])
    data = bytearray(library.write())
    table = struct.unpack("<16sHHIQQQIHHHHHH", data[:64])[6]
    index = [part.name for part in library.parts].index(".eh_frame")
    struct.pack_into("<Q", data, table + 64 * index + 24, library.find(".nv_fatbin").offset + 100)
    path = save(tmp_path / "a.so", bytes(data))
    with pytest.raises(InputError, match=r"eh_frame lies in the section \.nv_fatbin"):
        plan_file(path, TARGETS, policy=HOLES)
