"""The loader's model against glibc's own loader, on generated chains of libraries and on the real environment."""

from __future__ import annotations

import os
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.known.policy import Policy
from orbit.audit.models.loader import Loader, Resolution
from orbit.core.proc import run
from tests.audit import real
from tests.audit.support import make_policy, read

pytestmark = pytest.mark.integration
LD_SO = "/lib64/ld-linux-x86-64.so.2"
FOLDERS = ("a", "b", "c")
ENTRIES = ("$ORIGIN", "${ORIGIN}/../a", "$ORIGIN/../b", "$ORIGIN/../c", "$ORIGIN/none")


def listed(path: Path, library_path: str = "") -> dict[str, str] | None:
    """Real path by soname as the loader lists it, empty for not found; None when it gave up before the end."""
    env = {"LD_TRACE_LOADED_OBJECTS": "1"} | ({"LD_LIBRARY_PATH": library_path} if library_path else {})
    result = run([LD_SO, str(path)], doing="list needed libraries", env=env, check=False)
    if b"error while loading" in result.stderr + result.stdout:
        return None
    found = dict(re.findall(r"^\s+(\S+) => (\S+)", result.stdout.decode(), re.MULTILINE))
    return {soname: "" if where == "not" else os.path.realpath(where) for soname, where in found.items()}


def compile_library(path: Path, needed: list[Path], tag: str, entries: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = [f"-Wl,-rpath,{':'.join(entries)}"] if entries else []
    options += ["-Wl,--enable-new-dtags" if tag == "runpath" else "-Wl,--disable-new-dtags", f"-Wl,-soname,{path.name}"]
    source = ["-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed"]
    command = ["gcc", "-shared", "-nostdlib", "-o", str(path), *options, *source, *map(str, needed)]
    run(command, doing="compile a library")


def as_glibc(resolution: Resolution, prefix: Path) -> str:
    """What the loader's search alone gives."""
    return os.path.realpath(prefix / resolution.paths[0]) if resolution.how == "loader" else ""


@pytest.mark.parametrize("seed", range(24))
def test_chains_of_three_libraries(tmp_path: Path, seed: int) -> None:
    if shutil.which("gcc") is None or not Path(LD_SO).exists():
        pytest.skip("needs gcc and glibc for x86-64")
    chance = random.Random(seed)
    prefix = tmp_path / "e"
    site = prefix / "lib/python3.12/site-packages"
    below: list[Path] = []
    for name in ("liblow.so", "libmid.so", "libtop.so"):
        folders = ["a"] if name == "libtop.so" else chance.sample(FOLDERS, chance.randint(1, 3))
        for folder in folders:
            entries = chance.sample(ENTRIES, chance.randint(0, 2))
            compile_library(site / folder / name, below[:1], chance.choice(("rpath", "runpath")), entries)
        below = [site / folders[0] / name]
    variable = chance.sample(FOLDERS, chance.randint(0, 1))
    policy = replace(
        make_policy(), library_path=tuple(f"/opt/orbit/lib/python3.12/site-packages/{x}" for x in variable)
    )
    loader = Loader(read(prefix), policy)
    truth = listed(site / "a/libtop.so", ":".join(str(site / folder) for folder in variable))
    assert truth is not None
    item = loader.objects[f"{site.relative_to(prefix)}/a/libtop.so"]
    for soname in ("libmid.so", "liblow.so"):
        resolution = loader.resolve(item, soname)
        assert as_glibc(resolution, prefix) == truth[soname]
        if resolution.how != "loader":
            break
        item = loader.objects[resolution.paths[0]]


def test_every_need_in_the_real_environment() -> None:
    """What glibc finds in the environment is what the model finds; what it does not find there, the model does not."""
    prefix = real.environment()
    root = os.path.realpath(prefix)
    policy: Policy = replace(make_policy(), library_path=())
    facts = read(prefix)
    loader = Loader(facts, policy)
    compared = 0
    for item in facts.objects:
        needs = list(loader.needed(item)) if item.machine == loader.machine else []
        if all(resolution.how in ("base", "driver") for _soname, resolution in needs):
            continue
        truth = listed(prefix / item.path)
        for soname, resolution in needs if truth is not None else ():
            where = truth.get(soname, "") if truth else ""
            inside = where if where.startswith(f"{root}/") else ""
            assert (item.path, soname, as_glibc(resolution, prefix)) == (item.path, soname, inside)
            compared += 1
    assert compared > 1000
