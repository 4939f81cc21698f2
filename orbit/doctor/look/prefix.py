"""An environment, by what a moment shows: names, versions, links, the files whose absence is known to hurt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from orbit.doctor.facts import Prefix
from orbit.errors import InputError
from orbit.launch.preflight.mounts import Mounted, mount_of
from orbit.launch.preflight.rules import Files

FOLDER = re.compile(r"^python3\.\d+$")
INFO = re.compile(r"^(?P<name>.+)-(?P<version>[^-]+)\.dist-info$")
INIT = re.compile(rb"^([A-Za-z_]\w*)/__init__\.py,", re.MULTILINE)
MOST_DANGLING = 20
RECORD_BYTES = 16 << 20


def default_prefix(env: Mapping[str, str], own: str) -> Path:
    """The environment to look at when none is named: the active one, else ``own`` (the running Python's)."""
    for name in ("ORBIT_PREFIX", "VIRTUAL_ENV", "CONDA_PREFIX"):
        if env.get(name) and Path(env[name]).is_dir():
            return Path(env[name])
    return Path(own)


def read_prefix(path: Path, mounts: Sequence[Mounted], files: Files) -> Prefix:
    """The environment at ``path``. Raises :class:`InputError` when it is none."""
    site = _site(path)
    mount = mount_of(os.path.realpath(site), mounts)
    entries = sorted(os.scandir(site), key=lambda entry: entry.name)
    infos = [entry.name for entry in entries if entry.name.endswith(".dist-info")]
    matches = [match for name in infos if (match := INFO.match(name))]
    packages = {str(canonicalize_name(match["name"])): str(match["version"]) for match in matches}
    dangling = list(_dangling(site, entries))
    python, problem = _interpreter(path)
    modules = {entry.name.partition(".")[0] for entry in entries if _is_module(entry)}
    return Prefix(
        path=str(path),
        site=str(site),
        file_system=mount.kind if mount else "",
        remote=mount.is_remote(files) if mount else False,
        python=python,
        python_problem=problem,
        packages=packages,
        modules=tuple(sorted(modules)),
        num_dangling=len(dangling),
        dangling=tuple(dangling[:MOST_DANGLING]),
        hollow=tuple(_hollow(site, infos)),
        has_cuda=(path / "cuda").is_dir(),
        **_known_files(site),
    )


def _known_files(site: Path) -> dict[str, Any]:
    """Files whose presence says something."""
    return {
        "num_cudnn": len([p for p in (site / "nvidia/cudnn/lib").glob("libcudnn.so.*") if p.name[-1].isdigit()]),
        "z3_library": any((site / "z3/lib").glob("libz3.so*")),
        "post_training": (site / "megatron/post_training").is_dir(),
        "helpers": any((site / "megatron/core/datasets").glob("helpers_cpp*.so")),
        "nccl_files": tuple(str(p.relative_to(site)) for p in sorted((site / "nvidia").glob("*/lib/libnccl.so.2"))),
    }


def _site(path: Path) -> Path:
    try:
        names = sorted(os.listdir(path / "lib"))
    except OSError:
        names = []
    found = [path / "lib" / name / "site-packages" for name in names if FOLDER.match(name)]
    found = [site for site in found if site.is_dir() and not site.parent.is_symlink()]
    if not found:
        raise InputError(f"{path}: not an installed environment", fix="name a folder with lib/python3.*/site-packages")
    return found[0]


def _is_module(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith((".", "_")) or entry.name.endswith((".dist-info", ".egg-info", ".pth")):
        return False
    if entry.name.endswith((".py", ".so")):
        return True
    return "." not in entry.name and entry.name != "__pycache__" and entry.is_dir()


def _dangling(site: Path, entries: Sequence[os.DirEntry[str]]) -> Iterator[str]:
    """Links without target, of site-packages itself and of its folders."""
    for entry in entries:
        if entry.is_symlink() and not os.path.exists(entry.path):
            yield entry.name
        elif entry.is_dir():
            try:
                with os.scandir(entry.path) as inner:
                    links = sorted(each.path for each in inner if each.is_symlink())
            except OSError:
                continue
            yield from (os.path.relpath(link, site) for link in links if not os.path.exists(link))


def _hollow(site: Path, infos: Sequence[str]) -> Iterator[str]:
    """Packages whose record has an __init__.py that is not a file."""
    for info in infos:
        try:
            with open(site / info / "RECORD", "rb") as file:
                record = file.read(RECORD_BYTES)
        except OSError:
            continue
        for name in sorted(set(INIT.findall(record))):
            if not os.path.isfile(site / os.fsdecode(name) / "__init__.py"):
                yield os.fsdecode(name)


def _interpreter(path: Path) -> tuple[str, str]:
    """Where bin/python leads to, and why that cannot be started."""
    link = path / "bin" / "python3"
    link = link if os.path.lexists(link) else path / "bin" / "python"
    if not os.path.lexists(link):
        return "", ""
    target = os.path.realpath(link)
    if os.access(target, os.X_OK):
        return target, ""
    closed = next((str(above) for above in reversed(Path(target).parents) if not os.access(above, os.X_OK)), "")
    if closed and os.path.isdir(closed):
        return target, f"leads to {target}, and this user may not enter {closed}"
    return target, f"leads to {target}, which is not there or cannot be executed"
