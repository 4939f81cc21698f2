"""Which paths differ, and in what."""

from __future__ import annotations

from pathlib import Path

from orbit.audit.images.layers import LayerFacts
from orbit.audit.images.opened import open_image
from orbit.core.console import Silent
from orbit.image.diff.trees import Difference, Tree, compare_trees, make_tree, stream_causes
from tests.image.diff.material import base, image, rich
from tests.writers.tiny_image import Members, file, folder, other, symlink, write_image


def tree(path: Path, *layers: Members) -> Tree:
    opened = open_image(str(write_image(path, layers)), Silent())
    facts, _ = opened.facts(range(len(layers)), None, Silent())
    return make_tree(facts, [str(number) for number in range(len(layers))])


def differences(tmp_path: Path, left: Members, right: Members) -> list[Difference]:
    return compare_trees(tree(tmp_path / "left", left), tree(tmp_path / "right", right), {0: 0}).found


def test_every_aspect(tmp_path: Path) -> None:
    left = [
        file("content", b"one"), file("mode", b"x"), file("owner", b"x"), symlink("link", "a"), file("kind", b"x"),
        file("both", b"1"), file("gone", b"only left"), file("same", b"x"),
    ]  # fmt: skip
    right = [
        file("content", b"two"), file("mode", b"x", 0o755), file("owner", b"x"), symlink("link", "b"), folder("kind"),
        file("both", b"2", 0o600), file("new", b"only right"), file("same", b"x"),
    ]  # fmt: skip
    right[2][0].uid = 7
    assert differences(tmp_path, left, right) == [
        Difference("both", "changed", ("content", "mode")),
        Difference("content", "changed", ("content",)),
        Difference("gone", "removed"),
        Difference("kind", "changed", ("kind", "mode")),
        Difference("link", "changed", ("link",)),
        Difference("mode", "changed", ("mode",)),
        Difference("new", "added"),
        Difference("owner", "changed", ("owner",)),
    ]


def test_folders_count_only_when_they_are_empty(tmp_path: Path) -> None:
    found = differences(tmp_path, [folder("a"), file("a/x", b"1")], [folder("b"), file("x", b"2")])
    assert [(item.path, item.change) for item in found] == [("a/x", "removed"), ("b", "added"), ("x", "added")]


def test_times_are_counted_and_not_listed(tmp_path: Path) -> None:
    later = [file("a", b"1"), file("b", b"1")]
    later[0][0].mtime = 77
    one, two = tree(tmp_path / "one", [file("a", b"1"), file("b", b"1")]), tree(tmp_path / "two", later)
    found = compare_trees(one, two, {0: 0})
    assert (found.found, found.times, found.equal) == ([], 1, 2)


def test_renamed_files_are_one_difference(tmp_path: Path) -> None:
    left = [file("x-1/LICENSE", b"text"), file("x-1/other", b"text"), file("empty-1", b"")]
    right = [file("x-2/LICENSE", b"text"), file("empty-2", b""), file("x-2/third", b"text"), file("fourth", b"text")]
    assert differences(tmp_path, left, right) == [
        Difference("empty-1", "removed"),
        Difference("empty-2", "added"),
        Difference("fourth", "renamed", (), "x-1/LICENSE"),
        Difference("x-2/LICENSE", "renamed", (), "x-1/other"),
        Difference("x-2/third", "added"),
    ]


def test_moved_between_layers(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", [file("a", b"1")], [file("b", b"2")])
    two = tree(tmp_path / "two", [], [file("a", b"1"), file("b", b"2")])
    assert compare_trees(one, two, {0: 0, 1: 1}).found == [Difference("a", "moved", ("layer",))]


def test_hidden_lower_layers_are_noticed(tmp_path: Path) -> None:
    assert not tree(tmp_path / "one", [file("a", b"1")]).hides
    assert tree(tmp_path / "two", [file(".wh.a")]).hides
    assert tree(tmp_path / "three", [file("d/.wh..wh..opq")]).hides


def test_sides(tmp_path: Path) -> None:
    made = tree(tmp_path, [file("a", b"1", 0o640), symlink("l", "a"), folder("d"), other("f", b"6")])
    assert [made.side(path).kind for path in ("a", "l", "d", "f")] == ["file", "link", "folder", "fifo"]
    assert made.side("a").mode == "0640"
    assert len(made.side("a").sha256) == 64
    assert made.side("l").target == "a"
    assert made.side("a").layer == "0"


def test_why_streams_of_equal_files_differ(tmp_path: Path) -> None:
    def facts(name: str, members: Members) -> LayerFacts:
        opened = open_image(str(image(tmp_path / name, [members])), Silent())
        return opened.facts([0], None, Silent())[0][0]

    plain = [file("a", b"1"), file("b", b"2")]
    later = [file("a", b"1"), file("b", b"2")]
    later[1][0].mtime = 9
    listed = [folder("d"), *plain]
    one = facts("one", plain)
    assert stream_causes(one, facts("two", plain[::-1])) == ("member-order",)
    assert stream_causes(one, facts("three", later)) == ("member-date",)
    assert stream_causes(one, facts("four", listed)) == ("archive-form",)


def test_owners_are_known(tmp_path: Path) -> None:
    made = tree(tmp_path, base(), rich("14.0", b"x\n"))
    assert made.owners.of("usr/lib/libfoo.so").title == "libfoo 1.0-1"
    assert {owner.name for owner in made.owners.installed()} == {"libfoo", "rich"}
