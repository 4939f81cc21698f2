"""Let an environment stand by itself: files in the place of links into a cache. ``orbit env materialize``.

uv with ``UV_LINK_MODE=symlink`` fills an environment with symbolic links into its cache, which is quick on a network
file system; with hard links the two share files, so that who edits one edits the other. Either way the environment
depends on a cache that is cleaned some day: then a hundred thousand links lead to nothing, and what is left of a
package is a folder that Python takes for a namespace.

A file is copied beside its link, times and mode kept (compiled files stay valid: they name their source's time and
size), brought to the disk, and renamed over the link. Killed at any moment, each path is its old link or its new file;
the next run removes unfinished copies and does the rest. (A folder takes a link's place by an exchange of the two
names. On file systems that cannot do that, the link is moved aside first; the next run puts it back.)
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched
from pathlib import Path

from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.core.files import exclusive, remove_tree, replace_folder, require_free
from orbit.core.records import Record
from orbit.core.store import RECORD_NAME
from orbit.env import tree
from orbit.errors import CheckFailed, InputError, RefusedError

LOCK = ".orbit-materialize.lock"
COPY = ".orbit-materialize"
"""Ending of a copy that has not got its name yet."""
ASIDE = ".old"
"""Ending that :func:`orbit.core.files.replace_folder` gives to what it moves aside."""
CACHE_TAG = "CACHEDIR.TAG"
"""A file that says of its folder that it is a cache (Cache Directory Tagging Specification); uv's and pip's have it."""
CACHE_TAG_HEAD = b"Signature: 8a477f597d28d172789f06886806bc55"
BATCH = 256
"""Files that are copied before the disk is waited for."""
JOBS_MAX = 16
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Link:
    """A path of the environment whose content lies in a cache."""

    path: str
    """Relative to the prefix."""
    kind: str
    """``file`` or ``folder``: a symbolic link to one; ``hard``: a file that is also linked from elsewhere."""
    size: int
    """Bytes to copy."""
    target: str
    """Where a symbolic link leads; empty for a hard link."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What of an environment lies elsewhere."""

    links: tuple[Link, ...]
    kept: tuple[str, ...]
    """Symbolic links out of the environment into no cache (``bin/python`` of a virtual environment), as ``a -> b``."""
    dangling: tuple[str, ...]
    inside: int
    """Links that lead to something inside, which stay."""
    leftovers: tuple[str, ...]
    """Copies that an earlier run did not finish."""


class Materialized(Record, frozen=True, kw_only=True):
    """What was done."""

    prefix: str
    links: int
    """Symbolic links that became files or folders."""
    hard_links: int
    """Files that were shared and no longer are."""
    bytes: int
    inside: int
    kept: tuple[str, ...]


def materialize(
    prefix: Path, caches: Sequence[Path] = (), *, jobs: int | None = None, progress: Progress
) -> Materialized:
    """Copy everything that lies in a cache into the environment at ``prefix``.

    ``caches``: folders that count as caches beside those that say so themselves and uv's. Raises :class:`InputError`
    for a folder that is no environment, :class:`RefusedError` when links lead to nothing (nothing is changed then),
    when the disk is too small, or for an environment of Orbit's store, and :class:`CheckFailed` when links are left.
    """
    root = check_environment(prefix)
    with _alone(root):
        found = survey(root, caches)
        if found.leftovers:
            _clean(root, found.leftovers)
            found = survey(root, caches)
        refuse_dangling(root, found)
        require_free(root, sum(link.size for link in found.links), "what lies in caches")
        _replace_all(root, found.links, jobs=jobs, progress=progress)
        left = survey(root, caches).links
        if left:
            raise CheckFailed(
                f"{root}: {len(left)} path(s) lie in a cache again, e.g. {left[0].path}",
                fix="stop whatever installs into that environment and run the same command again",
            )
    return Materialized(
        prefix=str(root),
        links=sum(link.kind != "hard" for link in found.links),
        hard_links=sum(link.kind == "hard" for link in found.links),
        bytes=sum(link.size for link in found.links),
        inside=found.inside,
        kept=found.kept,
    )


