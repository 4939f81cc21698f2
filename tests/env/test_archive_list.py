"""orbit.env.archive_list: what a list may say, and what it may not."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.env.archive_list import (
    LIST,
    MANIFEST,
    SCHEMA,
    Line,
    Manifest,
    counts,
    disk_bytes,
    keyed,
    order,
    parse_list,
    parse_manifest,
    path_fault,
    render_list,
    render_manifest,
    resolve,
    tree_fault,
)
from orbit.env.record import RECORD_PATH
from orbit.errors import InputError

DIGEST = "A" * 43
FOLDER, FILE, PROGRAM, LINK = 0o40755, 0o100644, 0o100755, 0o120777
GOOD = [
    Line("bin", FOLDER, 0, ""),
    Line("bin/python", LINK, 0, "python3.12"),
    Line("bin/python3.12", PROGRAM, 3, DIGEST),
    Line("share", FOLDER, 0, ""),
    Line("share/orbit", FOLDER, 0, ""),
    Line(RECORD_PATH, FILE, 5, DIGEST),
]


def manifest_of(lines: list[Line], listed: bytes | None = None) -> Manifest:
    data = render_list(lines) if listed is None else listed
    manifest = Manifest(
        environment="e", profile="p", lock="l", prefix="/opt/orbit", python="3.12.1", interpreter="i", orbit="",
        platform="linux-x86_64", glibc="2.34", system_libraries=(), list_bytes=len(data),
        list_sha256=hashlib.sha256(data).hexdigest(), **counts(lines),
    )  # fmt: skip
    return keyed(manifest)


def parse(lines: list[Line]) -> tuple[Line, ...]:
    return parse_list(render_list(lines), manifest_of(lines), "x")


def with_line(*more: Line) -> list[Line]:
    return sorted([*GOOD, *more], key=lambda line: order(line.path))


def test_a_good_list_comes_back_as_it_was() -> None:
    assert list(parse(GOOD)) == GOOD
    assert counts(GOOD) == {"files": 2, "folders": 3, "links": 1, "bytes": 8}
    assert disk_bytes(GOOD) == 6 * 4096


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (Line("../x", FILE, 1, DIGEST), "leads out"),
        (Line("/etc/x", FILE, 1, DIGEST), "not relative"),
        (Line("bin/./x", FILE, 1, DIGEST), "not in its plain form"),
        (Line("bin//x", FILE, 1, DIGEST), "not in its plain form"),
        (Line("bin/../../x", FILE, 1, DIGEST), "leads out"),
        (Line("bin/a\0b", FILE, 1, DIGEST), "no name"),
        (Line("bin/" + "n" * 256, FILE, 1, DIGEST), "no name"),
        (Line(MANIFEST, FILE, 1, DIGEST), "reserved"),
        (Line(LIST, FILE, 1, DIGEST), "reserved"),
        (Line("bin/suid", 0o104755, 1, DIGEST), "kind and mode"),
        (Line("bin/world", 0o100666, 1, DIGEST), "kind and mode"),
        (Line("dev", 0o20666, 0, ""), "kind and mode"),
        (Line("block", 0o60666, 0, ""), "kind and mode"),
        (Line("pipe", 0o10644, 0, ""), "kind and mode"),
        (Line("lib/x", FILE, 1, DIGEST), "no folder"),
        (Line("bin/python/x", FILE, 1, DIGEST), "no folder"),
        (Line("bin/python3.12/x", FILE, 1, DIGEST), "no folder"),
        (Line("bin/x", FILE, 1, "short"), "sha256"),
        (Line("bin/x", FOLDER, 0, DIGEST), "sha256"),
        (Line("bin/x", FOLDER, 7, ""), "size"),
        (Line("out", LINK, 0, "/etc/passwd"), "out of the environment"),
        (Line("out", LINK, 0, "../etc"), "out of the environment"),
        (Line("out", LINK, 0, "bin/../../etc"), "out of the environment"),
        (Line("out", LINK, 0, "nowhere"), "to nothing"),
        (Line("out", LINK, 0, "out"), "to nothing"),
        (Line("out", LINK, 0, ""), "out of the environment"),
    ],
)
def test_what_no_environment_has_is_refused(line: Line, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse(with_line(line))


def test_a_link_through_a_link_cannot_climb_out() -> None:
    """By its words ``y/../..`` stays inside; the kernel follows ``y`` first and is out."""
    tricks = [
        Line("a", FOLDER, 0, ""),
        Line("a/b", FOLDER, 0, ""),
        Line("a/b/c", FOLDER, 0, ""),
        Line("a/b/c/l", LINK, 0, "y/../.."),
        Line("a/b/c/y", LINK, 0, "../../../top"),
        Line("top", FOLDER, 0, ""),
    ]
    with pytest.raises(InputError, match="out of the environment"):
        parse(with_line(*tricks))
    kinds = {line.path: line for line in tricks}
    assert resolve("a/b/c/y", kinds) == "top"
    assert resolve("a/b/c/y/..", kinds) == ""
    assert resolve("a/b/c/l", kinds) is None


def test_order_doubles_and_sums_count() -> None:
    with pytest.raises(InputError, match="twice or out of order"):
        parse([*GOOD, GOOD[-1]])
    with pytest.raises(InputError, match="twice or out of order"):
        parse([*GOOD[:3], GOOD[2], *GOOD[3:]])
    with pytest.raises(InputError, match="twice or out of order"):
        parse([*GOOD[3:], *GOOD[:3]])
    lines = GOOD[:-1]
    with pytest.raises(InputError, match="not an environment"):
        parse(lines)
    listed = render_list(GOOD)
    with pytest.raises(InputError, match="its list has 8"):
        parse_list(listed, msgspec.structs.replace(manifest_of(GOOD), bytes=9), "x")
    with pytest.raises(InputError, match="damaged"):
        parse_list(listed.replace(b"bin", b"lib"), manifest_of(GOOD), "x")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"100755", b"0100755", "plain form"),
        (b"\t3\t", b"\t03\t", "size"),
        (b"\t3\t", b"\t-3\t", "size"),
        (b"\t3\t", b"\t9999999999999999999\t", "size"),
        (b"bin/python\t", b"bin/\xff\t", "utf-8"),
        (b"\n", b"", "no end"),
        (b"bin\t", b"bin\t\t", "four fields"),
    ],
)
def test_only_the_plain_form_is_read(old: bytes, new: bytes, says: str) -> None:
    data = render_list(GOOD)
    listed = data[:-1] if old == b"\n" else data.replace(old, new, 1)
    with pytest.raises(InputError, match=says):
        parse_list(listed, manifest_of(GOOD, listed), "x")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{}", "schema None"),
        (b"[]", "schema None"),
        (b'{"schema": "orbit.env-archive/2"}', "schema 'orbit.env-archive/2'"),
        (b"{", "cannot be read"),
        (b"\xff", "cannot be read"),
        (f'{{"schema": "{SCHEMA}"}}'.encode(), "cannot be read"),
        (render_manifest(manifest_of(GOOD)).replace(b'"p"', b'"q"'), "not as it was written"),
        (render_manifest(manifest_of(GOOD)).replace(b'": ', b'":'), "not as it was written"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_what_is_no_manifest_is_bad_input(data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_manifest(data, "x")


PARTS = st.sampled_from(["a", "b", "..", ".", "", "c d", "e\tf", "\n", "\0", "bin", "share", "orbit"])
LINES = st.builds(
    Line,
    st.lists(PARTS, min_size=1, max_size=4).map("/".join),
    st.sampled_from([FOLDER, FILE, PROGRAM, LINK, 0o104755, 0o20666, 0, 0o100777]),
    st.sampled_from([0, 1, 5, 10**15]),
    st.one_of(st.sampled_from(["", DIGEST, "..", "/x"]), st.lists(PARTS, max_size=5).map("/".join)),
)


@given(st.lists(LINES, max_size=6))
def test_whatever_a_list_says_what_is_accepted_is_one_tree_of_plain_names(more: list[Line]) -> None:
    """Property: accepted lines can be written below an empty folder, and nothing of them leads out of it."""
    lines = with_line(*more)
    try:
        accepted = parse(lines)
    except InputError:
        return
    assert tree_fault(accepted) == ""
    seen: set[str] = set()
    kinds = {line.path: line for line in accepted}
    for line in accepted:
        assert path_fault(line.path) == ""
        assert line.path not in seen
        parent = line.path.rpartition("/")[0]
        assert not parent or kinds[parent].is_folder
        seen.add(line.path)
        assert resolve(line.path, kinds) is not None
