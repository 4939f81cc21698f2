"""An environment's layers by content: the key of a layer is a hash over what is in it, and over nothing else.

The key has path, kind, mode, size and sha256 (of links: the target) of every member. A bumped pin changes the keys of
the layers whose files changed; all others are found in the store, whichever environment, profile or image they were
written for.

Where the sha256 of a file comes from, so that ten gigabytes need not be read to find out that nothing is to be done:

- RECORD states it, and ``contents.tsv`` beside the environment what RECORD does not (compiled files, RECORD itself, the
  interpreter). ``orbit env create`` compared the first and computed the second. What is stated is compared again while
  the file is written into a layer, every byte of it: a layer under a wrong key cannot come into being.
- An audit read every file and remembered its sha256 with the file's device, inode, size, modification and change time.
  A file of which all five are the same is that file, and is not compared again.
- What nobody states, or two state differently, is read and hashed.

The result is remembered by the state of the whole tree: device, inode, mode, size, modification and change time of
every path. A program cannot set the change time, so one touched file makes the memory worthless and all is done anew.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec

from orbit.audit.facts import RecordRow, Tree
from orbit.audit.installed.fact_cache import SETTLE_NS, FactCache
from orbit.audit.installed.hashing import Hashing
from orbit.audit.installed.tree import find_layout, read_tree
from orbit.core.console import Progress
from orbit.core.records import Record, convert
from orbit.core.store import Store
from orbit.env.contents import CONTENTS, read_contents
from orbit.errors import InputError, RefusedError
from orbit.image.layers import Owners, member, read_owners, split
from orbit.image.tar import Member
from orbit.profile.model import ImagePolicy

FORMAT = 1
"""Raised when equal trees come out with other members."""
MEMORY = "layer-plan"
NOTHING: Mapping[str, str] = MappingProxyType({})
SHA256_CHARS = 43
"""Of a digest as RECORD spells it; those of other algorithms are longer."""


class Planned(Record, frozen=True, kw_only=True):
    """One layer before it is written."""

    name: str
    members: str
    """Hash over the members: the layer's identity."""
    files: int
    """Members that are no folders."""


@dataclass(frozen=True, slots=True)
class Listing:
    """An environment as it was listed."""

    prefix: Path
    tree: Tree
    key: str
    """Of the state of every path in this very folder."""
    listed_ns: int
    """When the listing began."""

    def settled(self, change_ns: int) -> bool:
        """Whether a later write would show: clocks have ticks, and two writes in one tick leave one change time."""
        return change_ns < self.listed_ns - SETTLE_NS


def list_environment(prefix: Path) -> Listing:
    """Look at every path below ``prefix`` once. Raises :class:`InputError` for names that are no text."""
    listed_ns = time.time_ns()
    tree = read_tree(prefix)
    try:
        state = msgspec.msgpack.encode((tree.entries, tree.links, tree.denied))
    except UnicodeEncodeError as error:
        raise InputError(f"{prefix}: a file name that is no UTF-8: {error.object!r}", fix="rename that file") from None
    return Listing(prefix, tree, hashlib.sha256(state).hexdigest(), listed_ns)


def recall(listing: Listing, policy: ImagePolicy, store: Store) -> tuple[Planned, ...] | None:
    """The layers of an environment that was planned before and not touched since; None when it must be planned."""
    entry = store.find(MEMORY, _inputs(listing, policy))
    return convert(entry.record.outputs["layers"], tuple[Planned, ...], f"{entry.path}: layers") if entry else None


def remember(listing: Listing, policy: ImagePolicy, store: Store, layers: Iterable[Planned]) -> None:
    """Keep the plan for :func:`recall`, unless a file changed too short a time before it was looked at."""
    if all(listing.settled(fact.stamp[3]) for fact in listing.tree.entries.values()):
        outputs = {"layers": msgspec.to_builtins(tuple(layers))}
        store.obtain(MEMORY, _inputs(listing, policy), lambda _folder: outputs)


def _inputs(listing: Listing, policy: ImagePolicy) -> dict[str, object]:
    rules = [{"name": layer.name, "dists": list(layer.dists), "groups": layer.groups} for layer in policy.layers]
    return {"format": FORMAT, "tree": listing.key, "rules": rules, "prefix": policy.prefix}


