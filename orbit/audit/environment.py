"""Read all facts about an installed environment on disk."""

from __future__ import annotations

from pathlib import Path

from orbit.audit.dists import installed_dists, owners_of
from orbit.audit.fact_cache import FactCache
from orbit.audit.facts import Environment
from orbit.audit.hashing import Hashing
from orbit.audit.objects import needed_exports, read_objects
from orbit.audit.texts import read_texts
from orbit.audit.tree import find_layout, read_tree
from orbit.core.console import Progress
from orbit.env.activate import activation
from orbit.profile.model import Profile


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
        f"({hashing.bytes / 1e9:.2f} GB), {len(remembered)} digests remembered"
    )
    objects, damaged = read_objects(layout.prefix, tree)
    exports, without_exports = needed_exports(layout.prefix, objects)
    damaged |= without_exports
    digests = {**remembered, **hashing.result()}
    if memory is not None and hashing.files:
        try:
            memory.save(tree, digests)
        except OSError as error:
            progress.step(f"digests are not remembered: {memory.path.parent}: {error.strerror}")
    return Environment(
        layout=layout,
        tree=tree,
        dists=dists,
        objects=tuple(item for item in objects if item.path not in without_exports),
        exports=exports,
        damaged=damaged,
        owners=owners_of(dists),
        num_remembered=len(remembered),
        digests=digests,
        variables=variables_of(profile),
        texts=read_texts(layout.prefix, tree),
    )


def variables_of(profile: Profile) -> dict[str, str]:
    """What a process in an activated environment has: the activation contract's ``set`` values, then the profile's."""
    prefix = profile.image.prefix
    contract = {item.name: item.value for item in activation(prefix) if item.how == "set"}
    return {name: value.replace("{prefix}", prefix) for name, value in (contract | dict(profile.image.env)).items()}
