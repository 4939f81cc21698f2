"""Where a profile's lock lies: the one place that knows. Every reader of a lock for a profile asks here.

A profile with ``lock = "env/profiles/cu128"`` has ``pyproject.toml`` and ``uv.lock`` of its own in that folder of the
checkout; one without shares those at the checkout's root.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from orbit.errors import InputError
from orbit.profile.lock import Lock, read_lock
from orbit.profile.model import Profile
from orbit.profile.policy import FILE as POLICY

LOCK = "uv.lock"
PROJECT = "pyproject.toml"


def lock_folder(profile: Profile, root: Path) -> Path:
    """The folder of the checkout ``root`` with the profile's ``pyproject.toml`` and ``uv.lock``; uv runs in it.

    Raises :class:`InputError` when it lies outside the checkout, through a link too.
    """
    folder = root / profile.lock
    if not folder.resolve().is_relative_to(root.resolve()):
        raise InputError(
            f"profile {profile.name}: lock = {profile.lock!r} leads out of the checkout, to {folder.resolve()}",
            fix=f'name a folder of the checkout, e.g. lock = "env/profiles/{profile.name}"',
        )
    return folder


def lock_path(profile: Profile, root: Path) -> Path:
    """The profile's ``uv.lock``, there or not. Raises as :func:`lock_folder`."""
    return lock_folder(profile, root) / LOCK


def profile_lock(profile: Profile, root: Path) -> Lock:
    """The profile's lock, read. Raises as :func:`lock_folder`, :class:`orbit.errors.MissingError` without the file and
    :class:`InputError` when it is no lock."""
    return read_lock(lock_path(profile, root))


def lock_name(profile: Profile) -> str:
    """What to call the profile's lock in a sentence: its path relative to the checkout."""
    return str(PurePosixPath(profile.lock) / LOCK)


def project_name(profile: Profile) -> str:
    """What to call the ``pyproject.toml`` that the profile's lock is made from."""
    return str(PurePosixPath(profile.lock) / PROJECT)


def lock_command(profile: Profile) -> str:
    """What makes the lock anew, typed in the checkout. Without ``UV_NO_CONFIG`` the caller's settings would enter."""
    return f"UV_NO_CONFIG=1 uv lock{f' --project {profile.lock}' if profile.lock else ''}"


def checkout_of(path: Path, profile: Profile) -> Path | None:
    """The checkout whose lock for ``profile`` the file ``path`` is; None when it is another lock."""
    folder = path.resolve().parent
    depth = len(PurePosixPath(profile.lock).parts)
    if len(folder.parts) <= depth:
        return None
    root = folder.parents[depth - 1] if depth else folder
    return root if root / profile.lock == folder and root.joinpath(*POLICY).is_file() else None
