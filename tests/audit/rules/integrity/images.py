"""A folder seen as the root file system of an image: the facts that a reader of layers gives for the same files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from orbit.audit.facts import Distribution, Environment
from orbit.audit.files.objects import read_objects
from orbit.audit.files.texts import read_texts
from orbit.audit.installed.environment import read_environment
from orbit.audit.installed.tree import read_tree
from orbit.audit.known.policy import Policy
from orbit.audit.rules import RULES
from orbit.core.console import Silent
from orbit.core.findings import Finding
from tests.audit.support import make_policy

HOME = "opt/orbit"


def read_image(root: Path, home: str = HOME) -> Environment:
    """Facts about ``root``, with one environment at ``home``."""
    root.chmod(0o755)  # a temporary folder is its owner's
    inner = read_environment(root / home, make_policy().profile, Silent())
    tree = dataclasses.replace(read_tree(root), rooted=True, roots=(), above=())
    objects, damaged = read_objects(root, tree)
    layout = dataclasses.replace(inner.layout, prefix=Path("/"), site=f"{home}/{inner.layout.site}", home=home)
    return dataclasses.replace(
        inner,
        kind="image",
        tree=tree,
        layout=layout,
        dists=tuple(_moved(dist, home) for dist in inner.dists),
        objects=objects,
        damaged=damaged,
        owners={f"{home}/{path}": name for path, name in inner.owners.items()},
        digests={f"{home}/{path}": digest for path, digest in inner.digests.items()},
        texts=read_texts(root, tree),
        derived={},
    )


def _moved(dist: Distribution, home: str) -> Distribution:
    rows = tuple(row._replace(path=f"{home}/{row.path}") for row in dist.rows)
    return dataclasses.replace(dist, rows=rows, folder=f"{home}/{dist.folder}", site=f"{home}/{dist.site}")


def judge_image(root: Path, rule: str, policy: Policy | None = None) -> list[Finding]:
    """Findings of one rule about ``root``."""
    return list(RULES[rule].check(read_image(root), policy or make_policy()))
