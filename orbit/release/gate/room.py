"""The folder of a clean room: made, filled with a clone, emptied; and what gets into it of the machine around.

A room that was left by a killed run is emptied by the next one, which may be killed as well: the mark goes last.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from orbit.core.files import remove_tree
from orbit.errors import MissingError, RefusedError
from orbit.image.base.apt import host_repositories
from orbit.image.base.definition import load_base
from orbit.image.base.places import mirrors
from orbit.profile.model import Profile
from orbit.release.checkout import git, read_checkout
from orbit.release.gate.fence import hosts_in
from orbit.release.gate.model import CleanRoomPolicy

MARK = ".orbit-clean-room"
FOLDERS = ("cache", "uv", "home", "tmp")


def require_commit(root: Path, commit: str) -> None:
    """Raises unless the checkout at ``root`` is clean and has ``commit``."""
    here = read_checkout(root)
    if here.changes:
        raise RefusedError(
            f"the checkout has {here.changes} changed file(s): {', '.join(here.changed)}",
            fix="commit or remove them: what is judged and what is built must be one thing",
        )
    if not here.commit:
        raise MissingError(f"no commit can be cloned: {here.reason}", fix="run the gate in a git clone")
    doing = "looking for the commit"
    if not git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", doing=doing, check=False).strip():
        raise MissingError(f"commit {commit} is not in this clone", fix="git fetch it, or run the gate where it is")


def make_room(place: Path) -> None:
    """An empty room, with its mark first."""
    place.mkdir(parents=True, exist_ok=True)
    (place / MARK).write_text("orbit gate makes this folder, and empties it\n", encoding="ascii")
    for name in FOLDERS:
        (place / name).mkdir()


def empty_room(place: Path) -> None:
    """Remove a room; nothing when there is none. Raises :class:`RefusedError` for a folder that is none of ours."""
    if not os.path.lexists(place):
        return
    if place.is_symlink() or not place.is_dir():
        raise RefusedError(f"{place}: exists and is no folder", fix="name another one: --room")
    if not (place / MARK).is_file() and any(place.iterdir()):
        raise RefusedError(f"{place}: holds something else than a clean room", fix="name another folder: --room")
    for path in place.iterdir():
        if path.name != MARK:
            remove_tree(path)
    remove_tree(place)


def clone(root: Path, commit: str, place: Path) -> None:
    """That commit and nothing else in ``place``, in a repository that shares nothing with the one at ``root``."""
    settings = place.with_name("gitconfig")  # git reads who may own a repository from files alone
    settings.write_text("[safe]\n\tdirectory = *\n", encoding="ascii")
    place.mkdir()
    for words in (
        ("init", "--quiet", "--template="),
        ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", str(root), f"{commit}:refs/heads/clean-room"),
        ("checkout", "--quiet", "--detach", commit),
    ):
        git(place, *words, doing=f"cloning {commit}", settings=settings)
    made = read_checkout(place)
    if made.commit != commit or made.changes:
        raise RefusedError(
            f"{place}: the clone is not as the commit: {', '.join(made.changed) or made.commit or made.reason}",
            fix="see .gitattributes and filters: a clone must have the very bytes",
        )


def declared_hosts(clone_root: Path, profile: Profile, policy: CleanRoomPolicy) -> frozenset[str]:
    """Hosts that may be contacted: those the clone's data names, those of the definition, those of the host's apt."""
    found = set(policy.hosts)
    for pattern in policy.files:
        for path in sorted(clone_root.glob(pattern)):
            found |= hosts_in(path.read_bytes())
    if policy.host_apt:
        addresses = list(mirrors())
        with contextlib.suppress(MissingError):
            addresses += [each.url for each in host_repositories(load_base(profile.image.base))]
        found |= hosts_in("\n".join(addresses).encode())
    return frozenset(found)


def passed_on(policy: CleanRoomPolicy) -> dict[str, str]:
    """The caller's variables that the definition lets in."""
    return {name: os.environ[name] for name in policy.environment if name in os.environ}


def room_environment(place: Path, policy: CleanRoomPolicy) -> dict[str, str]:
    """Everything a program in the room finds in its environment, but the proxy."""
    return {
        **passed_on(policy),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "XDG_CACHE_HOME": str(place / "home" / ".cache"),
        "ORBIT_CACHE": str(place / "cache"),
        "UV_CACHE_DIR": str(place / "uv"),
        "UV_NO_CONFIG": "1",
    }
