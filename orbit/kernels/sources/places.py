"""Where sources may lie already: the folders of ``ORBIT_SOURCES`` and the names looked for in them.

For the repository ``https://HOST/OWNER/NAME`` at COMMIT, in each folder in turn::

    HOST/OWNER/NAME.git  OWNER/NAME.git  NAME.git      a git repository, bare or not; also without .git
    the same three names with -COMMIT.bundle or .bundle    a bundle, see git-bundle(1)

and for an sdist or a wheel of the lock its file name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from orbit.errors import InputError
from orbit.kernels.sources.model import Pin

VARIABLE = "ORBIT_SOURCES"


@dataclass(frozen=True, slots=True)
class Place:
    """Something that may hold a commit."""

    path: Path
    bundle: bool


def source_folders(value: str | None = None) -> tuple[Path, ...]:
    """The folders that ``value`` (by default ``$ORBIT_SOURCES``) lists, separated by ``:``.

    Raises :class:`InputError` for one that is not there: a misspelt folder must not look like an empty one.
    """
    text = os.environ.get(VARIABLE, "") if value is None else value
    folders = tuple(Path(part).absolute() for part in text.split(":") if part)
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{VARIABLE}: {folder}: no such folder", fix="correct or unset the variable")
    return folders


def repository_names(url: str) -> tuple[str, ...]:
    """``HOST/OWNER/NAME``, ``OWNER/NAME`` and ``NAME`` of a repository's address."""
    parts = urlsplit(url)
    path = parts.path.strip("/").removesuffix(".git")
    names = (f"{parts.hostname}/{path}", path, path.rpartition("/")[2])
    return tuple(dict.fromkeys(name for name in names if name and ".." not in name.split("/")))


def bundle_name(pin: Pin) -> str:
    """The file name under which a commit's bundle is written, and found again."""
    return f"{repository_names(pin.url)[-1]}-{pin.commit}.bundle"


def find_repositories(folders: tuple[Path, ...], pin: Pin) -> tuple[Place, ...]:
    """Everything by a right name that may hold the commit; whether it does is for git to say."""
    found = []
    for folder in folders:
        for name in repository_names(pin.url):
            for suffix in (f"-{pin.commit}.bundle", ".git", "", ".bundle"):
                path = folder / f"{name}{suffix}"
                if suffix.endswith(".bundle") and path.is_file():
                    found.append(Place(path=path, bundle=True))
                elif not suffix.endswith(".bundle") and is_repository(path):
                    found.append(Place(path=path, bundle=False))
    return tuple(found)


def is_repository(path: Path) -> bool:
    """Whether a folder looks like a git repository: bare, or a clone with ``.git`` in it."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def find_file(folders: tuple[Path, ...], name: str) -> Path | None:
    """An sdist or a wheel by its file name."""
    return next((folder / name for folder in folders if (folder / name).is_file()), None)
