"""A recipe: how one distribution becomes a wheel with device code for the targets. Data in kernels/recipes."""

from __future__ import annotations

import re
from typing import Literal

from orbit.core.paths import data_root
from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.kernels.capabilities import compiles, parse_arch
from orbit.kernels.recipe_check import check_recipe
from orbit.profile.model import Profile

PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Submodule(Record, frozen=True, kw_only=True):
    """A git submodule: its own repository at its own commit, inside the source."""

    path: str
    """Folder inside the source."""
    url: str
    commit: str
    tree: str
    """Hash of the commit's git tree: what is really compiled, independent of history."""


class Patch(Record, frozen=True, kw_only=True):
    """A change to the source, applied strictly: when it does not fit exactly, the build ends."""

    file: str
    """Name of the file in ``kernels/patches/RECIPE``."""
    reason: str
    """Why upstream's source cannot be taken as it is."""


class RecipeSource(Record, frozen=True, kw_only=True):
    """Where the sources come from."""

    kind: Literal["sdist", "local", "git", "wheel"]
    """``sdist`` and ``wheel``: the one uv.lock names, by sha256. ``local``: a folder under kernels/src, by tree hash.
    ``git``: a repository by commit and tree hash."""
    folder: str = ""
    """Local only: folder under ``kernels/src``."""
    version: str = ""
    """Local and git; the lock says it otherwise."""
    url: str = ""
    """Git only: the repository as people name it, ``https://...``."""
    commit: str = ""
    """Git only: 40 hex digits."""
    tree: str = ""
    """Git only: hash of that commit's tree."""
    subdirectory: str = ""
    """Git only: the project's folder inside the repository."""
    submodules: tuple[Submodule, ...] = ()
    unused_submodules: tuple[str, ...] = ()
    """Git only: paths of submodules that the build does not need; every other one must be pinned."""
    files: tuple[str, ...] = ()
    """Patterns of paths that the source must have: some releases lack their kernels and still build something."""


class Feature(Record, frozen=True, kw_only=True):
    """Something a build script can silently leave out, asserted on the result."""

    name: str
    reason: str
    """What is missing at run time without it."""
    symbols: tuple[str, ...] = ()
    """Patterns; each must match a dynamic symbol or a kernel of some binary in the wheel."""
    units: tuple[str, ...] = ()
    """Patterns of sources that must have been compiled by the shim."""
    forbidden_defines: tuple[str, ...] = ()
    """Macros that no compiler call may have had, e.g. ``DISABLE_NVSHMEM``."""


class Requirement(Record, frozen=True, kw_only=True):
    """A file that the build needs and that neither the source nor the lock is sure to bring: looked for beforehand."""

    place: Literal["environment", "system"]
    """``environment``: a file of the build environment's site-packages. ``system``: a header that g++ finds."""
    file: str
    """Path inside that place: ``nvidia/nccl/include/nccl_device/core.h``, ``infiniband/mlx5dv.h``."""
    contains: str = ""
    """A text that the file must have, for what only newer releases of it offer."""
    reason: str
    """What of the package needs it."""
    fix: str
    """What to install or to change."""


class SharedObject(Record, frozen=True, kw_only=True):
    """A local library compiled by the shim and packed without any build system."""

    summary: str
    """One line for the wheel's metadata."""
    package: str
    """Folder of Python files that goes into the wheel as it is."""
    sources: tuple[str, ...]
    """CUDA sources, relative to the source folder."""
    output: str
    """Path of the shared object inside the wheel."""
    compile_flags: tuple[str, ...] = ()
    """Flags of nvcc besides architectures, position independence and optimisation of paths."""


class JitUse(Record, frozen=True, kw_only=True):
    """How a package compiles at run time, in the package's own words: each text is found in its ``generator``."""

    generator: str
    """File of the wheel that holds the texts of sources, flags and cache keys, each ended by a zero byte."""
    include: tuple[str, ...]
    """Header folders of the wheel; the first is ``{include}`` in ``values``."""
    flags: tuple[str, ...]
    """The flags it gives to nvcc, as fmt formats, one after the other; each ``{}`` is filled from ``values``."""
    values: tuple[str, ...]
    """``{flags}``: what the formats before gave; ``{include}``: the header folder; ``{number}``: ``90a`` of ``sm_90a``;
    anything else as it is."""
    cache_variable: str
    """The variable that places its cache."""
    cache_key: tuple[str, ...]
    """Texts that make the name of a cache entry: when one is gone the facts below are about another release."""
    keyed: str
    """What an entry's name depends on."""
    unkeyed: str
    """What it does not depend on though the result does."""


class Probe(Record, frozen=True, kw_only=True):
    """One real kernel of a package that compiles at run time, compiled here as it would be there."""

    name: str
    capability: str
    """The device that asks for it, ``9.0``."""
    arch: str
    """What the package compiles for on that device, ``sm_90a``."""
    kernel: str = ""
    """The function whose source text is in the generator; ``arguments`` fill it."""
    arguments: tuple[str, ...] = ()
    source: str = ""
    """Instead: a file of ours in ``kernels/probes/RECIPE``."""
    expect: tuple[str, ...]
    """Instructions that the machine code must hold, without their modifiers: ``HGMMA``."""


