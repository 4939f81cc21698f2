"""What a build needs of its environment and of the host beyond a compiler: looked for before anything is compiled.

A header that is not there ends a compilation after minutes, in words about a line of somebody's header. The recipe
says beforehand what is needed, why, and how to get it.
"""

from __future__ import annotations

from pathlib import Path

from orbit.core.files import sha256_file
from orbit.core.proc import run
from orbit.core.tools import find
from orbit.errors import MissingError
from orbit.kernels.recipe import Recipe, Requirement


def check_requirements(recipe: Recipe, site: Path) -> None:
    """Raise :class:`MissingError` naming everything in ``recipe.requires`` that is not there, and how to get it.

    ``site`` is site-packages of the build environment.
    """
    missing = [(need, said) for need in recipe.requires if (said := _lacks(need, site))]
    if missing:
        raise MissingError(
            f"{recipe.name} cannot be built here\n" + "\n".join(f"  | {said}: {need.reason}" for need, said in missing),
            fix="\n       ".join(dict.fromkeys(need.fix for need, _ in missing)),
        )


def system_headers(recipe: Recipe) -> dict[str, str]:
    """sha256 of each header of the host that the recipe requires, ``""`` for a missing one: part of the wheel's key."""
    headers = {need.file: find_header(need.file) for need in recipe.requires if need.place == "system"}
    return {file: sha256_file(path) if path else "" for file, path in headers.items()}


def find_header(name: str) -> Path | None:
    """Where the C++ compiler finds ``<name>`` by itself, or None. Raises :class:`MissingError` without a compiler."""
    asked = run(
        [find("g++"), "-x", "c++", "-M", "-"],
        doing=f"look for the header {name}",
        stdin=f"#include <{name}>\n".encode(),
        check=False,
    )
    words = asked.stdout.decode(errors="replace").split()
    return next((Path(word) for word in words if word.endswith(f"/{name}")), None) if asked.returncode == 0 else None


def _lacks(need: Requirement, site: Path) -> str:
    """What is wrong, or nothing."""
    path = find_header(need.file) if need.place == "system" else site / need.file
    if path is None or not path.is_file():
        where = "the C++ compiler finds" if need.place == "system" else "the build environment has"
        return f"{where} no {need.file}"
    if need.contains and need.contains.encode() not in path.read_bytes():
        return f"{need.file} has no {need.contains}"
    return ""