def check_environment(prefix: Path) -> Path:
    """``prefix`` resolved. Raises :class:`InputError` unless it is the folder of an environment, whoever made it."""
    root = Path(os.path.realpath(prefix))
    if not root.is_dir():
        raise InputError(f"{prefix}: no such folder", fix="give the folder of an environment")
    signs = any((root / name).exists() for name in ("pyvenv.cfg", "conda-meta", "bin/python3", "bin/python"))
    if not signs and not any(root.glob("lib/python3*/site-packages")):
        raise InputError(f"{prefix}: not an environment", fix="give the folder that has bin/python3 in it")
    if (root.parent / RECORD_NAME).exists():
        raise RefusedError(
            f"{prefix}: belongs to Orbit's store, whose environments share files on purpose",
            fix="`orbit env create --out DIR` makes a copy that shares nothing",
        )
    return root


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    lock = root / LOCK
    with exclusive(lock, f"orbit env materialize {root}"):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _clean(root: Path, leftovers: Iterable[str]) -> None:
    """Remove copies without a name; a link that was moved aside and has no successor goes back."""
    for path in leftovers:
        name = os.path.basename(path)
        place = root / os.path.dirname(path) / name.removesuffix(f"{COPY}{ASIDE}").removeprefix(".")
        if name.endswith(f"{COPY}{ASIDE}") and not os.path.lexists(place):
            os.rename(root / path, place)
        else:
            remove_tree(root / path)


