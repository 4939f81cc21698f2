"""Dynamic facts: what is written is read, hashes count symbols right, damage raises the dedicated error."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.binary.dynamic import (
    MAX_NEEDED,
    MAX_RUN_PATH,
    SYMBOL,
    Export,
    Import,
    Names,
    VersionNeed,
    find_exports,
    gnu_hash,
    read_dynamic,
    read_exports,
    read_symbol,
)
from orbit.audit.binary.elf import Elf, MalformedBinary, MalformedElf, open_elf
from tests.writers import elf as writer
from tests.writers.elf import write_elf

NAMES = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)


def test_names_and_run_paths() -> None:
    data = write_elf(
        soname="libx.so.1", needed=["liba.so", "libb.so.2"], rpath="$ORIGIN:/opt/x", runpath="$ORIGIN/../lib:"
    )
    facts = read_dynamic(Elf(data, "x"))
    assert facts is not None
    assert (facts.soname, facts.needed) == ("libx.so.1", ("liba.so", "libb.so.2"))
    assert (facts.rpath, facts.runpath) == (("$ORIGIN", "/opt/x"), ("$ORIGIN/../lib", ""))


def test_run_path_without_content_names_no_folder() -> None:
    facts = read_dynamic(Elf(write_elf(rpath="", runpath=""), "x"))
    assert facts is not None
    assert (facts.rpath, facts.runpath) == ((), ())


def test_empty_runpath_puts_rpath_out_of_force() -> None:
    facts = read_dynamic(Elf(write_elf(rpath="/opt/x", empty_runpath=True), "x"))
    assert facts is not None
    assert (facts.rpath, facts.runpath) == ((), ())


def test_undefined_symbols_without_a_version() -> None:
    """Weak ones may stay open, versioned ones are imports, defined ones are nobody's need."""
    imports = [
        writer.Import("memcpy", "GLIBC_2.14", "libc.so.6"),
        writer.Import("_ZN3c106detail4nameEv"),
        writer.Import("PyErr_Format"),
        writer.Import("__gmon_start__", weak=True),
    ]
    for exports in ([], [writer.Export("mine"), writer.Export("old", "V1")]):
        facts = read_dynamic(Elf(write_elf(imports=imports, exports=exports), "x"))
        assert facts is not None
        assert facts.undefined == ("_ZN3c106detail4nameEv", "PyErr_Format")
        assert [symbol.name for symbol in facts.imports] == ["memcpy"]


def test_undefined_symbols_of_a_file_without_any_versions() -> None:
    facts = read_dynamic(Elf(write_elf(imports=[writer.Import("f")]), "x"))
    assert facts is not None
    assert facts.undefined == ("f",)


def test_versioned_symbols_both_ways() -> None:
    imports = [
        writer.Import("memcpy", "GLIBC_2.14", "libc.so.6"),
        writer.Import("late", "V2", "libv.so", weak=True),
        writer.Import("anything"),
    ]
    exports = [writer.Export("one", "V1"), writer.Export("two", "V2"), writer.Export("plain")]
    elf = Elf(write_elf(soname="libme.so", imports=imports, exports=exports), "x")
    facts = read_dynamic(elf)
    assert facts is not None
    assert facts.imports == (Import("memcpy", "GLIBC_2.14", "libc.so.6", False), Import("late", "V2", "libv.so", True))
    assert facts.needs == (VersionNeed("libc.so.6", "GLIBC_2.14", False), VersionNeed("libv.so", "V2", False))
    assert facts.defines == ("V1", "V2")
    assert read_exports(elf) == {Export("one", "V1"), Export("two", "V2"), Export("plain", "")}


def test_object_that_only_imports_is_counted_by_its_sections() -> None:
    data = write_elf(imports=[writer.Import(f"s{i}", "V", "lib.so") for i in range(5)])
    facts = read_dynamic(Elf(data, "x"))
    assert facts is not None
    assert [symbol.name for symbol in facts.imports] == [f"s{i}" for i in range(5)]


def test_real_file_of_this_interpreter() -> None:
    import _ctypes

    with open_elf(Path(getattr(_ctypes, "__file__", "") or sys.executable)) as elf:
        facts = read_dynamic(elf)
    assert facts is not None
    assert "libc.so.6" in facts.needed
    assert all(symbol.library in facts.needed for symbol in facts.imports)


@given(st.lists(NAMES, unique=True, max_size=30), st.lists(NAMES, unique=True, max_size=10))
def test_every_written_symbol_is_read(exported: list[str], imported: list[str]) -> None:
    data = write_elf(
        exports=[writer.Export(name, "V1") for name in exported],
        imports=[writer.Import(name, "V9", "libother.so") for name in imported],
    )
    elf = Elf(data, "x")
    facts = read_dynamic(elf)
    assert facts is not None
    assert [symbol.name for symbol in facts.imports] == imported
    assert {export.name for export in read_exports(elf)} == set(exported)


SAMPLE = write_elf(
    soname="libme.so",
    needed=["libc.so.6"],
    runpath="$ORIGIN",
    imports=[writer.Import("memcpy", "GLIBC_2.14", "libc.so.6")],
    exports=[writer.Export(f"e{i}", "V1") for i in range(6)],
)


