"""For which GPUs the environment here was made: its record (``environment.json``) and the profile that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.errors import InputError
from orbit.launch.preflight.gpu_facts import Device
from orbit.launch.preflight.model import Check
from orbit.launch.preflight.say import failed, passed, skipped, warned
from orbit.profile.model import load_profile

RECORD = Path("share", "orbit", "environment.json")
ARCH = re.compile(r"^(sm|compute)_(\d+)(\d)([af]?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What can run here."""

    profile: str = ""
    cuda: str = ""
    """CUDA release of the environment, ``13.0``."""
    targets: tuple[tuple[str, str], ...] = ()
    """Name and compute capability of each GPU the profile is for."""
    kernels: dict[str, tuple[str, ...]] | None = None
    """Package to the architectures found in its files (``sm_90a``); None: the record does not say."""
    reason: str = ""
    """Why nothing is known."""


def read_coverage(prefix: Path) -> Coverage:
    """Of the environment at ``prefix``. Never raises: where nothing is known, ``reason`` says why."""
    path = prefix / RECORD
    try:
        record = msgspec.json.decode(path.read_bytes())
        profile = load_profile(str(record["profile"]))
        kernels = {each["dist"]: tuple(sorted(set(_archs(each["found"])))) for each in record.get("kernels", ())}
    except OSError:
        return Coverage(reason=f"no environment of Orbit at {prefix}: nothing says for which GPUs it was made")
    except (msgspec.DecodeError, KeyError, TypeError, InputError) as error:
        return Coverage(reason=f"{path}: {getattr(error, 'what', error)}")
    return Coverage(
        profile=profile.name,
        cuda=profile.cuda,
        targets=tuple((target.name, target.capability) for target in profile.targets),
        kernels=kernels or None,
    )


def runs_on(arch: str, capability: str) -> str:
    """``sass`` when code of ``arch`` is loaded on a device as machine code, ``ptx`` when the driver must compile it
    first, empty when it cannot be used (CUDA C++ Programming Guide, "Binary Compatibility", "Compiler Targets")."""
    found = ARCH.match(arch)
    if found is None:
        return ""
    kind, major, minor, feature = found[1], int(found[2]), int(found[3]), found[4]
    of_device = tuple(int(part) for part in capability.split("."))
    if feature == "a":
        fits = (major, minor) == of_device
    elif feature == "f" or kind == "sm":
        fits = major == of_device[0] and minor <= of_device[1]
    else:
        fits = (major, minor) <= of_device
    return ("sass" if kind == "sm" else "ptx") if fits else ""


def judge_coverage(coverage: Coverage, devices: Sequence[Device]) -> Check:
    """``gpu-coverage``: every device is one of the profile's, and every package with kernels has code for it."""
    name = "gpu-coverage"
    if not devices:
        return skipped(name, "there is no GPU to compare with")
    if coverage.reason:
        return skipped(name, coverage.reason)
    known = ", ".join(f"{target} ({capability})" for target, capability in coverage.targets)
    for index, device in enumerate(devices):
        if device.capability not in {capability for _, capability in coverage.targets}:
            text = (
                f"GPU {index} is a {device.name} ({device.capability}), the image ({coverage.profile}) is for {known}"
            )
            return failed(
                name, text, "take nodes with one of those GPUs, or an image whose profile has this one as a target"
            )
    bare = list(_bare(coverage, {device.capability for device in devices}))
    if bare:
        dist, capability, archs = bare[0]
        text = f"{dist} has no machine code for {capability}, only {', '.join(archs)}"
        return warned(name, text, "PTX is compiled at first use, or loading fails: orbit audit", **dict.fromkeys(
            (each[0] for each in bare), "no machine code"))  # fmt: skip
    told = f"{len(coverage.kernels)} packages with kernels" if coverage.kernels else "the profile's targets"
    kinds = ", ".join(sorted({f"{device.name} ({device.capability})" for device in devices}))
    return passed(name, f"{kinds}: covered by {told}", profile=coverage.profile, cuda=coverage.cuda)


def _bare(coverage: Coverage, capabilities: set[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for dist, archs in (coverage.kernels or {}).items():
        for capability in sorted(capabilities):
            if archs and not any(runs_on(arch, capability) == "sass" for arch in archs):
                yield dist, capability, archs


def _archs(found: Sequence[dict[str, dict[str, int]]]) -> Iterator[str]:
    for binary in found:
        yield from binary.get("images", {})
