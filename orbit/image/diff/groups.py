"""Differences by distribution and Debian package, with versions: what people ask first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from orbit.audit.facts import printable
from orbit.image.diff.causes import why
from orbit.image.diff.records import ContentDifference, FileDifference, Group
from orbit.image.diff.trees import Difference, Tree
from orbit.image.inspect.owners import DEBIAN, OTHER, PYTHON, Owner

ORDER = {PYTHON: 0, DEBIAN: 1, OTHER: 2}


def make_groups(
    left: Tree, right: Tree, found: list[Difference], contents: Mapping[str, ContentDifference]
) -> tuple[Group, ...]:
    """All differences by who owns them; ``contents`` by path of what was looked into."""
    groups: dict[tuple[str, str], list[Difference]] = defaultdict(list)
    for item in found:
        owner = _owner(left, right, item)
        groups[owner.kind, owner.name].append(item)
    versions = _versions(left), _versions(right)
    for key in versions[0].keys() | versions[1].keys():
        if versions[0].get(key) != versions[1].get(key):
            groups.setdefault(key, [])
    made = [
        _group(
            key,
            (versions[0].get(key, ""), versions[1].get(key, "")),
            tuple(_file(left, right, item, contents.get(item.path)) for item in items),
        )
        for key, items in groups.items()
    ]
    return tuple(sorted(made, key=lambda group: (ORDER[group.kind], -sum(group.counts.values()), group.name)))


def _owner(left: Tree, right: Tree, item: Difference) -> Owner:
    """Of the right image where the path is there and owned, else of the left one."""
    found = Owner(OTHER, "/")
    for tree, path in ((left, item.before or item.path), (right, item.path)):
        if path in tree.stacked.entries:
            owner = tree.owners.of(path)
            found = owner if owner.kind != OTHER or found.kind == OTHER else found
    return found


def _versions(tree: Tree) -> dict[tuple[str, str], str]:
    """Version by (kind, name) of everything installed, as far as the compared layers say."""
    return {(owner.kind, owner.name): owner.version for owner in tree.owners.installed()}


def _group(key: tuple[str, str], versions: tuple[str, str], files: tuple[FileDifference, ...]) -> Group:
    causes: Counter[str] = Counter()
    whys: Counter[str] = Counter()
    for file in files:
        if file.content is not None:
            causes.update(file.content.causes)
        if file.why:
            whys[file.why] += 1
    return Group(
        kind=key[0],
        name=key[1],
        before=versions[0],
        after=versions[1],
        counts=dict(Counter(file.change for file in files)),
        left_bytes=sum(file.left.size for file in files if file.left is not None),
        right_bytes=sum(file.right.size for file in files if file.right is not None),
        causes=dict(causes.most_common()),
        whys=dict(whys.most_common()),
        files=files,
    )


def _file(left: Tree, right: Tree, item: Difference, content: ContentDifference | None) -> FileDifference:
    before = item.before or item.path
    return FileDifference(
        path=printable(item.path),
        change=item.change,
        aspects=item.aspects,
        before=printable(item.before),
        left=left.side(before) if before in left.stacked.entries and item.change != "added" else None,
        right=right.side(item.path) if item.path in right.stacked.entries and item.change != "removed" else None,
        content=content,
        why="; ".join(_why(item, content)),
    )


def _why(item: Difference, content: ContentDifference | None) -> Iterator[str]:
    if content is not None and (words := why(content.causes)):
        yield words
    for aspect in item.aspects:
        if aspect not in ("content", "layer"):
            yield {"mode": "permissions", "owner": "owner", "link": "link target", "kind": "kind of file"}[aspect]
