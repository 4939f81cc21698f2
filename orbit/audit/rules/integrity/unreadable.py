"""unreadable: a given user can read every file and enter every folder, by the mode bits alone.

One closed folder explains everything below it, and one umask explains a thousand files: findings are by cause. In an
image the environment is judged, and besides it every library and whatever links of the environment lead to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Environment, FileFact
from orbit.audit.installed.tree import follow
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.access import (
    EXECUTE,
    READ,
    Access,
    counted,
    needed_entries,
    needed_links,
    needed_roots,
    outermost,
    parents,
    some,
)
from orbit.core.findings import Finding, Severity

ID = "unreadable"
TITLE = "the user can read every file and enter every folder"
FIX = "give others read permission, and folders also execute permission (chmod -R a+rX)"


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per closed parent, per group of closed folders and per group of closed files; a note for root."""
    access = Access(env, policy)
    if policy.uid == 0:
        yield Finding(
            rule=ID,
            severity=Severity.NOTE,
            subject="uid 0",
            message="root may read everything: whether other users can was not judged",
            fix="audit for the user that will run it (--uid)",
        )
        return
    yield from _above(env, access)
    for path in env.tree.denied:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=env.in_site(path) or ".",
            message="a folder that the user who ran the audit cannot list: nothing in it was checked",
            fix="run the audit as a user who may read the environment",
        )
    folders, files = closed_entries(env, access)
    yield from _folders(env, access, folders)
    yield from _files(env, access, files)


def closed_entries(env: Environment, access: Access) -> tuple[list[str], list[str]]:
    """(outermost folders that are needed and closed, files that are needed and closed in folders that are open)."""
    folders: set[str] = set()
    files: list[str] = []
    verdicts: dict[tuple[int, int, int], bool] = {}
    for path, fact in needed_entries(env):
        key = (fact.mode, fact.uid, fact.gid)
        closed = verdicts.get(key)
        if closed is None:
            wanted = READ | EXECUTE if fact.is_folder else READ if fact.is_file else 0
            closed = verdicts[key] = not access.allows(fact, wanted)
        if closed:
            if fact.is_folder:
                folders.add(path)
            else:
                files.append(path)
    entries = env.tree.entries
    places = [*(item.path for item in env.objects), *_link_ends(env), *needed_roots(env)] if env.tree.rooted else ()
    for path in places:
        if (blocked := access.closed(path.rpartition("/")[0])) is not None:
            folders.add(blocked)
        elif path in entries and entries[path].is_file and not access.allows(entries[path], READ):
            files.append(path)
    outer = outermost(folders)
    inside = set(outer)
    return outer, [path for path in dict.fromkeys(files) if not any(parent in inside for parent in parents(path))]


def _link_ends(env: Environment) -> Iterator[str]:
    for path, _target in needed_links(env):
        end = follow(env.tree, path)
        if end.how == "here":
            yield end.path


def _above(env: Environment, access: Access) -> Iterator[Finding]:
    for path, fact in env.tree.above:
        if not access.allows(fact, EXECUTE):
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=path,
                message=(
                    f"a folder above the environment is closed to uid {access.uid}; in an image it has another parent"
                ),
                evidence={"mode": f"{fact.mode & 0o7777:04o}", "owner": f"{fact.uid}:{fact.gid}"},
                fix="move the environment, or open the folder for others to enter (chmod o+x)",
            )


def _folders(env: Environment, access: Access, folders: list[str]) -> Iterator[Finding]:
    if not folders:
        return
    closed = set(folders)
    lost: Counter[str] = Counter()
    for path, fact in env.tree.entries.items():
        if not fact.is_folder:
            for parent in parents(path):
                if parent in closed:
                    lost[parent] += 1
                    break
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in folders:
        groups[path.rpartition("/")[0], _mode(env.tree.entries[path])].append(path)
    for (parent, mode), paths in sorted(groups.items()):
        many = len(paths) > 1
        count = sum(lost[path] for path in paths)
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=(env.in_site(parent) or ".") if many else (env.in_site(paths[0]) or "."),
            message=(
                f"{f'{len(paths)} folders in it are' if many else 'a folder'} closed to uid {access.uid}: "
                f"{counted(count, 'file')} out of reach"
            ),
            evidence={"folders": some(env, paths), "mode": mode},
            fix=FIX,
        )


def _files(env: Environment, access: Access, files: list[str]) -> Iterator[Finding]:
    groups: dict[str, list[str]] = defaultdict(list)
    for path in files:
        groups[_mode(env.tree.entries[path])].append(path)
    for mode, paths in sorted(groups.items()):
        owners = sorted({env.owners.get(path) or env.in_site(path).partition("/")[0] for path in paths})
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=owners[0] if len(owners) == 1 else f"files of mode {mode}",
            message=f"{counted(len(paths), 'file')} not readable by uid {access.uid}",
            evidence={
                "paths": some(env, paths),
                "mode": mode,
                "of": ", ".join(owners[:5]) + (f" and {len(owners) - 5} more" if len(owners) > 5 else ""),
            },
            fix=FIX,
        )


def _mode(fact: FileFact) -> str:
    return f"{fact.mode & 0o7777:04o} {fact.uid}:{fact.gid}"
