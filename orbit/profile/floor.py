"""Orbit's own needs, stated twice: a profile with a lock of its own repeats what the checkout's pyproject.toml says.

Orbit is installed into every environment, so each lock has to bring its dependencies. The checkout's pyproject.toml
states them; a profile's own one repeats them word for word, because a reference to it would make that lock stale with
every edit of an extra that the profile does not install. What is stated twice drifts, so the two are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from orbit.core.records import Record
from orbit.errors import InputError


class Drift(Record, frozen=True, kw_only=True):
    """One thing that the two files state differently."""

    subject: str
    """``requires-python``, ``environments``, or the name of a dependency."""
    here: str
    """What the checkout's pyproject.toml says; empty: nothing."""
    there: str
    """What the profile's says; empty: nothing."""


def floor_drift(checkout: Mapping[str, Any], profile: Mapping[str, Any]) -> tuple[Drift, ...]:
    """Where the tables of a profile's pyproject.toml differ from the checkout's, sorted by subject.

    Compared are Python, the platforms that are resolved for, and Orbit's dependencies by name. Raises
    :class:`InputError` for a requirement that is none.
    """
    here, there = dict(_stated(checkout)), dict(_stated(profile))
    return tuple(
        Drift(subject=subject, here=here.get(subject, ""), there=there.get(subject, ""))
        for subject in sorted(here.keys() | there.keys())
        if here.get(subject, "") != there.get(subject, "")
    )


def _stated(project: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    table = project.get("project", {})
    yield "requires-python", str(table.get("requires-python", ""))
    yield "environments", "; ".join(project.get("tool", {}).get("uv", {}).get("environments", []))
    found: dict[str, set[str]] = {}
    for text in table.get("dependencies", []):
        try:
            asked = Requirement(text)
        except InvalidRequirement as error:
            raise InputError(f"pyproject.toml: requirement {text!r}: {error}", fix="correct it") from None
        name: str = canonicalize_name(asked.name)
        asked.name = name
        found.setdefault(name, set()).add(str(asked))
    for name, spelled in found.items():
        yield name, " and ".join(sorted(spelled))
