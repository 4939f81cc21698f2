"""How a source becomes the files of a wheel: its own setup.py, the backend it names, or our compiler and linker."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core.proc import run
from orbit.errors import InputError
from orbit.kernels.plan import Item
from orbit.kernels.recipe import render_env
from orbit.kernels.wheels.archive import unpack_wheel
from orbit.kernels.workspace import Workspace

SETUPTOOLS = "import sys; from setuptools.build_meta import __legacy__ as backend; backend.build_wheel(sys.argv[1])"
"""The legacy backend is the modern one plus the source folder on sys.path, which setup.py files count on."""
PYPROJECT = """
import functools, importlib, json, os, sys, tomllib
with open("pyproject.toml", "rb") as file:
    spec = tomllib.load(file)["build-system"]
sys.path[:0] = [os.path.abspath(place) for place in spec.get("backend-path", [])]
module, _, name = spec["build-backend"].partition(":")
backend = functools.reduce(getattr, name.split(".") if name else [], importlib.import_module(module))
backend.build_wheel(sys.argv[1], json.loads(sys.argv[2]))
"""
"""The backend that pyproject.toml names (PEP 517), with what the build environment has; nothing is fetched for it."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One build that is ready to start."""

    item: Item
    space: Workspace
    project: Path
    """Folder with setup.py, pyproject.toml or our sources."""
    inflight: int
    """``MAX_JOBS``: compile calls that may be open; which of them run is the job server's decision."""


def build_files(bench: Bench) -> Path:
    """Run the build; the folder with the files of its wheel. Raises :class:`CommandFailed` naming the log."""
    if bench.item.recipe.shared_object:
        return _shared_object(bench)
    python = bench.space.env / "bin" / "python"
    if bench.item.recipe.backend == "pyproject":
        settings = json.dumps(bench.item.recipe.config_settings)
        _run(bench, [python, "-B", "-c", PYPROJECT, bench.space.out, settings])
    else:
        _run(bench, [python, "-B", "-c", SETUPTOOLS, bench.space.out])
    wheels = list(bench.space.out.glob("*.whl"))
    if len(wheels) != 1:
        raise InputError(f"{bench.item.recipe.name}: the build left {len(wheels)} wheels", fix=f"see {bench.space.log}")
    tree = bench.space.root / "wheel"
    unpack_wheel(wheels[0], tree)
    return tree


def _shared_object(bench: Bench) -> Path:
    """Compile a local source into one shared object, beside its Python files; the folder of the wheel's files."""
    recipe, shared, space = bench.item.recipe, bench.item.recipe.shared_object, bench.space
    assert shared is not None
    compile_flags = [*shared.compile_flags, "-Xcompiler", "-fPIC,-fvisibility=hidden"]
    objects = []
    for source in shared.sources:
        objects.append(f"{Path(source).stem}.o")
        _run(bench, [space.cuda / "bin" / "nvcc", *compile_flags, "-c", source, "-o", objects[-1]])
    tree = space.root / "wheel"
    shutil.copytree(bench.project / shared.package, tree / shared.package)
    library = tree / shared.output
    library.parent.mkdir(parents=True, exist_ok=True)
    link_flags = [f"-L{space.cuda}/lib64", "-lcudart_static", "-ldl", "-lpthread", "-lrt"]
    # libcudart_static is C++ inside: libstdc++ and libgcc_s stay dynamic, static ones would ask for a newer glibc
    hygiene = ["-Wl,--as-needed,--exclude-libs,ALL,-z,defs,-s"]
    _run(bench, ["g++", "-shared", *objects, "-o", library, *link_flags, *hygiene])
    info = tree / f"{recipe.dist.replace('-', '_')}-{bench.item.source.version}.dist-info"
    info.mkdir()
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: orbit\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n", encoding="utf-8"
    )
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {recipe.dist}\nVersion: {bench.item.source.version}\n"
        f"Summary: {shared.summary}\nLicense: Apache-2.0\nRequires-Python: >=3.9\n",
        encoding="utf-8",
    )
    return tree


def _run(bench: Bench, argv: Sequence[str | os.PathLike[str]]) -> None:
    item, space = bench.item, bench.space
    archs = tuple(real for _, real in item.pairs)
    run(
        space.command(argv),
        doing=f"build {item.recipe.name} {item.source.version}",
        cwd=bench.project,
        env=space.variables(jobs=bench.inflight, include=item.recipe.include, extra=render_env(item.recipe, archs)),
        log=space.log,
        program=Path(argv[0]).name,
    )
