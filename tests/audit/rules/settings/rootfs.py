"""Small root file systems on disk, seen as an image; and what a rule finds in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from orbit.audit.facts import Environment, ImageFacts, Layout
from orbit.audit.files.objects import read_objects
from orbit.audit.files.texts import read_texts
from orbit.audit.installed.dists import installed_dists, owners_of
from orbit.audit.installed.environment import read_environment
from orbit.audit.installed.tree import read_tree
from orbit.audit.known.policy import Policy
from orbit.audit.rules import Rule
from orbit.core.console import Silent
from orbit.core.findings import Finding
from tests.audit.support import make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

PREFIX = "opt/orbit"
ENTRY = '#!/bin/sh\nset -eu\nexport HOME=$ORBIT_STATE/home\nexec "$@"\n'
DEVICE_CODE = write_elf(sections=[(".nv_fatbin", write_section(write_container("sm_90a", "sm_100a")))])


class Rootfs:
    """A root file system in which everything is right: a shell, accounts, /tmp, an environment, an entry point."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = EnvironmentWriter(root / PREFIX)
        self.write("bin/sh", write_elf(needed=["libc.so.6"]), 0o755)
        self.write("usr/bin/env", write_elf(needed=["libc.so.6"]), 0o755)
        self.write("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n")
        self.write("etc/group", b"root:x:0:\nann:x:1000:\n")
        self.write(f"{PREFIX}/bin/start-entrypoint", ENTRY.encode(), 0o755)
        self.folder("tmp", 0o1777)
        self.folder("var/tmp", 0o1777)
        self.folder("root", 0o700)
        self.folder("home/ann", 0o777)
        self.variables = {"PATH": "/opt/orbit/bin:/usr/bin:/bin", "PYTHONNOUSERSITE": "1"}
        self.variables |= {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
        self.config = ImageFacts(
            "x", "sha256:0", "", ("/opt/orbit/bin/start-entrypoint",), ("python3",), "/", {}, "amd64", ()
        )

    def write(self, path: str, data: bytes, mode: int = 0o644) -> Path:
        """A file with its folders."""
        whole = self.root / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(data)
        whole.chmod(mode)
        return whole

    def folder(self, path: str, mode: int = 0o755) -> Path:
        """A folder."""
        whole = self.root / path
        whole.mkdir(parents=True, exist_ok=True)
        whole.chmod(mode)
        return whole

    def facts(self, variables: Mapping[str, str | None] | None = None, **config: object) -> Environment:
        """As an image, with other variables (None: not set) and another configuration."""
        tree = dataclasses.replace(read_tree(self.root), above=(), rooted=True)
        site = "lib/python3.12/site-packages"
        dists = installed_dists(Layout(self.root / PREFIX, site, (3, 12), ""))
        objects, damaged = read_objects(self.root, tree)
        together = self.variables | dict(variables or {})  # type: ignore[arg-type]
        return Environment(
            layout=Layout(Path("/"), f"{PREFIX}/{site}", (3, 12), "", home=PREFIX),
            tree=tree,
            dists=dists,
            objects=objects,
            exports={},
            damaged=damaged,
            num_remembered=0,
            digests={},
            owners={f"{PREFIX}/{path}": owner for path, owner in owners_of(dists).items()},
            kind="image",
            variables={name: value for name, value in together.items() if value is not None},
            texts=read_texts(self.root, tree),
            image=dataclasses.replace(self.config, **config),  # type: ignore[arg-type]
        )


def judge_image(
    rule: Rule,
    rootfs: Rootfs,
    variables: Mapping[str, str | None] | None = None,
    policy: Policy | None = None,
    **config: object,
) -> list[Finding]:
    """Findings of a rule about an image."""
    return list(rule.check(rootfs.facts(variables, **config), policy or make_policy()))


def judge_environment(rule: Rule, writer: EnvironmentWriter, **variables: str) -> list[Finding]:
    """Findings of a rule about an activated environment with further variables."""
    policy = make_policy()
    facts = read_environment(writer.prefix, policy.profile, Silent())
    return list(rule.check(dataclasses.replace(facts, variables={**facts.variables, **variables}), policy))
