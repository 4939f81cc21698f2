"""Depth facts of written files, read the way the audit reads them, or put together by hand."""

from __future__ import annotations

from pathlib import Path

from orbit.audit.binary.cubin import Kernel
from orbit.audit.deep.depth import ContainerDepth, Depth, FileDepth, ImageDepth, read_depth
from orbit.audit.facts import Environment
from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import Policy
from orbit.audit.rules.depth import DEPTH
from orbit.core.console import Silent
from orbit.core.findings import Finding
from tests.audit.support import make_policy
from tests.writers.cubin import Body, cubin_entry
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import Entry, write_container, write_section

FILE = "ext/_c.so"


def both(hopper: dict[str, Body], blackwell: dict[str, Body], archs: tuple[str, str] = ("sm_90a", "sm_100a")) -> bytes:
    """A container with one set of kernels for each target."""
    return write_container(cubin_entry(archs[0], hopper), cubin_entry(archs[1], blackwell))


def library(tmp_path: Path, *containers: bytes, path: str = FILE) -> Path:
    """An environment with one file of device code."""
    env = EnvironmentWriter(tmp_path / "e")
    env.add("ext", {path: write_elf(sections=[(".nv_fatbin", write_section(*containers))])})
    return env.prefix


def read(prefix: Path, policy: Policy | None = None) -> tuple[Environment, Depth]:
    """(facts, depth) of an environment."""
    policy = policy or make_policy()
    env = read_environment(prefix, policy.profile, Silent())
    return env, read_depth(env.layout.prefix, env.objects, policy.profile.targets, Silent(), workers=1)


def judge_depth(prefix: Path, rule: str, policy: Policy | None = None) -> list[Finding]:
    """Findings of one rule of the depth room."""
    policy = policy or make_policy()
    env, depth = read(prefix, policy)
    (module,) = (module for module in DEPTH if rule == module.ID)
    return list(module.check(env, policy, depth))


def make_depth(kernels: dict[str, dict[str, Kernel]], *, path: str = FILE) -> Depth:
    """One file of one container: kernels by target (its image is sm_90a or sm_100a) and name."""
    archs = {"h100": "sm_90a", "b200": "sm_100a"}
    loaded = {target: ImageDepth(archs[target], "elf", archs[target], found, "") for target, found in kernels.items()}
    return Depth(("h100", "b200"), (FileDepth(path, (ContainerDepth(".nv_fatbin", 0, loaded),)),), len(loaded), 0, 0)


__all__ = ["FILE", "Entry", "both", "judge_depth", "library", "make_depth", "read"]
