"""YAML as a tree with lines. Made of the parser's events: nothing is constructed, an alias is a pointer, not a copy.

What no manifest has (nesting of a hundred, a quarter of a million nodes with aliases counted as what they stand for, an
alias inside of what it names) ends the reading with an error, so whoever walks the tree is done in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from orbit.launch.lint.facts import Flaw, Word

DEPTH = 100
NODES = 250_000
MERGED = 100_000
"""Keys that merging (``<<``) may write into maps, in all."""
DUPLICATE = "duplicate-key"
STARTS = frozenset((yaml.MappingStartEvent, yaml.SequenceStartEvent))
ENDS = frozenset((yaml.MappingEndEvent, yaml.SequenceEndEvent))
BLOCK = frozenset(("|", ">"))
NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class TreeError(Exception):
    """Not YAML, or nothing that anybody would write. The sentence is for people; ``line`` is 0 where none is known."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class Node:
    """A map, a list, a scalar, or nothing; asking any of them for what it does not have gives nothing."""

    __slots__ = ("entries", "is_map", "is_open", "is_plain", "items", "line", "text", "weight")

    def __init__(self, line: int, *, is_map: bool = False) -> None:
        self.line = line
        self.is_map = is_map
        self.is_open = False
        """Its end has not been read yet."""
        self.weight = 1
        """Nodes in it, aliases counted as what they stand for."""
        self.entries: dict[str, Node] = {}
        self.items: list[Node] = []
        self.text: str | None = None
        """Of a scalar; None also for an empty one (``key:``)."""
        self.is_plain = False
        """Of a scalar: neither quoted nor tagged."""

    def __bool__(self) -> bool:
        return self is not NOTHING

    @property
    def is_text(self) -> bool:
        """Of a scalar: quoted, or a word that YAML reads as a string. ``1:30`` is a number to PyYAML alone."""
        value = self.text or ""
        return not self.is_plain or ":" in value or not _resolve(value).endswith((":int", ":float", ":bool"))

    def at(self, *path: str) -> Node:
        """What lies at ``path`` below this map."""
        found = self
        for key in path:
            found = found.entries.get(key, NOTHING)
        return found

    def says(self, *path: str) -> str:
        """The scalar there, or nothing."""
        return self.at(*path).text or ""

    def word(self, *path: str) -> Word | None:
        """The scalar there with its line; None where there is none."""
        found = self.at(*path)
        return Word(found.text, found.line) if found.text is not None else None

    def words(self) -> tuple[Word, ...]:
        """The scalars of a list; a scalar is a list of one."""
        if self.text is not None:
            return (Word(self.text, self.line),)
        return tuple(Word(item.text, item.line) for item in self.items if item.text is not None)

    def is_true(self, *path: str) -> bool:
        """Whether the scalar there is YAML's true."""
        return self.says(*path).lower() in ("true", "yes", "on")


NOTHING = Node(0)


class _Builder:
    """Events in, documents out."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self.anchors: dict[str, Node] = {}
        self.count = 0
        self.merged = 0

    def documents(self, text: str) -> Iterator[Node]:
        """The top node of each document."""
        stack: list[tuple[Node, str | None]] = []
        loader = yaml.CSafeLoader(text)
        while (event := loader.get_event()) is not None:
            kind = type(event)
            if kind in ENDS:
                self._close(stack)
                continue
            if kind not in STARTS and kind is not yaml.ScalarEvent and kind is not yaml.AliasEvent:
                if kind is yaml.DocumentStartEvent:
                    self.anchors.clear()
                continue
            line = event.start_mark.line + 1 if event.start_mark else 0
            node = self._node(event, kind, line)
            self.count += 1
            if self.count > NODES or len(stack) > DEPTH:
                raise TreeError("nested or filled as no manifest is", line)
            if stack:
                self._put(stack, node, line)
            else:
                yield node
            if kind in STARTS:
                node.is_open = True
                stack.append((node, None))

    def _node(self, event: Any, kind: type, line: int) -> Node:
        if kind is yaml.AliasEvent:
            found = self.anchors.get(event.anchor)
            if found is None or found.is_open:
                what = "names what it is in" if found else "has no anchor before it"
                raise TreeError(f"*{event.anchor} {what}", line)
            return found
        node = Node(line, is_map=kind is yaml.MappingStartEvent)
        if kind is yaml.ScalarEvent:
            node.text = event.value
            if event.style in BLOCK:
                node.line += 1
            elif not event.style and event.implicit[0]:
                node.is_plain = True
                if event.value in NULLS:
                    node.text = None
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _close(self, stack: list[tuple[Node, str | None]]) -> None:
        node, _key = stack.pop()
        node.is_open = False
        if "<<" in node.entries:
            self._merge(node, node.entries.pop("<<"))
        if stack:
            _weigh(stack[-1][0], node)

    def _put(self, stack: list[tuple[Node, str | None]], node: Node, line: int) -> None:
        parent, key = stack[-1]
        _weigh(parent, node)
        if not parent.is_map:
            parent.items.append(node)
        elif key is None:
            stack[-1] = parent, node.text if node.text is not None else ""
        else:
            stack[-1] = parent, None
            if key in parent.entries:
                self.flaws.append(Flaw(DUPLICATE, key, line))
            parent.entries[key] = node

    def _merge(self, parent: Node, node: Node) -> None:
        """``<<``: keys of other maps, weaker than the map's own."""
        for source in [node, *node.items]:
            self.merged += len(source.entries)
            if self.merged > MERGED:
                raise TreeError("merges (<<) more than any manifest does", parent.line)
            for key, value in list(source.entries.items()):
                parent.entries.setdefault(key, value)


def _weigh(parent: Node, child: Node) -> None:
    parent.weight += child.weight
    if parent.weight > NODES:
        raise TreeError("its aliases unfold to more than any manifest holds", parent.line)


def _resolve(value: str) -> str:
    """The tag of a bare scalar in YAML 1.1, by the loader's own table."""
    resolvers = yaml.CSafeLoader.yaml_implicit_resolvers.get(value[:1], ())
    return next((tag for tag, pattern in resolvers if pattern.match(value)), "tag:yaml.org,2002:str")


def read_documents(text: str) -> tuple[list[Node], list[Flaw]]:
    """Every document of ``text``, and keys that a map has twice. Raises :class:`TreeError`."""
    builder = _Builder()
    try:
        return list(builder.documents(text)), builder.flaws
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise TreeError(f"not YAML: {error.problem or error.context}", mark.line + 1 if mark else 0) from None
    except yaml.YAMLError as error:
        raise TreeError(f"not YAML: {' '.join(str(error).split())[:120]}") from None
    except (UnicodeEncodeError, ValueError) as error:
        raise TreeError(f"not YAML: {error}") from None