class Recipe(Record, frozen=True, kw_only=True):
    """One file of ``kernels/recipes``."""

    schema: int
    name: str
    dist: str
    """Distribution name, as in uv.lock for an sdist or a wheel."""
    mode: Literal["source", "prebuilt", "jit"] = "source"
    """``source``: compiled here. ``prebuilt``: a wheel of the lock, verified and never compiled instead. ``jit``: a
    wheel of the lock whose kernels are compiled at run time; compiler, headers and a probe compile are verified."""
    tier: Literal["core", "extended"]
    """``core`` is built by default, ``extended`` on big machines (``--kernels all``)."""
    group: str
    """Dependency group of pyproject.toml that is the build environment."""
    memory_gib: float
    """Resident memory while one architecture of one unit is compiled; the number of parallel jobs follows from it."""
    core_hours: float
    """What a build costs, for the plan and for the reason of a skip."""
    device_units: int
    """Translation units that leave a fatbin container in the result; 0 for host code only."""
    linked_units: int = 0
    """Fatbin containers that static libraries of the lock bring along, with architectures of their own."""
    host_units: int = 0
    """C++ translation units without device code, about: for estimates alone."""
    artifacts: tuple[str, ...]
    """Patterns of files that the wheel must contain."""
    source: RecipeSource
    patches: tuple[Patch, ...] = ()
    features: tuple[Feature, ...] = ()
    requires: tuple[Requirement, ...] = ()
    """Mode ``source``: what must be there before anything is compiled."""
    backend: Literal["setuptools", "pyproject"] = "setuptools"
    """``setuptools``: setup.py with its folder on the path. ``pyproject``: the backend that pyproject.toml names, with
    what the build environment has installed (nothing is fetched)."""
    config_settings: dict[str, str] = {}
    """What the backend is told (``pyproject`` only)."""
    include: tuple[str, ...] = ()
    """Include folders of locked wheels, relative to site-packages, put on CPATH."""
    env: dict[str, str] = {}
    """Variables the package's build reads; ``{torch_archs}`` and friends are replaced, see :func:`render_env`."""
    shared_object: SharedObject | None = None
    """How a local source is built."""
    beside: tuple[str, ...] = ()
    """Modes ``prebuilt`` and ``jit``: distributions of the lock that it is loaded with and that ``group`` lacks."""
    jit: JitUse | None = None
    """Mode ``jit``: what it compiles with."""
    probes: tuple[Probe, ...] = ()
    """Mode ``jit``: kernels that are compiled to prove it; at least one for every target of a profile."""


def recipe_names() -> tuple[str, ...]:
    """Names of all shipped recipes."""
    return tuple(sorted(path.stem for path in (data_root() / "kernels" / "recipes").glob("*.toml")))


def load_recipe(name: str) -> Recipe:
    """Read and check ``kernels/recipes/<name>.toml``. Raises :class:`InputError` naming file, key and fix."""
    path = data_root() / "kernels" / "recipes" / f"{name}.toml"
    if name not in recipe_names():
        raise InputError(f"no recipe named {name!r}", fix=f"known recipes: {', '.join(recipe_names())}")
    recipe = load_toml(path, Recipe)
    if recipe.schema != 1:
        raise InputError(f"{path}: schema {recipe.schema} is not known", fix="this version of orbit reads schema 1")
    if recipe.name != name:
        raise InputError(f"{path}: name = {recipe.name!r} but the file is called {name}.toml", fix="make them equal")
    check_recipe(path, recipe)
    for key, value in recipe.env.items():
        unknown = set(PLACEHOLDER.findall(value)) - set(arch_words(("sm_90a",)))
        if unknown:
            raise InputError(
                f"{path}: env.{key} uses {{{unknown.pop()}}}", fix=f"known: {', '.join(arch_words(('sm_90a',)))}"
            )
    return recipe


def arch_words(archs: tuple[str, ...]) -> dict[str, str]:
    """The four ways packages want to be told architectures, made from ``("sm_90a", "sm_100a")``.

    ``torch_archs`` = ``9.0a;10.0a``, ``feature_archs`` = ``90a;100a``, ``base_archs`` = ``90;100``,
    ``sm_archs`` = ``sm_90a;sm_100a``.
    """
    parsed = [parse_arch(arch) for arch in archs]
    return {
        "torch_archs": ";".join(f"{arch.capability}{arch.suffix}" for arch in parsed),
        "feature_archs": ";".join(f"{arch.major}{arch.minor}{arch.suffix}" for arch in parsed),
        "base_archs": ";".join(f"{arch.major}{arch.minor}" for arch in parsed),
        "sm_archs": ";".join(archs),
    }


def render_env(recipe: Recipe, archs: tuple[str, ...]) -> dict[str, str]:
    """The recipe's variables with the architectures of the profile filled in."""
    words = arch_words(archs)
    return {key: PLACEHOLDER.sub(lambda match: words[match[1]], value) for key, value in recipe.env.items()}


def gencode_pairs(profile: Profile) -> tuple[tuple[str, str], ...]:
    """(virtual, real) architecture pairs to compile for the profile: ``("compute_90a", "sm_90a")``, ...

    One pair per target, machine code only: PTX would let the driver compile at run time, which a declared target must
    never need. Raises :class:`InputError` when the profile's CUDA release has no compiler for a target.
    """
    pairs = []
    for target in profile.targets:
        if not compiles(target.feature, profile.cuda):
            raise InputError(
                f"profile {profile.name}: CUDA {profile.cuda} cannot compile for {target.feature} ({target.name})",
                fix="raise cuda, or drop that target",
            )
        pairs.append((target.feature.replace("sm_", "compute_"), target.feature))
    return tuple(dict.fromkeys(pairs))
