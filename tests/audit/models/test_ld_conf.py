"""The loader's configuration: order of ld.so.conf with includes, and the cache byte by byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.models.ld_conf import (
    CacheEntry,
    ConfiguredFolder,
    MalformedCache,
    configured_folders,
    lookup_table,
    preloaded,
    read_cache,
)
from tests.writers.ld_cache import write_cache

ENTRIES = [
    ("libx.so.1", "/opt/x/libx.so.1", ""),
    ("libx.so.1", "/opt/x/glibc-hwcaps/x86-64-v2/libx.so.1", "x86-64-v2"),
    ("libx.so.1", "/opt/x/glibc-hwcaps/x86-64-v3/libx.so.1", "x86-64-v3"),
    ("liby.so", "/usr/lib/liby.so", ""),
    ("liby.so", "/usr/local/lib/liby.so", ""),
]


def folders(**texts: bytes) -> list[str]:
    """Folders of a configuration: ``conf`` is its top, ``a_conf`` the file a.conf of etc/ld.so.conf.d."""
    top = texts.pop("conf")
    files = {f"etc/ld.so.conf.d/{name.replace('_', '.')}": data for name, data in texts.items()}
    return [item.folder for item in configured_folders({"etc/ld.so.conf": top, **files})]


INCLUDE = b"include /etc/ld.so.conf.d/*.conf\n"


def test_included_files_are_read_where_they_are_included_in_order_of_name() -> None:
    found = folders(
        conf=b"/first\n" + INCLUDE + b"/last\n", b_conf=b"/b\n", a_conf=b"/a1\n/a2/\n", zzz_conf=b"/z\n", c_txt=b"/no\n"
    )
    assert found == ["/first", "/a1", "/a2", "/b", "/z", "/last"]


def test_a_folder_counts_where_it_comes_first_and_keeps_the_file_that_named_it() -> None:
    texts = {"etc/ld.so.conf": INCLUDE, "etc/ld.so.conf.d/a.conf": b"/x\n", "etc/ld.so.conf.d/b.conf": b"/y\n/x\n"}
    assert configured_folders(texts) == (
        ConfiguredFolder("/x", "etc/ld.so.conf.d/a.conf"),
        ConfiguredFolder("/y", "etc/ld.so.conf.d/b.conf"),
    )


def test_comments_relative_names_and_old_directives() -> None:
    assert folders(conf=b"# /no\n/a # /no\nhwcap 1 nosegneg\nlib\n/b, /c:/d\n\n/e=libc6\n") == [
        "/a",
        "/b",
        "/c",
        "/d",
        "/e",
    ]


def test_relative_include_is_beside_the_file() -> None:
    assert folders(conf=b"include ld.so.conf.d/*.conf", a_conf=b"/a") == ["/a"]


def test_circle_of_includes_ends() -> None:
    assert folders(conf=INCLUDE + b"/end", a_conf=b"/a\ninclude /etc/ld.so.conf\n" + INCLUDE) == ["/a", "/end"]


def test_files_that_include_each_other_are_read_once() -> None:
    """Every path through 30 files that include all of them would take longer than there is time."""
    files = {f"etc/ld.so.conf.d/{number}.conf": b"/%d\n" % number + INCLUDE for number in range(30)}
    found = configured_folders({"etc/ld.so.conf": INCLUDE} | files)
    assert {item.folder for item in found} == {f"/{number}" for number in range(30)}


def test_long_chains_and_many_patterns_end() -> None:
    chain = {f"etc/{number}": f"include /etc/{number + 1}\n/{number}\n".encode() for number in range(600)}
    found = configured_folders({"etc/ld.so.conf": b"include /etc/0\n/end"} | chain)
    assert found[-1].folder == "/end"
    many = b"".join(b"include /etc/x%d\n" % number for number in range(200_000))
    assert configured_folders({"etc/ld.so.conf": many + b"/end"})[-1].folder == "/end"


def test_no_configuration() -> None:
    assert configured_folders({}) == ()


def test_preloaded_libraries() -> None:
    assert preloaded({"etc/ld.so.preload": b"# x\n/a/liba.so libb.so:libc.so\n"}) == (
        "/a/liba.so",
        "libb.so",
        "libc.so",
    )
    assert preloaded({}) == ()


@pytest.mark.parametrize("old", [None, 0, 3])
def test_cache_with_and_without_the_old_part(old: int | None) -> None:
    assert read_cache(write_cache(ENTRIES, old=old)) == tuple(CacheEntry(*entry) for entry in ENTRIES)


def test_best_capability_wins_else_the_first() -> None:
    table = lookup_table(read_cache(write_cache(ENTRIES)))
    assert table == {"libx.so.1": "/opt/x/glibc-hwcaps/x86-64-v3/libx.so.1", "liby.so": "/usr/lib/liby.so"}


def test_capability_that_these_hosts_do_not_have() -> None:
    entries = [("liba.so", "/z/liba.so", "power9"), ("liba.so", "/a/liba.so", "")]
    assert lookup_table(read_cache(write_cache(entries))) == {"liba.so": "/a/liba.so"}


def test_entries_of_other_abis_and_of_old_capabilities_are_passed_over() -> None:
    data = write_cache([("liba.so", "/a/liba.so", "")], flags=0x0003)
    assert read_cache(data) == ()
    assert read_cache(write_cache([("liba.so", "/a/liba.so", "")], flags=0x0A03), 183) != ()
    assert read_cache(write_cache([("liba.so", "/a/liba.so", "")], hwcap=4)) == ()


def test_cache_of_the_oldest_format_alone_has_nothing_for_us() -> None:
    assert read_cache(b"ld.so-1.7.0".ljust(16, b"\0")) == ()


@pytest.mark.parametrize("data", [b"", b"nothing", b"glibc-ld.so.cache1.1", write_cache(ENTRIES)[:100]])
def test_damaged_cache_raises_the_dedicated_error(data: bytes) -> None:
    with pytest.raises(MalformedCache, match=r"^etc/ld\.so\.cache: "):
        read_cache(data)


@settings(max_examples=400)
@given(st.integers(0, len(write_cache(ENTRIES)) - 1), st.integers(0, 255), st.integers(0, len(write_cache(ENTRIES))))
def test_flipped_and_cut_caches_read_or_raise(position: int, value: int, cut: int) -> None:
    blob = bytearray(write_cache(ENTRIES))
    blob[position] = value
    for raw in (bytes(blob), bytes(blob[:cut])):
        problem = "etc/ld.so.cache: "
        try:
            count = len(read_cache(raw))
        except MalformedCache as error:
            problem, count = error.what, 0
        assert problem.startswith("etc/ld.so.cache: ")
        assert count <= len(raw) // 24


def test_names_that_overlap_are_damage() -> None:
    data = bytearray(write_cache([("a" * 4000, "/b", "")] + [("c", "/d", "")] * 200))
    (long,) = struct.unpack_from("<I", data, 48 + 4)
    for entry in range(201):
        struct.pack_into("<I", data, 48 + 24 * entry + 4, long)
    with pytest.raises(MalformedCache, match="longer than the file"):
        read_cache(bytes(data))
