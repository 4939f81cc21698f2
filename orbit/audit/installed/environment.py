"""Read all facts about an installed environment on disk."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from orbit.audit.facts import Environment, Layout, Tree
from orbit.audit.files.objects import needed_exports, read_objects
from orbit.audit.files.texts import read_texts
from orbit.audit.installed.dists import installed_dists, owners_of
from orbit.audit.installed.fact_cache import FactCache
from orbit.audit.installed.hashing import Hashing
from orbit.audit.installed.import_path import look_elsewhere, named_elsewhere
from orbit.audit.installed.object_cache import ObjectCache, ObjectFacts
from orbit.audit.installed.tree import find_layout, read_tree, resolve
from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.env.activate import activation, conditions
from orbit.profile.model import Profile

STATE = "/tmp/orbit-<uid>"  # noqa: S108 - the default of the activation contract


def read_environment(prefix: Path, profile: Profile, progress: Progress, cache: Path | None = None) -> Environment:
    """All facts about an environment; files are hashed by other processes while ELF files are read here."""
    layout = find_layout(prefix, profile.python)
    dists = installed_dists(layout)
    memory = FactCache(cache, layout) if cache is not None else None
    # without anything remembered the long work starts before the walk; otherwise the walk says what is left to do
    hashing = None if memory else Hashing(layout.prefix, dists)
    tree = read_tree(layout.prefix)
    remembered = memory.lookup(tree) if memory else {}
    if hashing is None:
        hashing = Hashing(layout.prefix, dists, known=remembered)
    progress.step(
        f"{len(tree.entries)} entries, {len(dists)} distributions; hashing {hashing.files} files "
        f"({format_bytes(hashing.bytes)}), {len(remembered)} digests remembered"
    )
    elf = read_elf_facts(layout, tree, cache, progress)
    texts = read_texts(layout.prefix, tree)
    fresh = hashing.result()
    digests = {**remembered, **fresh}
    if memory is not None and any(digest[0] != "!" for digest in fresh.values()):
        try:
            memory.save(tree, digests)
        except OSError as error:
            progress.step(f"digests are not remembered: {memory.path.parent}: {error.strerror}")
    env = Environment(
        layout=layout,
        tree=tree,
        dists=dists,
        objects=elf.objects,
        exports=elf.exports,
        damaged=elf.damaged,
        owners=owners_of(dists),
        num_remembered=len(remembered),
        digests=digests,
        variables=variables_of(
            profile, has=conditions(lambda path: resolve(tree, path) is not None), identity=identity_of(texts)
        ),
        texts=texts,
    )
    return replace(env, elsewhere=look_elsewhere(named_elsewhere(env)))


def read_elf_facts(layout: Layout, tree: Tree, cache: Path | None, progress: Progress) -> ObjectFacts:
    """The facts of all ELF files, remembered when none of them changed."""
    memory = ObjectCache(cache, layout, tree) if cache is not None else None
    if memory is not None and (remembered := memory.load()) is not None:
        return remembered
    objects, damaged = read_objects(layout.prefix, tree)
    exports, without_exports = needed_exports(layout.prefix, objects)
    found = ObjectFacts(
        tuple(item for item in objects if item.path not in without_exports), damaged | without_exports, exports
    )
    if memory is not None:
        try:
            memory.save(found)
        except OSError as error:
            progress.step(f"facts of ELF files are not remembered: {memory.path.parent}: {error.strerror}")
    return found


def variables_of(profile: Profile, *, has: Collection[str] | None = None, identity: str = "") -> dict[str, str]:
    """What a process in an activated environment has: the activation contract's values, then the profile's.

    ``has``: the conditions of the contract that the environment meets, all where nothing is said. The user's number,
    and the identity of an environment that states none, are written ``<uid>`` and ``<identity>``.
    """
    prefix = profile.image.prefix
    contract = activation(prefix, state=STATE, identity=identity or "<identity>", has=has)
    values = {item.name: item.value for item in contract if item.how in ("set", "default")}
    return {name: value.replace("{prefix}", prefix) for name, value in (values | dict(profile.image.env)).items()}


def identity_of(texts: Mapping[str, bytes]) -> str:
    """The identity that an Orbit environment states of itself, or empty."""
    try:
        record = json.loads(texts.get("share/orbit/environment.json", b"{}"))
    except (ValueError, RecursionError):
        return ""
    identity = record.get("identity", "") if isinstance(record, dict) else ""
    return identity if isinstance(identity, str) and identity.isalnum() else ""
