"""The end of a build: the wheel is cleaned, written and proved; any difference from what was asked for fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from orbit.audit.binary.fatbin import read_containers
from orbit.core.console import Silent
from orbit.core.files import sha256_file
from orbit.core.findings import Finding, Severity
from orbit.core.records import dump_json
from orbit.errors import CheckFailed
from orbit.kernels import manifest as manifests
from orbit.kernels.buildenv import SITE
from orbit.kernels.features import check_features
from orbit.kernels.manifest import Binary, BuildManifest
from orbit.kernels.plan import MANIFEST, Item
from orbit.kernels.symbols import wheel_symbols
from orbit.kernels.toolchain import compiler_release
from orbit.kernels.wheels.archive import elf_names, file_names, write_wheel
from orbit.kernels.wheels.contents import disorders, leaks, missing_artifacts, version_of
from orbit.kernels.wheels.describe import judge_wheel
from orbit.kernels.wheels.run_paths import RunPath, set_run_paths
from orbit.kernels.wheels.tags import facts_of, glibc_need, retag, wheel_name
from orbit.kernels.workspace import Workspace
from orbit.profile.model import Profile

PYTHON = sys.version_info[:2]


def finish(item: Item, space: Workspace, tree: Path, folder: Path, *, profile: Profile) -> BuildManifest:
    """Make the wheel of ``tree`` and its manifest in ``folder``.

    Raises :class:`CheckFailed` when requested, compiled and found architectures differ, when something that the recipe
    asserts is missing, when the wheel holds what it must not, or when a rule of the audit about single wheels fails.
    """
    run_paths = set_run_paths(tree, space.env / SITE)
    retag(tree, PYTHON)
    name = wheel_name(tree)
    write_wheel(folder / name, tree)
    manifest = _manifest(item, space, tree, run_paths, folder / name)
    dump_json(folder / MANIFEST, manifest)
    findings = (
        *manifests.check(manifest, item.recipe),
        *_contents(item, space, tree, manifest),
        *disorders(tree),
        *judge_wheel(folder / name, profile, Silent()),
    )
    if any(finding.fatal for finding in findings):
        raise CheckFailed(
            "\n".join(
                [f"{item.recipe.name}: the build ended, but its result is not right"]
                + [f"  {f.rule} {f.subject}: {f.message} {f.evidence}" for f in findings]
            ),
            fix=next(finding.fix for finding in findings if finding.fatal),
        )
    return manifest


def _manifest(item: Item, space: Workspace, tree: Path, run_paths: tuple[RunPath, ...], wheel: Path) -> BuildManifest:
    return BuildManifest(
        recipe=item.recipe.name,
        dist=item.recipe.dist,
        version=version_of(tree),
        source=item.source,
        requested=tuple(f"{virtual}:{real}" for virtual, real in item.pairs),
        units=manifests.read_units(space.units),
        found=_device_code(tree),
        compiler=compiler_release(space.cuda),
        host_compiler=str(item.inputs["host_compiler"]),
        python=str(item.inputs["python"]),
        group=item.recipe.group,
        closure=str(item.inputs["closure"]),
        env=dict(item.inputs["env"]),
        shim=str(item.inputs["shim"]),
        linked_units=item.recipe.linked_units,
        run_paths_removed={each.file: str(len(each.removed)) for each in run_paths if each.removed},
        run_paths_set={each.file: ":".join(each.result) for each in run_paths if each.added},
        wheel=wheel.name,
        wheel_sha256=sha256_file(wheel),
    )


def _device_code(tree: Path) -> tuple[Binary, ...]:
    """What the audit's reader sees in every binary of the wheel; also those without device code, for their glibc."""
    needs = {item.path: glibc_need(item) for item in facts_of(tree, PYTHON).objects}
    return tuple(
        manifests.summarise(name, read_containers(tree / name), needs.get(name, "")) for name in elf_names(tree)
    )


def _contents(item: Item, space: Workspace, tree: Path, manifest: BuildManifest) -> Iterator[Finding]:
    def finding(rule: str, message: str, fix: str) -> Finding:
        return Finding(rule=rule, severity=Severity.ERROR, subject=item.recipe.name, message=message, fix=fix)

    for pattern in missing_artifacts(file_names(tree), item.recipe.artifacts):
        yield finding("kernel-artifact", f"no file matches {pattern}", "the build dropped it silently; see build.log")
    for name, needle in leaks(tree, host_paths(space)):
        yield finding(
            "kernel-path",
            f"{name} holds {needle}, a path of this machine",
            "map or strip it: see Workspace.prefix_maps",
        )
    if manifest.version != item.source.version:
        yield finding(
            "kernel-version",
            f"the wheel says {manifest.version}, its source is {item.source.version}",
            "fix the recipe",
        )
    if item.recipe.features:
        symbols = wheel_symbols(tree, tuple(real for _, real in item.pairs))
        yield from check_features(item.recipe, manifest.units, symbols.exports, symbols.kernels)


def host_paths(space: Workspace) -> tuple[str, ...]:
    """Paths that must not be in a wheel: the folders of the build and of its environment, and the interpreter's unless
    it is a system folder."""
    interpreter = () if sys.base_prefix.startswith("/usr") else (sys.base_prefix,)
    return (str(space.root), os.path.realpath(space.env), *interpreter)
