"""What mode bits let one user do, and which part of a target that user needs. Not a rule: what several rules ask.

The audit usually runs as root, for whom everything is readable; the image runs as any user. So bits are evaluated for
a uid instead of trying. The user is taken to be in the group of its own number, in those that the target's
``/etc/passwd`` and ``/etc/group`` give it, and in those that were asked for. ACLs and capabilities are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from orbit.audit.facts import Environment, FileFact
from orbit.audit.known.policy import Policy

READ, EXECUTE = 4, 1
SYSTEM_HOMES = frozenset({"", "usr", "usr/local"})
"""Where a distribution of Linux keeps far more than Python: not all of it must be open to everybody."""


SYSTEM_SITE = re.compile(r"(^|/)usr/lib/python3[\d.]*/dist-packages$")


def is_system_site(env: Environment, site: str) -> bool:
    """Whether a site-packages folder is that of Debian's own packages.

    dpkg knows their files, and Debian strips and edits what their RECORD files describe.
    """
    return SYSTEM_SITE.search(f"{env.layout.prefix}/{site}".rstrip("/")) is not None


class Access:
    """The access of one user to the entries of one target."""

    def __init__(self, env: Environment, policy: Policy) -> None:
        self.uid = policy.uid
        self.gids = policy.gids | {policy.uid} | listed_groups(env, policy.uid)
        self._entries = env.tree.entries
        self._closed: dict[str, str | None] = {"": self._own("")}

    def allows(self, fact: FileFact, wanted: int) -> bool:
        """Whether the mode bits grant ``wanted`` (read 4, execute 1).

        Root may always read, and execute what anybody may execute.
        """
        if self.uid == 0:
            return not wanted & EXECUTE or fact.is_folder or fact.mode & 0o111 != 0
        shift = 6 if fact.uid == self.uid else 3 if fact.gid in self.gids else 0
        return fact.mode >> shift & wanted == wanted

    def closed(self, folder: str) -> str | None:
        """The outermost component of ``folder`` (no links in it) that cannot be entered, or None."""
        if folder not in self._closed:
            above = self.closed(folder.rpartition("/")[0])
            self._closed[folder] = above if above is not None else self._own(folder)
        return self._closed[folder]

    def _own(self, folder: str) -> str | None:
        fact = self._entries.get(folder)
        return folder if fact is not None and fact.is_folder and not self.allows(fact, EXECUTE) else None


def listed_groups(env: Environment, uid: int) -> frozenset[int]:
    """Groups of ``uid`` in the target's own ``/etc/passwd`` and ``/etc/group``; none when it has no such files."""
    found: set[int] = set()
    names: set[bytes] = set()
    for line in env.texts.get("etc/passwd", b"").splitlines():
        fields = line.split(b":")
        if len(fields) >= 4 and fields[2] == b"%d" % uid and fields[3].isdigit():
            names.add(fields[0])
            found.add(int(fields[3]))
    for line in env.texts.get("etc/group", b"").splitlines():
        fields = line.split(b":")
        if len(fields) >= 4 and fields[2].isdigit() and names.intersection(fields[3].split(b",")):
            found.add(int(fields[2]))
    return frozenset(found)


def needed_roots(env: Environment) -> tuple[str, ...]:
    """Folders of which a user of the environment needs everything; one empty path stands for the whole tree.

    Of a whole root file system that is the environment's own folder, or where it shares one with the system, the
    interpreter's library; and the CUDA toolkits.
    """
    if not env.tree.rooted or env.kind == "wheels":
        return ("",)
    layout = env.layout
    roots = {site for site in layout.sites if site}
    roots |= {site.rpartition("/")[0] for site in roots if "/python" in site.rpartition("/")[0]}
    if layout.home not in SYSTEM_HOMES:
        roots.add(layout.home)
    local = "usr/local/"
    roots |= {path for path in env.tree.entries if path.startswith("usr/local/cuda") and "/" not in path[len(local) :]}
    return tuple(sorted(root for root in roots if not any(root.startswith(f"{other}/") for other in roots)))


def needed_entries(env: Environment) -> Iterator[tuple[str, FileFact]]:
    """Entries at or below :func:`needed_roots`."""
    roots = needed_roots(env)
    if roots == ("",):
        yield from env.tree.entries.items()
        return
    below = tuple(f"{root}/" for root in roots)
    for path, fact in env.tree.entries.items():
        if path.startswith(below) or path in roots:
            yield path, fact


def needed_links(env: Environment) -> Iterator[tuple[str, str]]:
    """(path, target) of links at or below :func:`needed_roots`, and of those named like a library anywhere."""
    below = tuple(f"{root}/" for root in needed_roots(env) if root)
    for path, target in env.tree.links.items():
        if not below or path.startswith(below) or ".so" in path.rpartition("/")[2]:
            yield path, target


def outermost(paths: Iterable[str]) -> list[str]:
    """Paths that lie below none of the others, in order."""
    known = set(paths)
    return sorted(path for path in known if not any(parent in known for parent in parents(path)))


def parents(path: str) -> Iterator[str]:
    """The folders above a path, innermost first, the root (an empty path) last."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def some(env: Environment, paths: list[str], *, shown: int = 5) -> str:
    """The first paths in order, as people know them, and how many more there are."""
    rest = f" and {len(paths) - shown} more" if len(paths) > shown else ""
    return ", ".join(env.in_site(path) or "." for path in sorted(paths)[:shown]) + rest


def counted(number: int, what: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
