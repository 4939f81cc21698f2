"""compat-libcuda: NVIDIA's forward-compatibility libcuda is not in front of the driver's.

The ``compat`` folder of a CUDA image has a ``libcuda.so.1`` for data-center drivers that are older than the toolkit.
Where the host's driver is as new or newer, loading it fails with error 803 (the system has an unsupported combination).
It may be used only after a look at the host's driver, so no fixed setting of an image may put it first: not
``LD_LIBRARY_PATH``, not a file in ``ld.so.conf.d`` that is read before the system's folders, not ``ld.so.cache``.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.facts import Environment
from orbit.audit.installed.tree import resolve
from orbit.audit.known.knowledge import DriverFiles, libraries
from orbit.audit.known.policy import Policy
from orbit.audit.models import ld_conf
from orbit.audit.models.loader import Loader, loader_of
from orbit.core.findings import Finding, Severity

ID = "compat-libcuda"
TITLE = "the forward-compatibility libcuda is not in front of the driver's"
LIBCUDA = "libcuda.so.1"


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per setting that puts a compat folder in front."""
    known = libraries().driver
    loader = loader_of(env, policy)
    yield from _library_path(env, loader, known)
    if env.tree.rooted:
        yield from _configured(env, loader, known)
        yield from _cached(env, loader, known)
    yield from _run_paths(env, loader, known)


def is_compat(known: DriverFiles, folder: str) -> bool:
    """Whether a folder is one of the forward-compatibility package: ``/usr/local/cuda-13.0/compat``."""
    return any(part in known.compat_folders for part in folder.split("/"))


def _holds(env: Environment, folder: str | None) -> bool:
    """Whether the folder, links followed, is there and has a libcuda."""
    return folder is not None and resolve(env.tree, f"{folder}/{LIBCUDA}") is not None


def _library_path(env: Environment, loader: Loader, known: DriverFiles) -> Iterator[Finding]:
    for text in dict.fromkeys(loader.library_path):
        inside = loader.folder_of("", text)
        if _holds(env, inside) and (is_compat(known, text) or is_compat(known, inside or "")):
            yield _finding(
                f"LD_LIBRARY_PATH: {text}",
                "LD_LIBRARY_PATH puts the forward-compatibility libcuda in front of the driver's",
                {"LD_LIBRARY_PATH": ":".join(loader.library_path)},
            )


def _configured(env: Environment, loader: Loader, known: DriverFiles) -> Iterator[Finding]:
    """Folders of ld.so.conf: the container toolkit runs ldconfig when a container starts, so their order decides."""
    system_seen = False
    for item in ld_conf.configured_folders(env.texts):
        if item.folder in ld_conf.DEFAULT_FOLDERS:
            system_seen = True
        elif is_compat(known, item.folder) and _holds(env, loader.folder_of("", item.folder)):
            yield _finding(
                f"{item.file}: {item.folder}",
                "the loader's configuration has the forward-compatibility libcuda "
                + ("behind the system's folders: used only where the driver's is not there" if system_seen
                   else "in front of the driver's"),
                {"file": item.file},
                severity=Severity.WARNING if system_seen else Severity.ERROR,
            )  # fmt: skip


def _cached(env: Environment, loader: Loader, known: DriverFiles) -> Iterator[Finding]:
    data = env.texts.get(ld_conf.CACHE)
    if data is None:
        return
    try:
        table = ld_conf.lookup_table(ld_conf.read_cache(data, loader.machine))
    except ld_conf.MalformedCache:
        return
    path = table.get(LIBCUDA, "")
    target = resolve(env.tree, path[1:]) if path else None
    if target is not None and (is_compat(known, path) or is_compat(known, target)):
        yield _finding(
            f"{ld_conf.CACHE}: {path}",
            "the loader's cache has the forward-compatibility libcuda as the one to load",
            {"path": path},
        )


def _run_paths(env: Environment, loader: Loader, known: DriverFiles) -> Iterator[Finding]:
    for item in env.objects:
        if item.dynamic is None or item.machine != loader.machine or LIBCUDA not in item.dynamic.needed:
            continue
        found = loader.find(item, LIBCUDA)
        if found.by in ("rpath", "inherited rpath", "runpath") and is_compat(known, found.paths[0]):
            yield _finding(
                env.in_site(item.path),
                "its run path finds the forward-compatibility libcuda before the driver's",
                {"library": env.in_site(found.paths[0])},
            )


def _finding(subject: str, message: str, evidence: dict[str, str], severity: Severity = Severity.ERROR) -> Finding:
    return Finding(
        rule=ID,
        severity=severity,
        subject=subject,
        message=f"{message}: with a driver as new as the toolkit CUDA fails with error 803",
        evidence=evidence,
        fix="let the entry point add the folder to LD_LIBRARY_PATH only when the host's driver is older than the "
        "toolkit, or leave the package out",
    )
