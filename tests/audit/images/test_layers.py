"""The facts of one layer: what is where, what was read of it, and that nothing is lost on a wire or in a cache."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.binary.dynamic import Export as Symbol
from orbit.audit.files import keeper, scan
from orbit.audit.images import layers
from orbit.audit.images.layers import (
    FOREIGN_LINK,
    NO_MARK,
    Entry,
    LayerFacts,
    decode,
    encode,
    join,
    pack_exports,
    read_again,
    read_layer,
    split,
    unpack_exports,
)
from orbit.audit.images.tar_stream import TarError
from orbit.errors import InputError
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import record_digest
from tests.writers.fatbin import Entry as Image
from tests.writers.fatbin import write_container
from tests.writers.images import header
from tests.writers.tiny_image import Members, file, folder, other, symlink, tar_bytes


def facts(members: Members) -> LayerFacts:
    found, missing = read_layer([tar_bytes(members)], "layer")
    assert not missing
    return found


def entries(members: Members) -> dict[str, Entry]:
    return dict(facts(members).entries())


def problems(members: Members) -> list[tuple[str, str]]:
    return facts(members).all_problems()


def test_folders_nobody_listed_are_there() -> None:
    found = entries([file("a/b/c", b"x")])
    assert list(found) == ["a", "a/b", "a/b/c"]
    assert found["a"].number == layers.IMPLIED
    assert found["a"].mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("link", "target", "path", "where"),
    [
        ("l", "real/deep", "l/x", "real/deep/x"),
        ("real/l", "../other", "real/l/x", "other/x"),
        ("real/l", "../../../../other", "real/l/x", "other/x"),
        ("real/deep/l", "/abs/here", "real/deep/l/sub/x", "abs/here/sub/x"),
        ("l", "./real/./deep/", "l/x", "real/deep/x"),
    ],
)
def test_links_of_the_layer_are_followed(link: str, target: str, path: str, where: str) -> None:
    found = entries([folder("real"), folder("real/deep"), symlink(link, target), file(path, b"1")])
    assert where in found
    assert path not in found


def test_a_path_below_a_file_or_a_circle_of_links_is_a_problem() -> None:
    assert problems([file("a"), file("a/b")])[0][0] == "a/b"
    assert problems([symlink("a", "b"), symlink("b", "a"), file("a/x")])[0][0] == "a/x"
    assert problems([file("", b"x")])[0][1] == "the root of the image is no folder"


def test_later_members_replace_earlier_ones() -> None:
    found = facts([folder("a"), file("a/x", b"1"), file("a", b"22"), file("a", b"333")])
    assert [(path, entry.size) for path, entry in found.entries()] == [("a", 3)]
    assert list(found.all_digests().values()) == [record_digest(b"333")]


def test_a_layer_that_replaces_folders_over_and_over_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MAX_REPLACED", 3)
    with pytest.raises(TarError, match="over and over"):
        facts([folder("a"), file("a")] * 4)


def test_hard_links_are_the_file_they_name() -> None:
    link = tarfile.LNKTYPE
    found = facts([file("d/a", b"data"), other("b", link, "/d/a"), symlink("s", "d"), other("c", link, "s/a")])
    by_path = dict(found.entries())
    assert by_path["b"] == by_path["c"] == by_path["d/a"]
    assert len(found.all_digests()) == 1


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ([other("b", tarfile.LNKTYPE, "a")], FOREIGN_LINK),
        ([other("a", tarfile.LNKTYPE, "b"), other("b", tarfile.LNKTYPE, "a")], FOREIGN_LINK),
        ([other("a", tarfile.LNKTYPE, "a")], FOREIGN_LINK),
        ([folder("d"), other("a", tarfile.LNKTYPE, "d")], "a hard link to a folder"),
        ([file("d/.wh..")], "a whiteout of nothing"),
        ([file("d/.wh.")], "a whiteout of nothing"),
    ],
)
def test_what_engines_refuse_is_a_problem(members: Members, word: str) -> None:
    found = problems(members)
    assert found
    assert {why for _path, why in found} == {word}


def test_whiteouts_and_opaque_folders_are_facts_and_no_files() -> None:
    found = facts([file("a/.wh.b"), file("c/.wh..wh..opq"), file(".wh..wh.plnk")])
    assert (split(found.whiteouts), split(found.opaque)) == (["a/b"], ["c"])
    assert [path for path, _entry in found.entries()] == ["a", "c"]


def test_what_is_read_of_files() -> None:
    library = write_elf(soname="liba.so", exports=[Export("f")], sections=[(".nv_fatbin", write_container("sm_90a"))])
    found = facts(
        [file("lib/liba.so", library), file("etc/passwd", b"root:x:0:0"), file("bin/sh", b"#!/x\n", 0o755),
         file("lib/libcut.so", library[:100]), file("lib/libzero.so", bytes(10))]
    )  # fmt: skip
    numbers = {path: entry.number for path, entry in found.entries()}
    assert found.all_objects()[numbers["lib/liba.so"]].containers[0].images[0].arch == "sm_90a"
    assert unpack_exports(found.exports[numbers["lib/liba.so"]]) == {Symbol("f", "")}
    assert found.texts == {numbers["etc/passwd"]: b"root:x:0:0"}
    assert found.heads == {numbers["bin/sh"]: b"#!/x\n"}
    assert set(found.damaged) == {numbers["lib/libcut.so"], numbers["lib/libzero.so"]}
    assert (found.files, found.tar_bytes % 512) == (5, 0)


def test_names_that_are_not_utf_8_survive() -> None:
    odd = "lib\udcff.so"
    library = write_elf(soname="x", needed=["y"], imports=[Import("f", "V", "y")])
    members = [file(f"d/{odd}", library), symlink(f"l{odd}", f"t{odd}"), file(f"{odd}/.wh.{odd}")]
    found = decode(encode(facts(members)))
    by_path = dict(found.entries())
    assert by_path[f"l{odd}"].target == f"t{odd}"
    assert split(found.whiteouts) == [f"{odd}/{odd}"]
    (item,) = found.all_objects().values()
    assert item.path == f"d/{odd}"
    assert item.dynamic is not None
    assert item.dynamic.imports[0].name == "f"


def test_a_stream_without_end_mark_is_a_problem() -> None:
    found, _missing = read_layer([header(b"a")], "layer")
    assert found.all_problems() == [("", NO_MARK)]


def test_too_much_metadata_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MAX_TEXT_BYTES", 20)
    with pytest.raises(TarError, match="bytes of metadata"):
        facts([file("etc/passwd", b"x" * 15), file("etc/group", b"x" * 15)])


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))))
def test_join_and_split(texts: list[str]) -> None:
    assert split(join(texts)) == texts


def test_exports_are_packed() -> None:
    exports = [Symbol(f"f{number}", "V" if number % 2 else "") for number in range(500)]
    assert unpack_exports(pack_exports(exports)) == frozenset(exports)


@pytest.mark.parametrize("data", [b"", b"\x90", b"\xff" * 40, b"\x9a" + b"\xc4\x00" * 10])
def test_other_bytes_are_no_facts(data: bytes) -> None:
    with pytest.raises(InputError, match="not the facts of a layer"):
        decode(data)


def test_what_was_not_kept_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WHOLE_BYTES", 1000)
    for name in ("PLAN_BYTES", "HEAD_BYTES", "SEGMENT_BYTES", "TAIL_BYTES", "NAMES_BYTES"):
        monkeypatch.setattr(keeper, name, 512)
    fat = write_container(Image("sm_90a", payload=b"\1" * 9000))
    library = write_elf(
        soname="libbig.so", exports=[Export(f"n{number}") for number in range(99)],
        sections=[(".nv_fatbin", fat), (".rodata", b"z" * 60_000)],
    )  # fmt: skip
    data = tar_bytes([file("a", b"x"), file("lib/libbig.so", library), file("etc/passwd", b"text")])

    def chunks() -> Iterator[bytes]:
        stream = io.BytesIO(data)
        while piece := stream.read(777):
            yield piece

    found, missing = read_layer(chunks(), "layer")
    assert len(missing) == 1
    assert not found.all_objects()
    readings = 0
    while missing:
        found, missing = read_again(chunks(), "layer", found, missing)
        readings += 1
        assert readings <= scan.MAX_READINGS
    whole, nothing = read_layer([data], "layer", whole=lambda offset, size: data[offset : offset + size])
    assert not nothing
    assert found == whole


BASE = tar_bytes(
    [folder("d"), file("d/libx.so", write_elf(soname="libx.so", sections=[(".nv_fatbin", write_container("sm_90"))])),
     symlink("l", "d"), file("l/etc/passwd", b"text"), other("h", tarfile.LNKTYPE, "d/libx.so"), file("d/.wh.gone")]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(BASE)), st.binary(min_size=1, max_size=30)), max_size=6),
    cut=st.integers(0, 2 * len(BASE)),
)
def test_a_changed_layer_gives_facts_or_a_typed_error(edits: list[tuple[int, bytes]], cut: int) -> None:
    data = bytearray(BASE)
    for at, piece in edits:
        data[at : at + len(piece)] = piece
    try:
        found, _missing = read_layer([bytes(data[:cut])], "layer")
    except TarError:
        return
    assert decode(encode(found)) == found
    for path, _entry in found.entries():
        assert ".." not in path.split("/")
    found.all_objects()
