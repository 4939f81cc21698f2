"""unreadable: a given user can read every file and enter every folder, by the mode bits alone.

The audit usually runs as root, for whom everything is readable; the image runs as any user. So the bits of every path
component are evaluated for a uid (65534 by default) instead of trying.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Environment, FileFact
from orbit.audit.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "unreadable"
TITLE = "the user can read every file and enter every folder"
SHOWN = 5
READ, EXECUTE = 4, 1
OPEN_TO_ALL = 0o444 | 0o111


def allowed(fact: FileFact, uid: int, wanted: int) -> bool:
    """Whether the mode bits grant ``wanted`` (read 4, execute 1) to ``uid`` with a group of the same number."""
    if uid == 0:
        return True
    shift = 6 if fact.uid == uid else 3 if fact.gid == uid else 0
    return fact.mode >> shift & wanted == wanted


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per distribution (or top folder) with closed files, one per closed folder, one per closed parent."""
    uid = policy.uid
    for path, fact in env.tree.above:
        if not allowed(fact, uid, EXECUTE):
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=path,
                message=f"a folder above the environment is closed to uid {uid}; in an image it has another parent",
                evidence={"mode": f"{fact.mode & 0o7777:04o}", "owner": str(fact.uid)},
                fix="move the environment, or open the folder for others to enter (chmod o+x)",
            )
    for path in env.tree.denied:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=env.in_site(path) or ".",
            message="a folder that the user who ran the audit cannot list: nothing in it was checked",
            fix="run the audit as a user who may read the environment",
        )
    owners = env.owners
    groups: dict[str, list[str]] = defaultdict(list)
    for path, fact in env.tree.entries.items():
        if fact.mode & OPEN_TO_ALL == OPEN_TO_ALL:
            continue
        if fact.is_folder and not allowed(fact, uid, READ | EXECUTE):
            groups[f"folder {env.in_site(path) or '.'}"].append(path)
        elif fact.is_file and not allowed(fact, uid, READ):
            groups[owners.get(path) or env.in_site(path).partition("/")[0]].append(path)
    for subject, paths in sorted(groups.items()):
        fact = env.tree.entries[paths[0]]
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=subject.removeprefix("folder "),
            message=_message(subject, len(paths), uid),
            evidence={
                "paths": ", ".join(env.in_site(path) or "." for path in sorted(paths)[:SHOWN]),
                "mode": f"{fact.mode & 0o7777:04o}",
                "owner": f"{fact.uid}:{fact.gid}",
            },
            fix="give others read permission, and folders also execute permission (chmod -R a+rX)",
        )


def _message(subject: str, count: int, uid: int) -> str:
    if subject.startswith("folder "):
        return f"a folder closed to uid {uid}: everything in it is out of reach"
    return f"{count} file{'s are' if count != 1 else ' is'} not readable by uid {uid}"