def plan_layers(
    listing: Listing, policy: ImagePolicy, *, progress: Progress, remembered: Mapping[str, str] = NOTHING
) -> dict[str, list[Member]]:
    """Members of every layer of the environment, with their digests.

    ``remembered`` has digests that were computed from exactly these files, see :func:`remembered_digests`. Raises
    :class:`InputError` for what an image must not hold (see :func:`orbit.image.layers.split`), and
    :class:`RefusedError` for a file that is not what its RECORD says or changes meanwhile.
    """
    owners = read_owners(listing.prefix, policy.layers)
    parts = split(listing.tree, owners, policy.layers)
    stated = _stated(listing, owners)
    _contradict(listing, stated, remembered)
    unknown = [path for path, fact in listing.tree.entries.items() if fact.is_file and path not in stated]
    read = {**remembered, **_read(listing, [path for path in unknown if path not in remembered])}
    progress.step(
        f"layers: {len(stated)} digests stated, {len(remembered)} remembered, "
        f"{len(read) - len(remembered)} files hashed"
    )
    entries = listing.tree.entries
    plan: dict[str, list[Member]] = {}
    for name, paths in parts.items():
        plan[name] = []
        for path in paths:
            fact = entries[path]
            sha256 = (read.get(path) or stated[path]) if fact.is_file else ""
            proved = path in read and listing.settled(fact.stamp[3])
            plan[name].append(member(path, fact, listing.tree, policy.prefix, sha256=sha256, proved=proved))
    return plan


def remembered_digests(listing: Listing, python: str, facts: Path) -> Mapping[str, str]:
    """sha256 of the files that an audit has read and that are as they were then; ``facts`` is where it keeps them.

    ``python`` is the profile's version, for the layout. Nothing is known of an environment that was never audited.
    """
    found = FactCache(facts, find_layout(listing.prefix, python)).lookup(listing.tree)
    return {path: digest for path, digest in found.items() if len(digest) == SHA256_CHARS}


def _contradict(listing: Listing, stated: Mapping[str, str], remembered: Mapping[str, str]) -> None:
    """Raise :class:`RefusedError` for a file that was found to be something else than what is stated of it."""
    for path, digest in remembered.items():
        if stated.get(path, digest) != digest:
            raise RefusedError(
                f"{listing.prefix}/{path}: its content is not what RECORD or {CONTENTS} states",
                fix="create the environment again; `orbit audit` says what else is wrong with it",
            )


def _stated(listing: Listing, owners: Owners) -> Mapping[str, str]:
    """sha256 of the files that a RECORD or ``contents.tsv`` states it for, and about which they agree."""
    entry = listing.prefix.parent
    contents = read_contents(entry) if (entry / CONTENTS).is_file() else {}
    found: dict[str, str] = {}
    for path, fact in listing.tree.entries.items():
        said = owners.stated.get(path)
        if not fact.is_file or path in owners.disputed:
            continue
        if said is not None and said.size != fact.size:
            raise RefusedError(
                f"{listing.prefix}/{path}: {fact.size} bytes, and {said.size} in its RECORD",
                fix="create the environment again",
            )
        answers = {answer for answer in (said and said.sha256, contents.get(path)) if answer}
        if len(answers) == 1:
            found[path] = answers.pop()
    return found


@dataclass(frozen=True, slots=True)
class _Files:
    """Files in the form of lines of a RECORD."""

    rows: tuple[RecordRow, ...]


def _read(listing: Listing, paths: Sequence[str]) -> Mapping[str, str]:
    """sha256 of these files, read now by other processes."""
    rows = tuple(RecordRow(path, "sha256", "", listing.tree.entries[path].size) for path in paths)
    found = Hashing(listing.prefix, [_Files(rows)]).result()
    for path, digest in found.items():
        if digest.startswith("!"):
            raise RefusedError(
                f"{listing.prefix}/{path}: cannot be hashed: {digest[1:]}",
                fix="stop whatever writes to that tree and run the same command again",
            )
    return found


def members_key(members: Iterable[Member]) -> str:
    """Hash over everything that decides a layer's tar stream, whatever the order of ``members``."""
    digest = hashlib.sha256()
    for item in sorted(members, key=lambda item: item.name):
        what = item.sha256 if item.kind == "file" else item.target
        digest.update(f"{item.name}\0{item.kind}\0{item.mode:o}\0{item.size}\0{what}\0".encode())
    return digest.hexdigest()


def planned(name: str, members: Iterable[Member]) -> Planned:
    """What is kept of a layer's plan."""
    items = list(members)
    return Planned(name=name, members=members_key(items), files=sum(item.kind != "dir" for item in items))