def refuse_dangling(root: Path, found: Survey) -> None:
    """Raise :class:`RefusedError` with the list when links lead to nothing."""
    if found.dangling:
        more = len(found.dangling) - SHOWN
        lines = [*found.dangling[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise RefusedError(
            f"{root}: {len(found.dangling)} link(s) lead to nothing:\n" + "\n".join(f"  | {line}" for line in lines),
            fix="their content is gone (a cleaned cache): make the environment again, with UV_LINK_MODE=copy",
        )


def default_caches() -> tuple[Path, ...]:
    """uv's cache, by the variables that say where it is."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    named = os.environ.get("UV_CACHE_DIR")
    return tuple(Path(path) for path in (named, os.path.join(base, "uv")) if path)


def survey(root: Path, caches: Iterable[Path] = ()) -> Survey:
    """Look at every path below ``root`` (resolved); nothing is changed and nothing outside is listed."""
    known = tuple(os.path.realpath(path) for path in (*default_caches(), *caches))
    is_cached = _Caches(known)
    links: list[Link] = []
    kept: list[str] = []
    dangling: list[str] = []
    leftovers: list[str] = []
    shared: dict[tuple[int, int], list[tuple[str, os.stat_result]]] = {}
    inside = 0
    for relative, entry in _walk(root, leftovers):
        if not entry.is_symlink():
            state = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(state.st_mode) and state.st_nlink > 1:
                shared.setdefault((state.st_dev, state.st_ino), []).append((relative, state))
            continue
        leads = os.path.realpath(entry.path)
        target = os.readlink(entry.path)
        told = f"{relative} -> {target}"
        if not os.path.exists(leads):
            dangling.append(told)
        elif _within(leads, os.fspath(root)) or _is_alias(entry.path, target, os.fspath(root)):
            inside += 1
        elif is_cached(leads):
            folder = os.path.isdir(leads)
            size = _tree_bytes(leads) if folder else os.stat(leads).st_size
            links.append(Link(relative, "folder" if folder else "file", size, leads))
        else:
            kept.append(told)
    for names in shared.values():
        if names[0][1].st_nlink > len(names):
            links.extend(Link(path, "hard", state.st_size, "") for path, state in names)
    links.sort(key=lambda link: link.path)
    return Survey(tuple(links), tuple(sorted(kept)), tuple(sorted(dangling)), inside, tuple(sorted(leftovers)))


def _walk(root: Path, leftovers: list[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    skip = len(os.fspath(root)) + 1
    pending = [os.fspath(root)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                relative = entry.path[skip:]
                if entry.name.endswith((COPY, f"{COPY}{ASIDE}")):
                    leftovers.append(relative)
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif relative != LOCK:
                    yield relative, entry


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _is_alias(path: str, target: str, root: str) -> bool:
    """Whether a link names another path of the environment, which may itself be a link into a cache.

    Such a link stays: it is right as soon as the other one is. Only a target whose words can be believed counts, one
    that does not climb after it went down.
    """
    parts = target.split("/")
    down = next((number for number, part in enumerate(parts) if part not in ("..", ".", "")), len(parts))
    return ".." not in parts[down:] and _within(
        os.path.normpath(f"{os.path.dirname(path)}/{target}" if not target.startswith("/") else target), root
    )


class _Caches:
    """Whether a path lies in a cache: in one of the known ones, or below a folder that is tagged as one."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known
        self._tagged: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        if any(_within(path, folder) for folder in self._known):
            return True
        return self._is_tagged(os.path.dirname(path))

    def _is_tagged(self, folder: str) -> bool:
        answer = self._tagged.get(folder)
        if answer is None:
            answer = _has_tag(folder) or (folder != "/" and self._is_tagged(os.path.dirname(folder)))
            self._tagged[folder] = answer
        return answer


def _has_tag(folder: str) -> bool:
    try:
        with open(f"{folder}/{CACHE_TAG}", "rb") as file:
            return file.read(len(CACHE_TAG_HEAD)) == CACHE_TAG_HEAD
    except OSError:
        return False


def _tree_bytes(folder: str) -> int:
    return sum(
        os.stat(path).st_size
        for base, _, names in os.walk(folder)
        for path in (f"{base}/{name}" for name in names)
        if os.path.isfile(path)
    )


def _replace_all(root: Path, links: Sequence[Link], *, jobs: int | None, progress: Progress) -> None:
    if not links:
        return
    size = sum(link.size for link in links)
    progress.step(f"copying {len(links)} files and folders, {format_bytes(size)}, out of caches")
    done = 0
    workers = jobs or min(len(os.sched_getaffinity(0)), JOBS_MAX)
    with ThreadPoolExecutor(workers) as pool:
        for batch in batched(links, BATCH):
            try:
                list(pool.map(functools.partial(_copy, root), batch))
                tree.sync(root)
                for link in batch:
                    _rename(root, link)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                for link in batch:
                    remove_tree(_beside(root, link))
                raise
            done += len(batch)
            progress.advance("out of caches", done, len(links))


def _beside(root: Path, link: Link) -> Path:
    place = root / link.path
    return place.with_name(f".{place.name}{COPY}")


def _copy(root: Path, link: Link) -> None:
    place, copy = root / link.path, _beside(root, link)
    if link.kind != "folder":
        _copy_file(place, copy)
        return
    shutil.copytree(link.target, copy, symlinks=True, copy_function=_copy_file)
    _settle_links(Path(link.target), copy)


def _copy_file(source: Path | str, copy: Path | str) -> None:
    """Content, mode and times of a file (through a link)."""
    shutil.copyfile(source, copy)
    state = os.stat(source)
    os.chmod(copy, stat.S_IMODE(state.st_mode))
    os.utime(copy, ns=(state.st_atime_ns, state.st_mtime_ns))


def _settle_links(source: Path, copy: Path) -> None:
    """In a copied folder: relative links that stay in it are kept, all others become what they lead to."""
    top = os.path.realpath(source)
    for base, folders, names in os.walk(copy):
        for name in [*folders, *names]:
            path = Path(base, name)
            if not path.is_symlink():
                continue
            original = source / path.relative_to(copy)
            leads = os.path.realpath(original)
            if not os.readlink(path).startswith("/") and _within(leads, top):
                continue
            if not os.path.exists(leads):
                raise RefusedError(
                    f"{original}: leads to nothing", fix="make the environment again, with UV_LINK_MODE=copy"
                )
            path.unlink()
            if os.path.isdir(leads):
                shutil.copytree(leads, path, symlinks=False, copy_function=_copy_file)
            else:
                _copy_file(leads, path)


def _rename(root: Path, link: Link) -> None:
    place, copy = root / link.path, _beside(root, link)
    if link.kind == "folder":
        replace_folder(copy, place)
    else:
        os.replace(copy, place)
