"""From locked packages to the root file system: mmdebstrap without network, written again by our own tar writer.

mmdebstrap unpacks and configures the packages in a folder of its own; with ``SOURCE_DATE_EPOCH`` its result depends on
the packages alone. Writing it again drops what belongs to the building machine and makes everything root's and
readable (:mod:`orbit.image.base.root`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from orbit.core import proc, tools
from orbit.core.records import Record
from orbit.core.store import Store
from orbit.errors import CheckFailed, CommandFailed, MissingError, OrbitError
from orbit.image.base.definition import ARCHITECTURE, BaseDefinition
from orbit.image.base.ground import ground
from orbit.image.base.lock import BaseLock
from orbit.image.base.repository import COMPONENT, write_repository
from orbit.image.base.root import DebianPackage, installed_packages, read_root, write_root
from orbit.image.tar import EPOCH_S, with_parents

TIMEOUT_S = 1800.0
MERGED_USR = 'for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done'
"""Makes /bin and its like links before the first package: usr-is-merged asks for it."""
NO_NAMESPACE = ("newuidmap", "unshare(CLONE_NEWUSER)", "unprivileged user namespaces", "subuid", "subgid")
FIX = "without root, user namespaces, newuidmap (package uidmap) and a range in /etc/subuid and /etc/subgid are needed"


class Contents(Record, frozen=True, kw_only=True):
    """``base.json`` of a store entry."""

    sha256: str
    files: int
    packages: tuple[DebianPackage, ...]


def make_root(
    definition: BaseDefinition, lock: BaseLock, debs: Mapping[str, Path], target: Path, store: Store
) -> Contents:
    """Write the root file system of these packages as the tar file ``target``.

    Raises :class:`MissingError` without mmdebstrap or a way to run it, :class:`InputError` for a package that is not
    the locked one, :class:`CheckFailed` when what was installed is not what the lock lists.
    """
    tools.find("mmdebstrap")
    with ground(store) as folder:
        write_repository(folder / "repository", definition.suite, lock, debs)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o755)
        raw = folder / "raw.tar"
        _install(definition, lock, folder, raw)
        members = with_parents(read_root(raw, definition))
        packages = _checked(installed_packages(members), lock)
        digest = write_root(members, target)
    return Contents(sha256=digest, files=sum(member.kind != "dir" for member in members), packages=packages)


def _install(definition: BaseDefinition, lock: BaseLock, folder: Path, raw: Path) -> None:
    argv = mmdebstrap_argv(definition, lock, folder / "repository", raw)
    environment = {
        "SOURCE_DATE_EPOCH": str(EPOCH_S),
        "HOME": "/nonexistent",
        "DEBIAN_FRONTEND": "noninteractive",
        "TMPDIR": str(folder / "tmp"),
    }
    try:
        proc.run(
            [*own_namespaces(), *argv],
            doing="making the base root file system",
            env=environment,
            timeout_s=TIMEOUT_S,
            program="mmdebstrap",
        )
    except CommandFailed as error:
        raise _explain(error) from None


def _explain(error: CommandFailed) -> OrbitError:
    if os.geteuid() != 0 and any(sign in error.tail for sign in NO_NAMESPACE):
        tail = "\n".join(f"  | {line}" for line in error.tail.splitlines()[-6:])
        return MissingError(f"{error.what}\n{tail}", fix=FIX)
    return error


def own_namespaces() -> list[str]:
    """What to put before mmdebstrap's command, so that a kill leaves nothing mounted and no package sees a network.

    As root it mounts the host's /proc and /sys below its working folder, where a careless deletion would reach the
    host. In a mount namespace of their own they end with the last process. Without root mmdebstrap makes one itself.
    """
    words = ["--mount", "--net", "--propagation", "private", "--"]
    return [str(tools.find("unshare")), *words] if os.geteuid() == 0 else []


def mmdebstrap_argv(definition: BaseDefinition, lock: BaseLock, repository: Path, target: Path) -> list[str]:
    """The command that makes the raw root file system of exactly the locked packages.

    Each is named, so that no solver decides; the repository is ours and its files were hashed, so it is trusted.
    """
    return [
        str(tools.find("mmdebstrap")),
        "--variant=essential",
        "--mode=auto",
        f"--architectures={ARCHITECTURE}",
        "--format=tar",
        f"--include={','.join(sorted(package.name for package in lock.packages))}",
        "--dpkgopt=force-unsafe-io",  # no fsync for each file of a folder that is deleted after a crash
        f"--setup-hook={MERGED_USR}",
        definition.suite,
        str(target),
        f"deb [trusted=yes] copy:{repository} {definition.suite} {COMPONENT}",
    ]


def _checked(packages: tuple[DebianPackage, ...], lock: BaseLock) -> tuple[DebianPackage, ...]:
    """The installed packages, which must be those of the lock."""
    installed = {(package.name, package.version, package.architecture) for package in packages}
    locked = {(package.name, package.version, package.architecture) for package in lock.packages}
    if installed != locked:
        more, less = (
            ", ".join(f"{name} {version}" for name, version, _ in sorted(each)) or "none"
            for each in (installed - locked, locked - installed)
        )
        raise CheckFailed(
            f"the base is not what the lock lists: installed and not locked: {more}; locked and not installed: {less}",
            fix="run `orbit image base refresh`",
        )
    return packages
