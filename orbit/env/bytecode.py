"""Byte-compile an environment: hash-based pycs that nothing checks at import, equal on every machine.

A pyc is a function of its folder's sources, its place in the image and the interpreter, and of nothing else (see
:mod:`orbit.env.compile_worker` for what that takes).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from orbit.core import proc
from orbit.core.console import Progress

WORKER = Path(__file__).with_name("compile_worker.py")
BATCH = 500
"""Files for one worker process, about: small enough that cores end together and progress shows."""
TAG = "cpython-312"


@dataclass(frozen=True, slots=True)
class Uncompiled:
    """A file named ``*.py`` that has no compiled form, and what the compiler said."""

    path: str
    """Relative to the prefix."""
    error: str


def compiled_path(source: str) -> str:
    """Where the compiled form of ``source`` lies: ``a/b.py`` -> ``a/__pycache__/b.cpython-312.pyc``."""
    folder, slash, name = source.rpartition("/")
    return f"{folder}{slash}__pycache__/{name[:-3]}.{TAG}.pyc"


def batches(root: Path, size: int = BATCH, only: Collection[str] | None = None) -> Iterator[list[str]]:
    """Absolute paths of all ``*.py`` files below ``root`` in groups of at least ``size``; no folder is split.

    With ``only`` (folders relative to ``root``), of the files right in these folders.
    """
    batch: list[str] = []
    for folder, names in _folders(os.fspath(root)) if only is None else _named(root, only):
        batch.extend(f"{folder}/{name}" for name in sorted(names) if name.endswith(".py"))
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def _folders(root: str) -> Iterator[tuple[str, list[str]]]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield folder, names


def _named(root: Path, folders: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    for folder in sorted(folders):
        path = f"{root}/{folder}" if folder else os.fspath(root)
        if os.path.isdir(path):
            yield path, os.listdir(path)


def compile_tree(
    prefix: Path,
    image_prefix: str,
    *,
    only: Collection[str] | None = None,
    jobs: int | None = None,
    progress: Progress,
) -> tuple[Uncompiled, ...]:
    """Compile everything below ``prefix/lib/python3.12`` with the interpreter in ``prefix``, on all cores.

    With ``only`` (folders relative to ``lib/python3.12``), just what lies right in these folders. Code objects name
    their source below ``image_prefix``. Returns the files that do not compile, sorted; raises :class:`CommandFailed`
    when a worker itself breaks (for example on a full disk).
    """
    work = list(batches(prefix / "lib" / "python3.12", only=only))
    total = sum(len(batch) for batch in work)
    for path in itertools.chain.from_iterable(work) if only is not None else ():
        _unshare(compiled_path(path))
    failures: list[Uncompiled] = []
    done = 0
    with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
        try:
            results = pool.map(lambda batch: _compile(prefix, image_prefix, batch), work)
            for batch, failed in zip(work, results, strict=True):
                done += len(batch)
                failures.extend(failed)
                progress.advance("compiling", done, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(sorted(failures, key=lambda failure: failure.path))


def _unshare(path: str) -> None:
    """Take away a link to another environment's file: the compiler writes into what it finds."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if os.lstat(path).st_nlink > 1:
            os.unlink(path)


def _compile(prefix: Path, image_prefix: str, files: Sequence[str]) -> list[Uncompiled]:
    start = len(str(prefix))
    lines = "".join(f"{path}\0{image_prefix}{path[start:]}\n" for path in files)
    done = proc.run(
        # -S and -P keep site and the current folder out; -I would also ignore the fixed hash seed
        [prefix / "bin" / "python3.12", "-s", "-S", "-P", "-B", "-W", "ignore", "-X", "utf8", WORKER],
        doing="byte-compiling",
        env={"PYTHONHASHSEED": "0"},
        stdin=lines.encode(),
        fix="see the lines above",
    )
    failed = []
    for line in done.stdout.decode(errors="replace").splitlines():
        path, _, error = line.partition("\0")
        failed.append(Uncompiled(path=path[start + 1 :], error=error))
    return failed
