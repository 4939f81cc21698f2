# ruff: noqa: E501 - a case is one line
"""YAML with lines, and YAML that nobody means well with."""

from __future__ import annotations

import pytest

from orbit.launch.lint.read.tree import NOTHING, Node, TreeError, read_documents


def one(text: str) -> Node:
    ((node,), flaws) = read_documents(text)
    assert flaws == []
    return node


def test_values_have_lines() -> None:
    node = one("a:\n  b:\n  - x\n  - y: 1\n  c: |\n    first\n    second\n")
    assert node.at("a", "b").items[1].word("y") == ("1", 4)
    assert node.word("a", "c") == ("first\nsecond\n", 6)
    assert [word.line for word in node.at("a", "b").words()] == [3]
    assert node.at("a", "b", "z", "zz") is NOTHING
    assert not node.at("q")
    assert node.says("q") == ""
    assert node.word("a") is None


@pytest.mark.parametrize(
    ("value", "text", "is_text"),
    [("1", "1", False), ('"1"', "1", True), ("true", "true", False), ("yes", "yes", False), ("1.5", "1.5", False),
     ("1.2.3", "1.2.3", True), ("word", "word", True), ("1:30", "1:30", True), ("!!str 1", "1", True), ("0x10", "0x10", False)],
)  # fmt: skip
def test_what_is_a_string(value: str, text: str, is_text: bool) -> None:
    node = one(f"a: {value}").at("a")
    assert (node.text, node.is_text) == (text, is_text)


@pytest.mark.parametrize("value", ["", "~", "null"])
def test_nothing_is_nothing(value: str) -> None:
    assert one(f"a: {value}\nb: 1").word("a") is None


def test_aliases_and_merges() -> None:
    node = one("x: &x {image: a, tty: true}\ny:\n  <<: *x\n  image: b\nz: *x\nw: {<<: [*x, {q: 1}]}\n")
    assert (node.says("y", "image"), node.says("y", "tty")) == ("b", "true")
    assert node.says("z", "image") == "a"
    assert node.says("w", "q") == "1"


def test_keys_that_stand_twice() -> None:
    _documents, flaws = read_documents("a: 1\nb: {c: 1, c: 2}\na: 2\n---\na: 1\n")
    assert [(flaw.what, flaw.line) for flaw in flaws] == [("c", 2), ("a", 3)]


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "not YAML"),
        ("\ta: 1", "not YAML"),
        ("a: b: c", "not YAML"),
        ("a: *b", "no anchor"),
        ("a: &a [*a]", "names what it is in"),
        ("a: &a {b: {c: *a}}", "names what it is in"),
        (BOMB, "unfold"),
        ("[" * 200 + "]" * 200, "nested"),
        ("[" * 5000, "nest"),
        ("a:\n" + "".join(f"{' ' * i}- \n" for i in range(1, 300)), "nest"),
        ("a: [" + "x," * 260_000 + "]", "as no manifest is"),
        ("x: &x {" + ",".join(f"k{i}: 1" for i in range(2000)) + "}\n" + "".join(f"m{i}: {{<<: *x}}\n" for i in range(200)), "m"),
        ("a: \x07", "not YAML"),
        ("%YAML 9.9\n---\na: 1", "not YAML"),
        ("a: \ud800", "not YAML"),
    ],
    ids=range(15),
)  # fmt: skip
def test_hostile(text: str, says: str) -> None:
    with pytest.raises(TreeError, match=says):
        read_documents(text)


def test_an_error_has_its_line() -> None:
    with pytest.raises(TreeError) as caught:
        read_documents("a: 1\nb: 2\nc: [\n")
    assert caught.value.line >= 3
