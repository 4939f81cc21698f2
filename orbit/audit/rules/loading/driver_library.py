"""driver-library: the GPU driver's libraries come from the host, and nothing in the target gets in their way.

``libcuda.so.1`` and its kin must be of the driver that the kernel has loaded. A copy in an image (left by
``docker commit`` in a container with GPUs, or installed with a driver package) or a stub that a linker needed is found
instead of the host's: error 803, error 34, or "driver version is insufficient".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Environment
from orbit.audit.known.knowledge import DriverFiles, libraries
from orbit.audit.known.policy import Policy
from orbit.audit.models.loader import Loader, loader_of
from orbit.core.findings import Finding, Severity

ID = "driver-library"
TITLE = "the GPU driver's libraries come from the host"
SHOWN = 5


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per folder with driver libraries, and per search path that leads to stubs."""
    known = libraries().driver
    loader = loader_of(env, policy)
    searched = dict(loader.search_folders())
    by_folder: dict[str, list[str]] = defaultdict(list)
    for path, fact in env.tree.entries.items():
        if ".so" in path and known.has(path[path.rfind("/") + 1 :]) and fact.is_file and not is_set_apart(known, path):
            by_folder[path.rpartition("/")[0]].append(path)
    used = _used(loader, known)
    for folder, paths in sorted(by_folder.items()):
        how = searched.get(folder, "") or ("run paths" if not used.isdisjoint(paths) else "")
        yield _shipped(env, folder, sorted(paths), how)
    yield from _stubs(env, loader, known, searched)


def _used(loader: Loader, known: DriverFiles) -> frozenset[str]:
    """Files that objects get when they need a library of the driver, or a private copy of one under its own name."""
    found: set[str] = set()
    for item in loader.objects.values():
        if item.dynamic is not None and item.machine == loader.machine:
            for soname in item.dynamic.needed:
                if known.has(soname):
                    found.update(loader.resolve(item, soname).paths)
    return frozenset(found)


def is_set_apart(known: DriverFiles, path: str) -> bool:
    """Whether a path lies in a folder of stubs or of the forward-compatibility package."""
    parts = path.split("/")[:-1]
    return any(part in known.stub_folders or part in known.compat_folders for part in parts)


def _shipped(env: Environment, folder: str, paths: list[str], searched: str) -> Finding:
    empty = [path for path in paths if env.tree.entries[path].size == 0]
    names = ", ".join(path.rpartition("/")[2] for path in paths[:SHOWN])
    where = f", where the loader looks ({searched})" if searched else ""
    what = "empty files in place of " if len(empty) == len(paths) else ""
    return Finding(
        rule=ID,
        severity=Severity.ERROR if searched or empty else Severity.WARNING,
        subject=env.in_site(folder) or "/",
        message=f"has {what}{len(paths)} librar{'ies' if len(paths) > 1 else 'y'} of the GPU driver{where}: "
        "only those of the host's driver work with its kernel module",
        evidence={"files": names},
        fix="take them out: the container toolkit mounts the host's. An image made by committing a container with GPUs "
        "has them as leftovers",
    )


def _stubs(env: Environment, loader: Loader, known: DriverFiles, searched: dict[str, str]) -> Iterator[Finding]:
    """Stubs of the driver in a folder that the loader looks through."""
    found = {folder: how for folder, how in searched.items() if folder.rpartition("/")[2] in known.stub_folders}
    for folder, how in sorted(found.items()):
        names = sorted(
            path.rpartition("/")[2]
            for path in env.tree.entries
            if path.startswith(f"{folder}/") and known.has(path.rpartition("/")[2])
        )
        if names:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=env.in_site(folder),
                message=f"stubs for linking are where the loader looks ({how}): CUDA ends with error 34",
                evidence={"files": ", ".join(names[:SHOWN])},
                fix="give the folder to the linker only (LIBRARY_PATH, -L), never to the loader",
            )
    for item in env.objects:
        if item.dynamic is not None and item.machine == loader.machine:
            for soname in item.dynamic.needed:
                if known.has(soname) and (stub := _stub_of(loader, known, loader.resolve(item, soname).paths)):
                    yield Finding(
                        rule=ID,
                        severity=Severity.ERROR,
                        subject=env.in_site(item.path),
                        message=f"its run path finds the stub of {soname} before the driver's library",
                        evidence={"stub": env.in_site(stub)},
                        fix="build it without the stub's folder in the run path",
                    )


def _stub_of(loader: Loader, known: DriverFiles, paths: tuple[str, ...]) -> str:
    for path in paths:
        folder = path.rpartition("/")[0]
        if folder.rpartition("/")[2] in known.stub_folders and folder not in dict(loader.search_folders()):
            return path
    return ""
