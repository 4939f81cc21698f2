"""Orbit's own layer: the package of this checkout as an installed distribution, and the image's entry point.

It is put together here and not by a build front end: that takes under a second, needs neither network nor a build
backend, and depends on nothing but the files. A test holds it against the wheel that hatchling builds.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.digests import record_digest
from orbit.core.files import sha256_file
from orbit.core.records import content_key
from orbit.env.bytecode import WORKER, compile_tree
from orbit.env.scripts import LAUNCHER
from orbit.errors import InputError
from orbit.image.layers import SITE
from orbit.image.runtime import STATE_SCRIPT, state_script
from orbit.image.tar import Member, content

FORMAT = 2
NAME = "orbit"
ENTRYPOINT = "containers/entrypoint.sh"
SKIPPED_NAMES = frozenset({"__pycache__"})


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Everything of a checkout that this layer is made from, read once: key and content cannot disagree."""

    listed: Mapping[str, bytes]
    """Path relative to site-packages -> content, of all but compiled files."""

    @property
    def key(self) -> str:
        """Identity of the content, and of what compiles it besides the interpreter."""
        files = {name: hashlib.sha256(data).hexdigest() for name, data in self.listed.items()}
        return content_key({"format": FORMAT, "files": files, "compiler": sha256_file(WORKER)})


def read_own(root: Path) -> OwnFiles:
    """Read the checkout at ``root``. Raises :class:`InputError` for links among its sources."""
    project = _project_file(root)
    script = LAUNCHER + f"import sys\n\nfrom {NAME}.cli import main\n\nsys.exit(main())\n".encode()
    listed = {
        **package_files(root, project),
        f"../../../bin/{NAME}": script,
        f"../../../bin/{NAME}-entrypoint": (root / ENTRYPOINT).read_bytes(),
        f"../../../{STATE_SCRIPT}": state_script(),
    }
    info = f"{NAME}-{project['project']['version']}.dist-info"
    listed |= {f"{info}/{name}": data for name, data in dist_info(root, project).items()}
    listed[f"{info}/RECORD"] = record(listed, f"{info}/RECORD")
    return OwnFiles(listed)


def own_key(root: Path) -> str:
    """Identity of everything this layer is made from in the checkout."""
    return read_own(root).key


def own_members(root: Path, environment: Path, at: str, scratch: Path, *, progress: Progress) -> list[Member]:
    """The layer's members for the checkout at ``root``, see :func:`layer_members`."""
    return layer_members(read_own(root), environment, at, scratch, progress=progress)


def layer_members(own: OwnFiles, environment: Path, at: str, scratch: Path, *, progress: Progress) -> list[Member]:
    """The layer's members below ``at``; sources are compiled with the interpreter of ``environment`` in ``scratch``."""
    base = at.strip("/")
    members = [
        content(os.path.normpath(f"{base}/{SITE}/{name}"), data, executable=name.startswith("../../../bin/"))
        for name, data in own.listed.items()
    ]
    sources = {name: data for name, data in own.listed.items() if name.endswith(".py")}
    return [*members, *compiled(sources, environment, at, scratch, progress=progress)]


def package_files(root: Path, project: dict[str, Any]) -> dict[str, bytes]:
    """Path in site-packages -> content, for the package and the data folders pyproject.toml puts into it."""
    found: dict[str, bytes] = {}
    for source, target in _folders(project).items():
        for path in _files(root / source):
            found[f"{target}/{path.relative_to(root / source)}"] = path.read_bytes()
    return found


def _folders(project: dict[str, Any]) -> dict[str, str]:
    """Source folder -> folder in site-packages, from ``tool.hatch.build.targets.wheel``."""
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    return {name: name for name in wheel["packages"]} | dict(wheel["force-include"])


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise InputError(f"{path}: a link in Orbit's own sources", fix="keep the file itself there")
        if path.is_file() and SKIPPED_NAMES.isdisjoint(path.parts) and path.suffix != ".pyc":
            yield path


def dist_info(root: Path, project: dict[str, Any]) -> dict[str, bytes]:
    """Files of the ``.dist-info`` folder but RECORD (core metadata 2.4, PyPA's entry-points format)."""
    scripts = "".join(f"{name} = {target}\n" for name, target in sorted(project["project"]["scripts"].items()))
    return {
        "METADATA": metadata(project["project"]).encode(),
        "WHEEL": b"Wheel-Version: 1.0\nGenerator: orbit\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "INSTALLER": b"orbit\n",
        "entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
        "licenses/LICENSE": (root / "LICENSE").read_bytes(),
    }


def metadata(project: dict[str, Any]) -> str:
    """METADATA of ``[project]``: name, version, summary, licence, Python, requirements and extras."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {name}" for name in project["license-files"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {requirement}" for requirement in project["dependencies"]),
    ]
    for extra, requirements in sorted(project.get("optional-dependencies", {}).items()):
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {requirement}; extra == '{extra}'" for requirement in requirements]
    return "\n".join(lines) + "\n"


def record(files: dict[str, bytes], own_name: str) -> bytes:
    """RECORD: path, urlsafe base64 of sha256 without padding, size (PyPA, recording installed projects)."""
    rows = []
    for name, data in sorted(files.items()):
        digest = record_digest(hashlib.sha256(data).digest())
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*rows, f"{own_name},,\n"]).encode()


def compiled(
    files: dict[str, bytes], environment: Path, at: str, scratch: Path, *, progress: Progress
) -> Iterable[Member]:
    """The compiled forms of the Python files in ``files``, made by the interpreter of the environment."""
    site = scratch / SITE
    for name, data in files.items():
        if name.endswith(".py"):
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_bytes(data)
    (scratch / "bin").mkdir()
    (scratch / "bin" / "python3.12").symlink_to(environment / "bin" / "python3.12")
    failed = compile_tree(scratch, at, progress=progress)
    if failed:
        raise InputError(f"{failed[0].path}: does not compile: {failed[0].error}", fix="correct that file")
    base = at.strip("/")
    for path in sorted(site.rglob("*.pyc")):
        yield content(f"{base}/{path.relative_to(scratch)}", path.read_bytes())


def _project_file(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
