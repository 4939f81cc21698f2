"""Checkouts on top of an environment in development mode (PEP 660), without network and without a build backend.

What is written is what backends write: a ``.pth`` line or an ``__editable__`` finder, a ``.dist-info`` with METADATA,
entry points, RECORD and ``direct_url.json`` (PEP 610), and the scripts. Requirements are not looked at: an environment
is a lock, and a checkout changes its own package alone. A package that takes the place of an installed one keeps what
that one's METADATA says where the checkout computes it (``dynamic``).
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from orbit.core.digests import record_digest
from orbit.core.files import read_file
from orbit.core.records import Record, parse_toml
from orbit.env import tree
from orbit.env.installed import INSTALLER, Installed, read_installed
from orbit.env.scripts import LAUNCHER
from orbit.env.takeover import SITE
from orbit.errors import InputError

PYPROJECT_MAX_BYTES = 1 << 20
SOURCE_FOLDERS = ("src", "python", "lib")
"""Folders that hold a package and nothing else, where a project has one."""
OBJECT = re.compile(r"([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)")
SCRIPT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
FINDER = '''"""Finds the modules of a checkout in development mode."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from os.path import isfile

MAPPING: dict[str, str] = {mapping}


class Finder:
    """Only the names in MAPPING; what is below them is found through their __path__."""

    @classmethod
    def find_spec(cls, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        place = MAPPING.get(fullname)
        if place is None:
            return None
        if isfile(f"{{place}}/__init__.py"):
            return spec_from_file_location(fullname, f"{{place}}/__init__.py", submodule_search_locations=[place])
        return spec_from_file_location(fullname, f"{{place}}.py") if isfile(f"{{place}}.py") else None


def install() -> None:
    """Ask this finder before the installed packages."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)
'''


@dataclass(frozen=True, slots=True)
class Project:
    """A checkout, as far as it is installed."""

    root: Path
    """Absolute, resolved."""
    name: str
    """Normalised."""
    spelt: str
    """The name as the project spells it."""
    version: str
    """Empty when the project computes it."""
    table: Mapping[str, Any]
    """``[project]`` of its pyproject.toml."""
    folder: Path
    """What goes on the import path, or holds the modules of ``modules``."""
    modules: tuple[str, ...]
    """Top-level modules to find one by one; empty when all of ``folder`` goes on the path."""


class Applied(Record, frozen=True, kw_only=True):
    """A checkout that was installed."""

    name: str
    version: str
    how: str
    """``path`` (all of a folder is importable) or ``finder`` (its named modules are)."""
    modules: tuple[str, ...]
    replaced: str
    """Version of the installed distribution whose place it took; empty when there was none."""


def read_project(path: Path) -> Project:
    """Read the checkout at ``path``. Raises :class:`InputError` when it is none or its package cannot be found."""
    root = Path(os.path.realpath(path))
    file = root / "pyproject.toml"
    try:
        data = parse_toml(read_file(file, PYPROJECT_MAX_BYTES), file)
    except FileNotFoundError:
        raise InputError(f"{path}: no pyproject.toml there", fix="--editable names the folder of a checkout") from None
    table = data.get("project")
    spelt = table.get("name") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(spelt, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", spelt):
        raise InputError(f"{file}: no [project] with a name", fix="add it (PEP 621)")
    if not os.fspath(root).isprintable():
        raise InputError(f"{root!s}: a sign that cannot be printed in the path", fix="move the checkout")
    folder, modules = find_modules(root, spelt, data.get("tool", {}))
    version = table.get("version", "")
    if not isinstance(version, str) or not re.fullmatch(r"[\w.!+-]*", version):
        raise InputError(f"{file}: version = {version!r}", fix="write it as text")
    return Project(root, canonicalize_name(spelt), spelt, version, table, folder, modules)


def find_modules(root: Path, name: str, tool: object) -> tuple[Path, tuple[str, ...]]:
    """What a project makes importable: a folder and its top-level modules (none: all of the folder).

    Taken from what the settings of hatch and setuptools name, else from the usual places: ``src/``, ``python/``, a
    package called like the project. Raises :class:`InputError` when nothing is there.
    """
    named = [root / item for item in _hatch(tool)]
    where, tops = _setuptools(tool)
    if where:
        folder = root / where[0]
        named += [folder / top for top in tops or _packages(folder)]
    found = [place for place in named if _is_module(place) or place.is_dir()]
    if not found:
        words = re.split(r"[-_.]+", name.lower())
        for folder in (*(root / source for source in SOURCE_FOLDERS), root):
            found = [place for top in ("_".join(words), words[0]) if _is_module(place := folder / top)]
            found = found[:1] or ([place] if (place := folder / words[0]).is_dir() and len(words) > 1 else [])
            if found:
                break
    if not found:
        raise InputError(f"{root}: no package of {name} found", fix="name it in [tool.setuptools.packages.find]")
    folder = found[0].parent
    modules = tuple(sorted({place.name for place in found if place.parent == folder}))
    alone = folder != root and set(_packages(folder)) <= set(modules)
    whole = alone or not all(_is_module(folder / module) for module in modules)
    return folder, () if whole else modules


def _hatch(tool: object) -> list[str]:
    names = _get(tool, "hatch", "build", "targets", "wheel", "packages")
    return [item for item in names if isinstance(item, str)] if isinstance(names, list) else []


def _setuptools(tool: object) -> tuple[list[str], list[str]]:
    """``where`` and the top-level names that setuptools is told."""
    find = _get(tool, "setuptools", "packages", "find")
    listed = _get(tool, "setuptools", "packages")
    moved = _get(tool, "setuptools", "package-dir", "")
    base = moved if isinstance(moved, str) else "."
    if isinstance(listed, list):
        return [base], _tops(listed)
    if not isinstance(find, dict):
        return ([base], []) if base != "." else ([], [])
    where = find.get("where")
    include = find.get("include")
    return (
        [item for item in where if isinstance(item, str)] if isinstance(where, list) else [base],
        _tops(include) if isinstance(include, list) else [],
    )


def _tops(names: Iterable[object]) -> list[str]:
    tops = [re.split(r"[.*?\[]", name)[0] for name in names if isinstance(name, str)]
    return sorted({top for top in tops if top})


def _get(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _packages(folder: Path) -> list[str]:
    """Top-level packages and modules right in ``folder``."""
    if not folder.is_dir():
        return []
    names = {path.stem if path.suffix == ".py" else path.name for path in folder.iterdir()}
    return sorted(name for name in names if name.isidentifier() and _is_module(folder / name))


def _is_module(place: Path) -> bool:
    return (place / "__init__.py").is_file() or place.with_name(f"{place.name}.py").is_file()


def apply(prefix: Path, project: Project) -> Applied:
    """Install ``project`` in the environment at ``prefix``, in the place of an installed distribution of its name.

    Raises :class:`InputError` when it computes its version and none is installed to take it from.
    """
    site = prefix / SITE
    installed = read_installed(site)
    old = next((dist for dist in installed if dist.name == project.name), None)
    was = old.info.name.removesuffix(".dist-info").partition("-")[2] if old else ""
    version = project.version or was
    if not version:
        raise InputError(
            f"{project.root}: its version is computed, and no {project.name} is installed to take it from",
            fix="write version = ... in its [project] while you work on it",
        )
    kept = _kept_metadata(old)
    if old is not None:
        _remove(prefix, old, [dist for dist in installed if dist.name != project.name])
    stem = f"{canonicalize_name(project.spelt).replace('-', '_')}-{version}"
    files = _path_files(project, stem)
    files |= _info_files(project, f"{stem}.dist-info", version, kept)
    files |= _scripts(project, kept)
    _write(prefix, files, f"{stem}.dist-info")
    return Applied(
        name=project.name,
        version=version,
        how="finder" if project.modules else "path",
        modules=project.modules or tuple(_packages(project.folder)),
        replaced=was,
    )


def _kept_metadata(old: Installed | None) -> dict[str, str]:
    """METADATA and entry points of what is installed now."""
    found = {}
    for name in ("METADATA", "entry_points.txt"):
        if old is not None and (old.info / name).is_file():
            found[name] = (old.info / name).read_text(encoding="utf-8")
    return found


def _remove(prefix: Path, old: Installed, others: Iterable[Installed]) -> None:
    """Delete the files of a distribution that no other one claims, and the folders this leaves empty."""
    claimed = {line.path for dist in others for line in dist.lines}
    own = [line.path for line in old.lines if line.path not in claimed]
    places = {os.path.normpath(f"{SITE}/{path}") for path in own if not path.startswith("/")}
    folders: set[str] = set()
    for place in places:
        if place.startswith("../"):
            continue
        (prefix / place).unlink(missing_ok=True)
        folders.add(os.path.dirname(place))
    while folders:
        deepest = max(folders, key=lambda folder: folder.count("/"))
        folders.remove(deepest)
        if not deepest.startswith(f"{SITE}/") or not (prefix / deepest).is_dir() or any((prefix / deepest).iterdir()):
            continue
        (prefix / deepest).rmdir()
        folders.add(os.path.dirname(deepest))


def _path_files(project: Project, stem: str) -> dict[str, bytes]:
    """What makes the checkout importable, by path relative to site-packages."""
    if not project.modules:
        return {f"__editable__.{stem}.pth": f"{project.folder}\n".encode()}
    module = f"__editable___{re.sub(r'[^A-Za-z0-9]', '_', stem)}_finder"
    mapping = {name: f"{project.folder}/{name}" for name in project.modules}
    return {
        f"__editable__.{stem}.pth": f"import {module}; {module}.install()\n".encode(),
        f"{module}.py": FINDER.format(mapping=repr(mapping)).encode(),
    }


def _info_files(project: Project, info: str, version: str, kept: Mapping[str, str]) -> dict[str, bytes]:
    url = project.root.as_uri()
    files = {
        f"{info}/METADATA": _metadata(project, version, kept.get("METADATA", "")).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: orbit\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/INSTALLER": INSTALLER,
        f"{info}/direct_url.json": msgspec.json.encode({"dir_info": {"editable": True}, "url": url}),
    }
    if points := _entry_points(project, kept):
        lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in sorted(items.items())) for group, items in points]
        files[f"{info}/entry_points.txt"] = "\n".join(lines).encode()
    return files


def _metadata(project: Project, version: str, kept: str) -> str:
    """Core metadata: the installed one with the new version, else what ``[project]`` states."""
    if kept:
        head, blank, body = kept.partition("\n\n")
        return re.sub(r"^Version:.*$", f"Version: {version}", head, count=1, flags=re.MULTILINE) + blank + body
    table = project.table
    lines = ["Metadata-Version: 2.4", f"Name: {project.spelt}", f"Version: {version}"]
    if isinstance(python := table.get("requires-python"), str):
        lines.append(f"Requires-Python: {python}")
    needs = table.get("dependencies", [])
    lines += [f"Requires-Dist: {need}" for need in needs if isinstance(need, str) and "\n" not in need]
    return "\n".join(lines) + "\n"


def _entry_points(project: Project, kept: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Groups and their entries: the project's, else (when it computes them) those that are installed."""
    dynamic = project.table.get("dynamic", [])
    if isinstance(dynamic, list) and {"scripts", "entry-points"} & set(map(str, dynamic)):
        return _parse_points(kept.get("entry_points.txt", ""))
    groups = {"console_scripts": project.table.get("scripts"), "gui_scripts": project.table.get("gui-scripts")}
    more = project.table.get("entry-points")
    groups |= more if isinstance(more, dict) else {}
    return [
        (group, {str(name): str(value) for name, value in items.items()})
        for group, items in sorted(groups.items())
        if isinstance(items, dict) and items
    ]


def _parse_points(text: str) -> list[tuple[str, dict[str, str]]]:
    groups: dict[str, dict[str, str]] = {}
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif "=" in line and group and not line.startswith("#"):
            name, _, value = line.partition("=")
            groups.setdefault(group, {})[name.strip()] = value.strip()
    return sorted(groups.items())


def _scripts(project: Project, kept: Mapping[str, str]) -> dict[str, bytes]:
    """Programs for ``bin``, which find their interpreter beside themselves."""
    files: dict[str, bytes] = {}
    for group, items in _entry_points(project, kept):
        for name, value in items.items() if group in ("console_scripts", "gui_scripts") else ():
            match = OBJECT.match(value)
            if not match or not SCRIPT_NAME.fullmatch(name):
                raise InputError(f"{project.root}: script {name!r} = {value!r}", fix="write it as module:function")
            module, target = match.groups()
            body = f"import sys\n\nfrom {module} import {target.partition('.')[0]}\n\nsys.exit({target}())\n"
            files[f"../../../bin/{name}"] = LAUNCHER + body.encode()
    return files


def _write(prefix: Path, files: Mapping[str, bytes], info: str) -> None:
    """Write the files (named relative to site-packages), and a RECORD of them."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for name, data in sorted(files.items()):
        digest = record_digest(hashlib.sha256(data).digest())
        writer.writerow((name, f"sha256={digest}", len(data)))
    writer.writerow((f"{info}/RECORD", "", ""))
    for name, data in {**files, f"{info}/RECORD": text.getvalue().encode()}.items():
        path = prefix / os.path.normpath(f"{SITE}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        os.chmod(path, 0o755 if name.startswith("../../../bin/") else 0o644)
        os.utime(path, ns=(tree.EPOCH_NS, tree.EPOCH_NS))
