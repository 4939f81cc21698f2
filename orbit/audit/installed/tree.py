"""Find out what kind of environment a folder is, and list everything in it once."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orbit.audit.facts import FileFact, Layout, Tree, join
from orbit.audit.files.texts import read_text
from orbit.errors import InputError

KIND_MASK = 0o170000
"""The type bits of a mode."""
PYTHON_FOLDER = re.compile(r"^python(\d+)\.(\d+)$")
MAX_LINKS = 40
"""So many links in one path are followed; the kernel gives up at the same number (ELOOP)."""


def find_layout(path: Path, default_python: str) -> Layout:
    """The layout of the environment at ``path``: a prefix or virtual environment, or a site-packages folder itself.

    ``default_python`` (``3.12``) is assumed for a bare site-packages folder whose path does not name a version.
    Raises :class:`InputError` when the folder is neither.
    """
    prefix = Path(os.path.abspath(path))
    if not prefix.is_dir():
        raise InputError(f"{path}: no such folder", fix="give the folder of an installed environment")
    candidates = []
    library = prefix / "lib"
    if library.is_dir():
        for name in sorted(os.listdir(library)):
            match = PYTHON_FOLDER.match(name)
            # a folder that is a link to another (conda: python3.1 -> python3.12) is not a second one
            if match and not (library / name).is_symlink() and (library / name / "site-packages").is_dir():
                candidates.append((int(match[1]), int(match[2]), f"lib/{name}/site-packages"))
    if len(candidates) > 1:
        found = ", ".join(site for _major, _minor, site in candidates)
        raise InputError(f"{path}: more than one site-packages: {found}", fix="give one of these folders instead")
    if candidates:
        major, minor, site = candidates[0]
        return Layout(prefix, site, (major, minor), _base_interpreter(prefix))
    if any(name.endswith((".dist-info", ".egg-info")) for name in os.listdir(prefix)):
        version = PYTHON_FOLDER.match(prefix.parent.name) or PYTHON_FOLDER.match(f"python{default_python}")
        if version is None:
            raise InputError(f"python = {default_python!r} in the profile", fix='write it as "3.12"')
        return Layout(prefix, "", (int(version[1]), int(version[2])), "")
    raise InputError(
        f"{path}: not an installed environment",
        fix="give a folder with lib/python3.*/site-packages in it, or a site-packages folder with *.dist-info in it",
    )


def read_tree(prefix: Path) -> Tree:
    """List everything under ``prefix``, links not followed. Folders that cannot be listed are reported, not fatal."""
    # the prefix itself may be given through a link: what counts is the folder
    entries: dict[str, FileFact] = {"": _fact(os.stat(prefix))}
    links: dict[str, str] = {}
    denied: list[str] = []
    pending = [""]
    root = str(prefix)
    while pending:
        folder = pending.pop()
        try:
            # entries are looked at relative to their open folder: quicker, and nobody can put a link in its place
            handle = os.open(f"{root}/{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            denied.append(folder)
            continue
        try:
            _read_folder(handle, f"{folder}/" if folder else "", entries, links, pending)
        except OSError:
            denied.append(folder)
        finally:
            os.close(handle)
    above = tuple((str(parent), _fact(os.stat(parent))) for parent in reversed(prefix.resolve().parents))
    roots = tuple(dict.fromkeys((root, str(prefix.resolve()))))
    return Tree(entries, links, tuple(denied), above, roots=roots)


def _read_folder(
    handle: int, lead: str, entries: dict[str, FileFact], links: dict[str, str], pending: list[str]
) -> None:
    """Add the entries of an open folder, and its folders to ``pending``; ``lead`` is in front of their names."""
    with os.scandir(handle) as listing:
        for entry in listing:
            path = lead + entry.name
            try:
                info = entry.stat(follow_symlinks=False)
                kind = info.st_mode & KIND_MASK
                if kind == stat.S_IFLNK:
                    links[path] = os.readlink(entry.name, dir_fd=handle)
            except OSError:
                continue  # gone since the folder was listed
            entries[path] = _fact(info)
            if kind == stat.S_IFDIR:
                pending.append(path)


@dataclass(frozen=True, slots=True)
class End:
    """Where a path leads."""

    how: Literal["here", "missing", "leaves", "circle"]
    """``here``: to an entry of the tree. ``missing``: to a place in the tree where nothing is. ``leaves``: out of the
    tree. ``circle``: its links lead to each other."""
    path: str
    """The entry; the first component that is missing; the absolute target, or the path with its ``..``; the link at
    which following was given up."""
    absolute: bool = False
    """An absolute link was followed on the way: it leads elsewhere once the tree is moved."""
    rest: str = ""
    """What was to come behind a component that is missing."""


def follow(tree: Tree, path: str, *, limit: int = MAX_LINKS) -> End:
    """Follow links inside the tree to what ``path`` finally names. Intermediate folders may be links too.

    In a whole root file system absolute links start at its root and ``..`` above the root stays there, as the kernel
    has it; elsewhere both leave the tree, unless the absolute link leads to the place where the tree lies.
    """
    done: list[str] = []
    rest = [part for part in path.split("/") if part not in ("", ".")][::-1]
    absolute = False
    while rest:
        part = rest.pop()
        if part == "..":
            if done:
                done.pop()
            elif not tree.rooted:
                return End("leaves", "/".join(["..", *rest[::-1]]), absolute)
            continue
        here = "/".join([*done, part])
        target = tree.links.get(here)
        if target is None:
            if here not in tree.entries:
                return End("missing", here, absolute, "/".join(rest[::-1]))
            done.append(part)
            continue
        limit -= 1
        if limit == 0:
            return End("circle", here, absolute)
        if target.startswith("/"):
            inside = target if tree.rooted else _below(tree.roots, target)
            if inside is None:
                return End("leaves", "/".join([target.rstrip("/"), *rest[::-1]]), absolute=True)
            absolute = True
            target = inside
            done.clear()
        rest.extend(piece for piece in target.split("/")[::-1] if piece not in ("", "."))
    return End("here", "/".join(done), absolute)


def resolve(tree: Tree, path: str, *, limit: int = MAX_LINKS) -> str | None:
    """The path of what ``path`` finally names, or None when it does not exist, leaves the tree, or runs in a circle."""
    if path in tree.entries and path not in tree.links:
        return path
    end = follow(tree, path, limit=limit)
    return end.path if end.how == "here" else None


def _below(roots: tuple[str, ...], target: str) -> str | None:
    """An absolute path relative to the root that it lies below; None when it lies below none."""
    for root in roots:
        if target == root or target.startswith(f"{root}/"):
            return target[len(root) :]
    return None


def normalise(folder: str, path: str) -> str | None:
    """``path`` relative to ``folder``, as a path relative to the prefix; None when it leaves the prefix."""
    if not path.startswith("/") and "./" not in path and "//" not in path:
        return join(folder, path)
    if path.startswith("/"):
        return None
    whole = os.path.normpath(join(folder, path))
    return None if whole == ".." or whole.startswith("../") else whole


def _fact(info: os.stat_result) -> FileFact:
    stamp = (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
    return _file_fact(FileFact, (info.st_mode, info.st_uid, info.st_gid, info.st_size, stamp))


_file_fact = tuple.__new__
"""Makes a :class:`FileFact` of its fields in order; there are a hundred thousand in an environment."""


def _base_interpreter(prefix: Path) -> str:
    for line in (read_text(prefix, "pyvenv.cfg") or b"").decode("utf-8", "replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return value.strip()
    return ""
