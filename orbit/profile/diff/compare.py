"""Compare two locks: pure, from two views and the rules to the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from orbit.profile.diff.consequences import COMPUTED, LEFT_OVER, Compared, Follows, fetch_bytes
from orbit.profile.diff.records import WEIGHTS, Change, Consequence, Kind, LockDiff
from orbit.profile.diff.rules import Rename, Rules
from orbit.profile.diff.view import View, bytes_of, is_binary, place, size, version
from orbit.profile.lock import Package

type Packages = tuple[Package, ...]


def compare(a: View, b: View, rules: Rules) -> LockDiff:
    """What differs from ``a`` to ``b``, and what follows. Neither is changed, nothing is read."""
    changes = tuple(sorted(_changes(a, b, rules.renames), key=lambda change: change.name))
    seen = Compared(a, b, rules, changes)
    found = {rule.id: COMPUTED[rule.id](seen) for rule in rules.consequences if rule.computed}
    for rule in rules.consequences:
        if not rule.computed:
            found[rule.id] = Follows((), seen.named(rule.concerns))
    explained = {name for id_, follows in found.items() if id_ not in LEFT_OVER for name in follows.packages}
    for id_ in LEFT_OVER & found.keys():
        found[id_] = Follows((), tuple(name for name in found[id_].packages if name not in explained))
    reasons: dict[str, list[str]] = {}
    for rule in rules.consequences:
        for name in found[rule.id].packages:
            reasons.setdefault(name, []).append(rule.id)
    consequences = [
        Consequence(
            id=rule.id,
            weight=rule.weight,
            title=rule.title,
            lines=found[rule.id].lines,
            action=rule.action,
            packages=found[rule.id].packages,
        )
        for rule in sorted(rules.consequences, key=lambda rule: WEIGHTS.index(rule.weight))
        if found[rule.id].lines or found[rule.id].packages
    ]
    changes = tuple(
        msgspec.structs.replace(change, consequences=tuple(reasons.get(change.name, ()))) for change in changes
    )
    return LockDiff(
        a=a.side(),
        b=b.side(),
        equal=not changes and not consequences,
        unchanged=len(b.packages) - sum(change.kind != "removed" for change in changes),
        fetch_bytes=fetch_bytes(a, b),
        changes=changes,
        consequences=tuple(consequences),
    )


def _changes(a: View, b: View, renames: tuple[Rename, ...]) -> Iterator[Change]:
    gone = [name for name in a.packages if name not in b.packages]
    come = [name for name in b.packages if name not in a.packages]
    pairs = dict(_renamed(gone, come, renames))
    for old, new in pairs.items():
        yield _change(a, b, new, "renamed", was=old)
    for name in gone:
        if name not in pairs:
            yield _change(a, b, name, "removed")
    for name in come:
        if name not in pairs.values():
            yield _change(a, b, name, "added")
    for name in a.packages:
        if name not in b.packages:
            continue
        before, after = a.packages[name], b.packages[name]
        if version(before) != version(after):
            yield _change(a, b, name, "moved")
        elif (bytes_of(before), place(before)) != (bytes_of(after), place(after)):
            yield _change(a, b, name, "replaced")


def _renamed(gone: list[str], come: list[str], renames: tuple[Rename, ...]) -> Iterator[tuple[str, str]]:
    """(old name, new name): the first rule that leads from a name that is gone to one that has come, each used once."""
    used: Counter[str] = Counter()
    for name in gone:
        for rename in renames:
            found = next((other for other in rename.other(name) if other in come and not used[other]), None)
            if found is not None:
                used[found] += 1
                yield name, found
                break


def _change(a: View, b: View, name: str, kind: Kind, *, was: str = "") -> Change:
    before: Packages = a.packages.get(was or name, ())
    after: Packages = b.packages.get(name, ())
    return Change(
        name=name,
        was=was,
        kind=kind,
        old=version(before),
        new=version(after),
        old_bytes=size(before),
        new_bytes=size(after),
        installed=(was or name) in a.installed or name in b.installed,
        binary=is_binary((*before, *after)),
    )
