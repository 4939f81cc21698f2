"""Configurations and manifests compared field by field, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from orbit.audit.facts import printable
from orbit.audit.reports.diff import Change

LAYERS = {"rootfs", "layers", "config.digest", "config.size", "config.mediaType"}
"""Told apart: of layers there is more to say."""
VALUE_CHARS = 2000


def compare_configs(left: bytes, right: bytes) -> tuple[Change, ...]:
    """Fields of two image configurations that differ. Variables and labels are compared by name."""
    return tuple(_changes(dict(_flat(_config(left))), dict(_flat(_config(right)))))


def compare_manifests(left: bytes, right: bytes) -> tuple[Change, ...]:
    """Fields of two manifests that differ; none when one image has no manifest."""
    if b"{}" in (left, right):
        return ()
    return tuple(_changes(dict(_flat(_decoded(left))), dict(_flat(_decoded(right)))))


def _decoded(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])  # was read as an image before
    return found


def _config(data: bytes) -> dict[str, Any]:
    """The document with its ``config`` put first, as people know its fields: ``Env.PATH``."""
    document = _decoded(data)
    run = document.pop("config", None) or {}
    variables = run.pop("Env", None) or []
    if variables:
        run["Env"] = dict(item.partition("=")[::2] for item in variables if isinstance(item, str))
    return {**run, **document}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, value as JSON) of everything that is no mapping or list of them; what is empty is nothing."""
    if name in LAYERS or value in (None, "", [], {}):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else key)
        return
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from _flat(item, f"{name}.{number}")
        return
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    yield printable(name), printable(text)


def _changes(before: dict[str, str], after: dict[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield Change(name=name, before=before.get(name, "")[:VALUE_CHARS], after=after.get(name, "")[:VALUE_CHARS])
