"""A whole root file system written to a folder, read as an image is: absolute links and paths lead inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from orbit.audit.facts import Environment, Layout
from orbit.audit.files.objects import needed_exports, read_objects
from orbit.audit.files.texts import read_text, read_texts
from orbit.audit.installed.dists import owners_of, read_dists
from orbit.audit.installed.tree import read_tree
from orbit.audit.rules import RULES
from orbit.core.findings import Finding
from tests.audit.support import make_policy

SITE = "opt/orbit/lib/python3.12/site-packages"


def write_root(root: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    """Write ``files`` and ``links`` below ``root``, and an empty site-packages."""
    (root / SITE).mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    for path, target in (links or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    return root


def read_root(root: Path, variables: Mapping[str, str] | None = None, *, others: tuple[str, ...] = ()) -> Environment:
    """The facts of the root file system at ``root`` as those of an image with these environment variables.

    ``others`` are further site-packages folders.
    """
    tree = replace(read_tree(root), rooted=True, above=(), roots=())
    objects, damaged = read_objects(root, tree)
    exports, without = needed_exports(root, objects)
    folders = [path for path in tree.entries if path.endswith(".dist-info")]
    dists = read_dists(folders, lambda path: read_text(root, path))
    return Environment(
        layout=Layout(Path("/"), SITE, (3, 12), "", others, home="opt/orbit"),
        tree=tree,
        dists=dists,
        objects=objects,
        exports=exports,
        damaged=damaged | without,
        num_remembered=0,
        digests={},
        owners=owners_of(dists),
        kind="image",
        variables=dict(variables or {}),
        texts=read_texts(root, tree),
    )


def judge_root(root: Path, rule: str, **variables: str) -> list[Finding]:
    """Findings of one rule over an image with these environment variables."""
    return list(RULES[rule].check(read_root(root, variables), make_policy()))