@settings(max_examples=500)
@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=6), st.data())
def test_flipped_bytes_raise_the_dedicated_error_or_read(flips: list[tuple[int, int]], data: st.DataObject) -> None:
    blob = bytearray(SAMPLE)
    for position, value in flips:
        blob[position] = value
    cut = data.draw(st.integers(0, len(blob)))
    for raw in (bytes(blob), bytes(blob[:cut])):
        problem, symbols = "x: ", 0
        try:
            elf = Elf(raw, "x")
            facts = read_dynamic(elf)
            symbols = len(read_exports(elf)) + (len(facts.imports) if facts else 0)
        except MalformedBinary as error:
            problem = error.what
        assert problem.startswith("x: ")
        assert symbols <= 2 * (len(raw) // SYMBOL.size)


def test_wanted_names_are_found_as_the_loader_finds_them() -> None:
    exports = [writer.Export(f"name{i}", "V1" if i % 2 else "") for i in range(40)]
    elf = Elf(write_elf(exports=exports, imports=[writer.Import("undefined")]), "x")
    wanted = Names([*(export.name for export in exports), "undefined", "name", "name400", "other"])
    assert find_exports(elf, wanted).keys() == {export.name for export in exports}
    assert find_exports(Elf(write_elf(imports=[writer.Import("f")]), "x"), Names(["f"])) == {}


@given(st.sets(NAMES, max_size=30), st.sets(NAMES, max_size=30))
def test_lookup_agrees_with_reading_everything(exported: set[str], wanted: set[str]) -> None:
    elf = Elf(write_elf(exports=[writer.Export(name) for name in sorted(exported)]), "x")
    assert find_exports(elf, Names(wanted)).keys() == exported & wanted


def test_two_names_of_one_hash_are_told_apart() -> None:
    """Of the 31 bits that a chain keeps: ``aa`` and ``b@`` have the same (97 * 33 + 97 == 98 * 33 + 64)."""
    assert gnu_hash(b"aa") == gnu_hash(b"b@")
    elf = Elf(write_elf(exports=[writer.Export("aa")]), "x")
    assert find_exports(elf, Names(["b@"])) == {}
    assert find_exports(elf, Names(["b@", "aa"])).keys() == {"aa"}


def test_what_stands_at_a_symbol() -> None:
    elf = Elf(write_elf(exports=[writer.Export("a", data=b"1234"), writer.Export("b", data=b"5678")]), "x")
    found = find_exports(elf, Names(["a", "b"]))
    assert {name: read_symbol(elf, index, 4) for name, index in found.items()} == {"a": b"1234", "b": b"5678"}


@settings(max_examples=300)
@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255))
def test_lookup_in_a_damaged_file_raises_the_dedicated_error_or_finds(position: int, value: int) -> None:
    blob = bytearray(SAMPLE)
    blob[position] = value
    problem, found = "x: ", {}
    try:
        found = find_exports(Elf(bytes(blob), "x"), Names(["e0", "e5", "memcpy"]))
    except MalformedBinary as error:
        problem = error.what
    assert problem.startswith("x: ")
    assert found.keys() <= {"e0", "e5", "memcpy"}


def test_names_that_overlap_are_no_names() -> None:
    """A megabyte of symbols that all point into one long string would otherwise become gigabytes."""
    imports = [writer.Import(f"{i:05}{'x' * (60_000 if i == 0 else 1)}") for i in range(60)]
    sound = write_elf(imports=imports)
    assert read_dynamic(Elf(sound, "x")) is not None
    table = next(section for section in Elf(sound, "x").sections() if section.name == ".dynsym")
    first = sound[table.offset + SYMBOL.size :][:4]
    blob = bytearray(sound)
    for at in range(table.offset + SYMBOL.size, table.offset + table.size, SYMBOL.size):
        blob[at : at + 4] = first
    with pytest.raises(MalformedElf, match="longer than the strings"):
        read_dynamic(Elf(bytes(blob), "x"))


def test_endless_lists_are_damage() -> None:
    assert read_dynamic(Elf(write_elf(needed=["a"] * MAX_NEEDED, rpath=":" * (MAX_RUN_PATH - 1)), "x")) is not None
    for parts in (
        {"needed": ["a"] * (MAX_NEEDED + 1)},
        {"rpath": ":" * MAX_RUN_PATH},
        {"runpath": "/a:" * MAX_RUN_PATH},
    ):
        with pytest.raises(MalformedElf, match="more than"):
            read_dynamic(Elf(write_elf(**parts), "x"))


def test_counts_that_do_not_fit_are_refused_before_anything_is_made_of_them() -> None:
    """1.8e9 symbols in 1.3 KB: found by fuzzing, it asked for 15 GB."""
    data = bytearray(write_elf(soname="x", exports=[writer.Export("a")]))
    at = next(section.offset for section in Elf(bytes(data), "x").sections() if section.name == ".gnu.hash")
    huge = 0x6C626D6E
    for count, said in ((1000, "dynamic symbols in"), (huge, "without an end")):
        struct.pack_into("<I", data, at + 4, count)  # index of the first hashed symbol
        struct.pack_into("<I", data, at + 24, count)  # the only bucket
        for read in (read_dynamic, read_exports):
            with pytest.raises(MalformedElf, match=said):
                read(Elf(bytes(data), "x"))
    struct.pack_into("<I", data, at, huge)
    for look in (read_exports, lambda elf: find_exports(elf, Names({"a"}))):
        with pytest.raises(MalformedElf, match="hash buckets"):
            look(Elf(bytes(data), "x"))


def test_needs_of_versions_that_overlap_are_damage() -> None:
    imports = [writer.Import("f", "V1", "libp.so.1")]
    data = bytearray(write_elf(needed=["libp.so.1"], imports=imports, sections=[("x", struct.pack("<I", 4) * 4000)]))
    places = {section.name: section.offset for section in Elf(bytes(data), "x").sections()}
    need = places[".gnu.version_r"]
    struct.pack_into("<H", data, need + 2, 3000)  # so many versions of one library
    struct.pack_into("<I", data, need + 8, places["x"] - need)  # each four bytes behind the last
    with pytest.raises(MalformedElf, match="more needs of versions"):
        read_dynamic(Elf(bytes(data), "x"))
