"""The repository read as text and syntax trees, never executed: what tests/test_house.py asks its questions of."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

type Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def files() -> tuple[str, ...]:
    """Every file of the repository, new ones that are not ignored included, relative to the root."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("the house rules need a git checkout (git ls-files)")
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = done.stdout.decode().rstrip("\0").split("\0")
    return tuple(name for name in sorted(names) if (ROOT / name).is_file())


def python_files(*folders: str) -> tuple[str, ...]:
    """Python files below the given top-level folders (all of them without any)."""
    return tuple(n for n in files() if n.endswith(".py") and (not folders or n.split("/")[0] in folders))


@functools.cache
def tree(name: str) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse((ROOT / name).read_text(encoding="utf-8"), filename=name)


def module_name(name: str) -> str:
    """``orbit/core/files.py`` -> ``orbit.core.files``; a package is its folder."""
    return name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def functions(name: str) -> Iterator[Function]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports(name: str, *, top_level: bool = False) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of everything a file imports.

    ``from orbit.core import files`` counts as ``orbit.core.files`` when that is a module. With ``top_level`` imports
    inside functions and under ``TYPE_CHECKING`` are left out.
    """
    known = {module_name(file) for file in python_files()}
    for node in _top_level(tree(name).body) if top_level else ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module_name(name).split(".")
                keep = len(parts) - node.level + name.endswith("/__init__.py")
                base = ".".join([*parts[:keep], *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if inner in known else base


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for block in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _top_level(getattr(node, block, []))


def has_logic(name: str) -> bool:
    """Whether a module does anything: a function or method with more than a docstring, ``...`` or ``raise``."""
    trivial = (ast.Expr, ast.Pass, ast.Raise)
    return any(not all(isinstance(part, trivial) for part in function.body) for function in functions(name))


def rule_ids() -> dict[str, str]:
    """Rule id -> where: every string that reaches ``Finding(rule=...)``, directly, by constant or through a helper.

    A helper with a leading underscore counts in its own file, any other one everywhere.
    """
    found: dict[str, str] = {}
    makers: dict[str, dict[str, tuple[int, str]]] = {}
    for name in python_files("orbit"):
        constants = _string_constants(tree(name))
        makers[name] = {}
        for function in functions(name):
            parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
            for call in _calls(function, "Finding"):
                given = next((k.value for k in call.keywords if k.arg == "rule"), None)
                if isinstance(given, ast.Name) and given.id in parameters:
                    makers[name][function.name] = (parameters.index(given.id), given.id)
                elif (value := _string(given, constants)) is not None:
                    found.setdefault(value, f"{name}:{call.lineno}")
    shared = {maker: how for own in makers.values() for maker, how in own.items() if not maker.startswith("_")}
    for name in python_files("orbit"):
        constants = _string_constants(tree(name))
        for maker, (position, parameter) in (shared | makers[name]).items():
            for call in _calls(tree(name), maker):
                by_name = next((k.value for k in call.keywords if k.arg == parameter), None)
                by_place = call.args[position] if len(call.args) > position else None
                value = _string(by_name or by_place, constants)
                if value is not None:
                    found.setdefault(value, f"{name}:{call.lineno}")
    return found


def _string_constants(module: ast.Module) -> dict[str, str]:
    return {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _string(node: ast.expr | None, constants: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def _calls(node: ast.AST, function: str) -> Iterator[ast.Call]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            called = call.func
            if (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) == function:
                yield call


@functools.cache
def toml(name: str) -> dict[str, Any]:
    """A TOML file of the repository."""
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))
