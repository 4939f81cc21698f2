"""Profiles: which GPUs, which part of the lock, which kernels, how the image is layered. Data in ``env/profiles``."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import msgspec

from orbit.core.paths import data_root
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

CAPABILITY = re.compile(r"^\d+\.\d$")
ARCH = re.compile(r"^sm_\d+[af]?$")


class GpuTarget(Record, frozen=True, kw_only=True):
    """One kind of GPU the image must run on."""

    name: str
    """Short name, e.g. ``h100``."""
    devices: tuple[str, ...]
    """Product names this target stands for."""
    capability: str
    """CUDA compute capability, ``major.minor``."""
    sass: str
    """Base architecture whose machine code runs on it, ``sm_90``."""
    feature: str
    """Architecture with the device's own instructions, ``sm_90a``; what our kernels are compiled for."""


class KernelPolicy(Record, frozen=True, kw_only=True):
    """Which recipes are built from source."""

    core: tuple[str, ...] = ()
    """Recipes built by default, in ``kernels/recipes``."""
    extended: tuple[str, ...] = ()
    """Recipes for big machines: skipped unless asked for (``--kernels all``), and the skip is reported."""


class Layer(Record, frozen=True, kw_only=True):
    """One image layer made of installed distributions."""

    name: str
    dists: tuple[str, ...]
    """Distribution names as shell patterns (``nvidia-*``); the first layer that matches takes the files."""
    groups: Annotated[int, msgspec.Meta(ge=1, le=32)] = 1
    """Into so many layers ``NAME-0``, ``NAME-1``, ...; which one holds a distribution follows from its name alone."""


class SlimPolicy(Record, frozen=True, kw_only=True):
    """How device code that no target loads leaves an image. The defaults are the careful choice."""

    ptx: Literal["keep", "newest", "drop"] = "keep"
    """PTX in containers that have machine code for every target: all stays, the newest stays, none stays.

    No declared target loads it (machine code wins); devices that nobody declared do.
    """
    others: Literal["leave", "one"] = "leave"
    """Containers in which no entry serves any target: left whole, or cut down to their smallest entry.

    Loading from one fails on every target before and after, and in the same way.
    """
    layout: Literal["holes", "shrink"] = "shrink"
    """``shrink`` falls back to ``holes`` where it cannot be done safely, and the plan says why."""
    unproved: bool = False
    """Also touch files without an entry ``[[proved]]`` in ``kernels/slim.toml``."""
    licensed: bool = False
    """Also touch files with an entry ``[[forbidden]]``: for one's own use, on one's own reading of the licence."""


class ImagePolicy(Record, frozen=True, kw_only=True):
    """How the environment becomes an image."""

    name: str
    """Repository name of the image, e.g. ``orbit/cu130``."""
    base: str
    """Base definition: ``containers/<base>.toml``."""
    prefix: str
    """Absolute path of the environment inside the image."""
    layers: tuple[Layer, ...]
    """Layers above base and interpreter, below orbit's own; files no layer names go to ``stack``."""
    env: dict[str, str] = {}
    """Environment of the image; ``{prefix}`` is replaced."""
    labels: dict[str, str] = {}
    """``[image.labels]``: what only the publisher knows (``org.opencontainers.image.source``, ``.vendor``,
    ``.documentation``). Labels that Orbit computes cannot be set."""
    slim: SlimPolicy | None = None
    """``[image.slim]``: leave device code out that no target loads. Without the table everything stays."""


class Profile(Record, frozen=True, kw_only=True):
    """One buildable image: what it runs on, what is in it, how it is proved."""

    schema: int
    name: str
    description: str
    python: str
    """CPython ``major.minor``."""
    lock: str = ""
    """Folder of the checkout with this profile's ``pyproject.toml`` and ``uv.lock``; empty: the checkout's root."""
    policies: tuple[str, ...] = ()
    """Files under ``env/lock-policies`` that its lock must satisfy, beside ``env/lock-policy.toml``."""
    extras: tuple[str, ...]
    """Extras of that pyproject.toml that are installed (orbit's own dependencies always are)."""
    cuda: str
    """CUDA release (``13.0``) that every CUDA component must belong to."""
    toolkit: Literal["lock", "host"] = "lock"
    """Where nvcc of that release comes from. ``lock``: from wheels. ``host``: no index has it; the folder that
    ``ORBIT_CUDA_TOOLKIT`` names, checked to be of that release, when something is compiled for a device."""
    targets: tuple[GpuTarget, ...]
    kernels: KernelPolicy
    expectations: tuple[str, ...]
    """Files under ``kernels/expectations`` that apply."""
    image: ImagePolicy
    smoke: tuple[str, ...]
    """Smoke lists under ``containers/smoke`` that run on a machine without a GPU."""
    smoke_gpu: tuple[str, ...] = ()
    """Smoke lists that need a GPU of one of the targets."""

    def target_archs(self) -> tuple[str, ...]:
        """Feature architectures in declared order, e.g. ``("sm_90a", "sm_100a")``."""
        return tuple(target.feature for target in self.targets)


def profile_names() -> tuple[str, ...]:
    """Names of all shipped profiles."""
    return tuple(sorted(path.stem for path in (data_root() / "env" / "profiles").glob("*.toml")))


def load_profile(name: str) -> Profile:
    """Read and check ``env/profiles/<name>.toml``."""
    if name not in profile_names():
        raise InputError(f"no profile named {name!r}", fix=f"known profiles: {', '.join(profile_names())}")
    path = data_root() / "env" / "profiles" / f"{name}.toml"
    profile = load_toml(path, Profile)
    if profile.schema != 1:
        raise InputError(f"{path}: schema {profile.schema} is not known", fix="this version of orbit reads schema 1")
    if profile.name != name:
        raise InputError(f"{path}: name = {profile.name!r} but the file is called {name}.toml", fix="make them equal")
    lock = PurePosixPath(profile.lock)
    if lock.is_absolute() or ".." in lock.parts or profile.lock not in ("", str(lock)) or profile.lock == ".":
        raise InputError(
            f"{path}: lock = {profile.lock!r}",
            fix=f'name a folder of the checkout as "env/profiles/{name}"; leave it out for the checkout\'s root',
        )
    if not profile.targets:
        raise InputError(f"{path}: targets is empty", fix="declare at least one [[targets]]")
    for target in profile.targets:
        _check_target(path, target)
    if not profile.image.prefix.startswith("/") or profile.image.prefix == "/":
        raise InputError(
            f"{path}: image.prefix = {profile.image.prefix!r}", fix='use an absolute path such as "/opt/orbit"'
        )
    return profile


def _check_target(path: Path, target: GpuTarget) -> None:
    if not CAPABILITY.match(target.capability):
        raise InputError(f"{path}: targets.{target.name}.capability = {target.capability!r}", fix='write it as "9.0"')
    for key in ("sass", "feature"):
        if not ARCH.match(getattr(target, key)):
            raise InputError(
                f"{path}: targets.{target.name}.{key} = {getattr(target, key)!r}",
                fix='write it as "sm_90" or "sm_90a"',
            )
