"""A site as TOML: what is not the default, each line with what is known of it. Read back it is the same site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from orbit.core.records import Record
from orbit.launch.site.model import Site

WIDE = 116


def render_site(site: Site, notes: Mapping[str, str] | None = None, *, head: str = "") -> str:
    """TOML of ``site``. ``notes``: a comment for a key (``nodes.gpus``, ``storage.mounts.0.locks``), which is then
    written even when it has its default; ``head``: lines of comment at the top."""
    told = dict(notes or {})
    lines = [f"# {_plain(line)}".rstrip() for line in head.splitlines()]
    lines += _table(site, "", told)
    return "\n".join(lines).strip("\n") + "\n"


def _table(record: Record, path: str, notes: Mapping[str, str]) -> Iterator[str]:
    """The lines of a record's own keys, then those of the tables inside it."""
    inner: list[tuple[str, Any, bool]] = []
    for field in msgspec.structs.fields(type(record)):
        value = getattr(record, field.name)
        key = f"{path}.{field.name}".lstrip(".")
        if isinstance(value, Record | dict) or _is_tables(value):
            inner.append((key, value, _is_default(field, value)))
        elif not _is_default(field, value) or key in notes:
            yield from _line(field.name, value, notes.get(key, ""))
    for key, value, default in inner:
        if not default or any(note == key or note.startswith(f"{key}.") for note in notes):
            yield from _inner(key, value, notes)


def _inner(key: str, value: Any, notes: Mapping[str, str]) -> Iterator[str]:
    if isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from ("", *_comment(notes.get(f"{key}.{number}", "")), f"[[{key}]]")
            yield from _table(each, f"{key}.{number}", notes)
        return
    own = list(_entries(key, value, notes) if isinstance(value, dict) else _table(value, key, notes))
    first = next((line for line in own if line), "")
    alone = first.startswith("[") and not notes.get(key)  # only tables inside: they name this one
    yield from () if alone else ("", *_comment(notes.get(key, "")), f"[{key}]")
    yield from own


def _entries(key: str, value: Mapping[str, Any], notes: Mapping[str, str]) -> Iterator[str]:
    for name, each in value.items():
        yield from _line(_key(name), each, notes.get(f"{key}.{name}", ""))


def _line(name: str, value: Any, note: str) -> Iterator[str]:
    """``name = value # note``; a long note stands above."""
    text = f"{name} = {_value(value)}"
    if len(text) + len(note) + 3 <= WIDE:
        yield f"{text} # {_plain(note)}" if note else text
    else:
        yield from (*_comment(note), text)


def _comment(note: str) -> Iterator[str]:
    if note:
        yield f"# {_plain(note)}"


def _plain(text: str) -> str:
    """On one line, without what TOML forbids in a comment."""
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):  # a basic string of TOML is one of JSON, but for DEL
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_tables(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Record)


def _is_default(field: msgspec.structs.FieldInfo, value: Any) -> bool:
    if field.default_factory is not msgspec.NODEFAULT:
        return bool(value == field.default_factory())
    return field.default is not msgspec.NODEFAULT and bool(value == field.default)
