"""What a target on the command line is: a typed spec made by looking at names and at the first bytes, nothing more."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from orbit.errors import InputError
from orbit.kernels.capabilities import table
from orbit.profile.model import GpuTarget, Profile

type TargetKind = Literal["environment", "wheels", "image", "lock"]

TRANSPORTS = ("oci", "docker-archive", "docker-daemon", "podman")
"""Explicit ways to name an image: ``docker-daemon:NAME:TAG``. The names are those of containers/image."""
DAEMONS = ("docker-daemon", "podman")
LOCK_NAMES = re.compile(r"^(uv\.lock|pylock(\.[^.]+)?\.toml|requirements[\w.-]*\.txt|.*\.lock)$")
TAR_NAMES = re.compile(r"\.(tar|tgz|tar\.gz|tar\.zst)$")
SITE = re.compile(r"^python\d+(\.\d+)?$")
FIX = (
    "give a wheel, a folder of wheels, an environment (with lib/python3.*/site-packages), an OCI layout, an image "
    "archive (docker save), docker-daemon:NAME:TAG, a lock (uv.lock), or manifests (Kubernetes or compose YAML, submit "
    "files, batch scripts, docker lines)"
)


@dataclass(frozen=True, slots=True)
class Target:
    """One target as it was asked for."""

    kind: TargetKind
    spec: str
    """As typed; what reports call it."""
    paths: tuple[Path, ...] = ()
    """The environment, the lock, or the wheel files; none for images, whose reader takes ``spec``."""


def detect(spec: str) -> Target:
    """The target that ``spec`` names. Raises :class:`InputError` when it is none."""
    transport, colon, rest = spec.partition(":")
    if colon and transport in TRANSPORTS:
        if not rest:
            raise InputError(f"{spec}: no image is named", fix=f"write {transport}:NAME")
        if transport not in DAEMONS and not Path(rest).exists():
            raise InputError(f"{spec}: no such file or folder: {rest}", fix=FIX)
        return Target("image", spec)
    path = Path(spec)
    if path.is_dir():
        return _folder(spec, path)
    if path.is_file():
        return _file(spec, path)
    if path.exists():
        raise InputError(f"{spec}: neither a file nor a folder", fix=FIX)
    hint = f"; an image of a running docker is written docker-daemon:{spec}" if _like_image(spec) else ""
    raise InputError(f"{spec}: no such file or folder", fix=FIX + hint)


def _folder(spec: str, path: Path) -> Target:
    if (path / "oci-layout").exists() or (path / "index.json").exists():
        return Target("image", spec)
    names = sorted(os.listdir(path))
    if _is_environment(path, names):
        return Target("environment", spec, (path,))
    wheels = tuple(path / name for name in names if name.endswith(".whl"))
    if wheels:
        return Target("wheels", spec, wheels)
    raise InputError(f"{spec}: not an environment, not an image layout, and no wheel in it", fix=FIX)


def _is_environment(path: Path, names: list[str]) -> bool:
    if "pyvenv.cfg" in names or any(name.endswith((".dist-info", ".egg-info")) for name in names):
        return True
    try:
        pythons = [name for name in os.listdir(path / "lib") if SITE.match(name)]
    except OSError:
        return False
    return any((path / "lib" / name / "site-packages").is_dir() for name in pythons)


def _file(spec: str, path: Path) -> Target:
    if path.name.endswith(".whl"):
        return Target("wheels", spec, (path,))
    if TAR_NAMES.search(path.name) or _is_tar(path):
        return Target("image", spec)
    if LOCK_NAMES.match(path.name):
        return Target("lock", spec, (path,))
    raise InputError(f"{spec}: not a wheel, an image archive or a lock", fix=FIX)


def _is_tar(path: Path) -> bool:
    """Whether a file starts like an uncompressed tar (the magic of ustar and GNU archives is at byte 257)."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.pread(handle, 5, 257) == b"ustar"
    finally:
        os.close(handle)


def _like_image(spec: str) -> bool:
    """Whether a name that is no path looks like ``repository:tag`` or ``repository@sha256:...``."""
    return re.fullmatch(r"[a-z0-9][\w./-]*(:[\w.-]+|@sha256:[0-9a-f]{64})", spec) is not None


def profile_for(profile: Profile, capabilities: tuple[str, ...]) -> Profile:
    """``profile`` with other GPUs as its targets and no declared exceptions: those are about its own targets.

    Raises :class:`InputError` for a capability (``9.0``) that ``kernels/capabilities.toml`` does not know.
    """
    targets = []
    for capability in dict.fromkeys(capabilities):
        row = table().find(capability)
        if row is None:
            known = ", ".join(row.capability for row in table().capabilities)
            raise InputError(f"--gpu {capability}: no such compute capability", fix=f"one of {known}")
        sass = f"sm_{capability.replace('.', '')}"
        feature = f"{sass}a" if row.a else sass
        targets.append(
            GpuTarget(
                name=sass, devices=row.devices or (capability,), capability=capability, sass=sass, feature=feature
            )
        )
    return msgspec.structs.replace(profile, targets=tuple(targets), expectations=())
