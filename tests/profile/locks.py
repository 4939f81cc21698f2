"""Writes small locks, policies and profiles for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from orbit.core.records import convert
from orbit.profile.lock import Lock, parse_lock
from orbit.profile.model import Profile
from orbit.profile.policy import Policy
from orbit.profile.rules import Facts

INDEX = 'registry = "https://index.test/simple"'
SHA = "sha256:" + "ab" * 32
WHERE = Path("uv.lock")


def wheel(name: str, version: str, tag: str = "py3-none-any", digest: str = SHA, size: int = 1000) -> str:
    """One entry of ``wheels``."""
    file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    checked = f', hash = "{digest}"' if digest else ""
    return f'{{ url = "https://files.test/{file}"{checked}, size = {size} }}'


def edges(dependencies: Iterable[str]) -> str:
    """``name``, ``name[extra]`` and ``name; marker`` as uv writes them."""
    written = []
    for text in dependencies:
        spec, _, marker = text.partition(";")
        name, _, extras = spec.strip().removesuffix("]").partition("[")
        parts = [f'name = "{name}"']
        if extras:
            parts.append(f"extra = [{', '.join(repr(extra) for extra in extras.split(','))}]")
        if marker.strip():
            parts.append(f'marker = "{marker.strip()}"')
        written.append("{ " + ", ".join(parts) + " }")
    return "[" + ", ".join(written) + "]"


def package(
    name: str,
    version: str = "1.0",
    *,
    needs: Iterable[str] = (),
    extras: Mapping[str, Iterable[str]] | None = None,
    source: str = INDEX,
    wheels: Iterable[str] | None = None,
    sdist: str = "",
) -> str:
    """One ``[[package]]``; by default from the index with one pure wheel."""
    files = [wheel(name, version)] if wheels is None and source == INDEX else list(wheels or ())
    lines = ["[[package]]", f'name = "{name}"', f'version = "{version}"', f"source = {{ {source} }}"]
    lines.append(f"dependencies = {edges(needs)}")
    if sdist:
        lines.append(f"sdist = {sdist}")
    lines.append(f"wheels = [{', '.join(files)}]")
    if extras:
        lines += ["[package.optional-dependencies]", *(f"{extra} = {edges(names)}" for extra, names in extras.items())]
    return "\n".join(lines) + "\n"


def lock_text(
    *packages: str,
    needs: Iterable[str] = (),
    stack: Iterable[str] = (),
    cuda: Iterable[str] = (),
    requires: str = "",
    overrides: Mapping[str, str] | None = None,
    version: int = 1,
    python: str = "==3.12.*",
    name: str = "orbit",
) -> str:
    """A whole lock: the project with its own, ``stack``'s and the group ``cuda``'s dependencies, and ``packages``."""
    held = ", ".join(f'{{ name = "{n}", specifier = "{s}" }}' for n, s in (overrides or {}).items())
    return "\n".join(
        [
            f"version = {version}",
            "revision = 5",
            f'requires-python = "{python}"',
            "[manifest]",
            f"overrides = [{held}]",
            "[[package]]",
            f'name = "{name}"',
            'version = "0.1.0"',
            'source = { editable = "." }',
            f"dependencies = {edges(needs)}",
            "[package.optional-dependencies]",
            f"stack = {edges(stack)}",
            "[package.dev-dependencies]",
            f"cuda = {edges(cuda)}",
            "[package.metadata]",
            f"requires-dist = [{requires}]",
            *packages,
        ]
    )


def lock_of(*packages: str, **options: Any) -> Lock:
    """:func:`lock_text`, read."""
    return parse_lock(lock_text(*packages, **options).encode(), WHERE)


def policy_of(**tables: Any) -> Policy:
    """A policy with these tables and nothing else; release 13.0 has ``nvidia-cuda-nvcc ==13.0.*`` only."""
    release = {
        "release": "13.0",
        "watch": ["nvidia-*", "*-cu[0-9]*"],
        "components": [{"names": ["nvidia-cuda-nvcc"], "version": "==13.0.*", "reason": "compiler"}],
    }
    data = {"schema": 1, "settings": ["environments"], "sources": [], "cuda": [release], "families": [], "pins": []}
    return convert(data | tables, Policy, "policy")


def profile_of(*, extras: Iterable[str] = ("stack",), core: Iterable[str] = (), **changes: Any) -> Profile:
    """A profile for CUDA 13.0 and Python 3.12."""
    data = {
        "schema": 1,
        "name": "test",
        "description": "",
        "python": "3.12",
        "extras": list(extras),
        "cuda": "13.0",
        "targets": [],
        "kernels": {"core": list(core)},
        "expectations": [],
        "smoke": [],
        "image": {"name": "orbit/test", "base": "base", "prefix": "/opt/orbit", "layers": []},
    }
    return convert(data | changes, Profile, "profile")


def facts_of(lock: Lock, policy: Policy | None = None, profile: Profile | None = None, **more: Any) -> Facts:
    """What the rules look at."""
    return Facts(lock=lock, policy=policy or policy_of(), profile=profile or profile_of(), **more)
