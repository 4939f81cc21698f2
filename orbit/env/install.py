"""Put the lock's prebuilt wheels and Orbit's own into a prefix, with uv and nothing of the caller's configuration."""

from __future__ import annotations

import hmac
import os
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from orbit.core import proc, tools
from orbit.core.files import sha256_file
from orbit.core.findings import Skipped
from orbit.env.record import Distribution, Wheel, Wheelhouse
from orbit.errors import CommandFailed, InputError, MissingError
from orbit.profile.lock import Lock, Package
from orbit.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be installed and what will not."""

    prebuilt: tuple[Package, ...]
    """From the index, sorted by name."""
    built: tuple[Wheel, ...]
    """From the wheelhouse, sorted by name."""
    skipped: tuple[Skipped, ...]

    @property
    def download_bytes(self) -> int:
        """Size of all prebuilt wheels."""
        return sum(package.wheel.size for package in self.prebuilt if package.wheel)

    def part(self, names: Container[str]) -> Plan:
        """Only the distributions ``names`` (normalised); nothing skipped."""
        return Plan(
            prebuilt=tuple(package for package in self.prebuilt if package.name in names),
            built=tuple(wheel for wheel in self.built if canonicalize_name(wheel.dist) in names),
            skipped=(),
        )

    def sizes(self) -> dict[str, int]:
        """Bytes of the wheel of each distribution by normalised name; 0 for a built one that is not there."""
        found = {package.name: package.wheel.size for package in self.prebuilt if package.wheel}
        for wheel in self.built:
            found[canonicalize_name(wheel.dist)] = os.path.getsize(wheel.path) if os.path.isfile(wheel.path) else 0
        return found

    def distributions(self) -> tuple[Distribution, ...]:
        """Record of everything installed, sorted by name."""
        found = [
            Distribution(
                name=package.name,
                version=package.version,
                origin="index",
                wheel=package.wheel.filename,
                sha256=package.wheel.sha256,
            )
            for package in self.prebuilt
            if package.wheel
        ]
        found += [
            Distribution(
                name=canonicalize_name(wheel.dist),
                version=wheel.version,
                origin="wheelhouse",
                wheel=Path(wheel.path).name,
                sha256=wheel.sha256,
            )
            for wheel in self.built
        ]
        return tuple(sorted(found, key=lambda dist: dist.name))


def make_plan(profile: Profile, lock: Lock, wheelhouse: Wheelhouse) -> Plan:
    """Split the profile's closure into prebuilt, built and skipped. A wheel Orbit built wins over a published one."""
    built: dict[str, Wheel] = {canonicalize_name(wheel.dist): wheel for wheel in wheelhouse.wheels}
    reasons: dict[str, Skipped] = {canonicalize_name(skip.what): skip for skip in wheelhouse.skipped}
    prebuilt = []
    skipped = []
    closure = lock.closure(profile.extras)
    for package in closure:
        wheel = package.wheel
        if package.name in built:
            if built[package.name].version != package.version:
                raise InputError(
                    f"wheelhouse: {package.name} {built[package.name].version}, the lock has {package.version}",
                    fix="run `orbit kernels build` again",
                )
        elif wheel is None or not wheel.sha256 or package.source.kind != "registry":
            known = reasons.get(package.name)
            reason = known.reason if known else "no published wheel fits and no recipe built one"
            skipped.append(Skipped(what=package.name, reason=reason, estimate=known.estimate if known else ""))
        else:
            prebuilt.append(package)
    wanted = {package.name for package in closure}
    skipped += [skip for name, skip in reasons.items() if name not in wanted and name not in built]
    return Plan(
        prebuilt=tuple(prebuilt),
        built=tuple(built[name] for name in sorted(built)),
        skipped=tuple(sorted(skipped, key=lambda skip: skip.what)),
    )


def requirements(plan: Plan) -> str:
    """The prebuilt packages in pip's format: exact version and the hash of the one wheel the lock chooses.

    Same packages and versions as ``uv export --frozen`` gives for the target platform. One hash, not all: a build
    machine with a newer glibc must not pick another file than the lock's platform does.
    """
    return "".join(
        f"{package.name}=={package.version} --hash=sha256:{package.wheel.sha256}\n"
        for package in plan.prebuilt
        if package.wheel
    )


def check_wheels(wheels: Sequence[Wheel]) -> None:
    """Refuse a wheel that is not there or not the bytes the wheelhouse says."""
    for wheel in wheels:
        path = Path(wheel.path)
        if not path.is_file():
            raise MissingError(f"{path}: wheel of {wheel.dist} is not there", fix="run `orbit kernels build` again")
        if not hmac.compare_digest(sha256_file(path), wheel.sha256):
            raise InputError(
                f"{path}: damaged wheel of {wheel.dist}: its sha256 is not {wheel.sha256[:12]}...",
                fix="delete that folder and run `orbit kernels build` again",
            )


def install_prebuilt(plan: Plan, prefix: Path, scratch: Path) -> None:
    """Install the lock's wheels into ``prefix``: copies, never links into uv's cache."""
    listing = scratch / "requirements.txt"
    listing.write_text(requirements(plan))
    indexes = sorted({package.source.url for package in plan.prebuilt})
    options = ["--require-hashes", "--requirement", str(listing)]
    for number, url in enumerate(indexes):
        options += ["--index" if number else "--default-index", url]
    if plan.prebuilt:
        _pip_install(prefix, options, "installing the lock's wheels")


def install_built(wheels: Sequence[Wheel], prefix: Path) -> None:
    """Install checked wheel files into ``prefix``."""
    if wheels:
        _pip_install(prefix, ["--no-index", *(wheel.path for wheel in wheels)], "installing built wheels")


def reinstall(plan: Plan, name: str, prefix: Path, scratch: Path, *, cached: bool = True) -> None:
    """Write the files of one distribution again, over what else wrote there; with ``cached`` false, fetched anew."""
    again = ["--reinstall"] if cached else ["--reinstall", "--no-cache"]
    only = plan.part({name})
    if only.built:
        _pip_install(prefix, ["--no-index", *again, only.built[0].path], f"installing {name} again")
        return
    listing = scratch / "reinstall.txt"
    listing.write_text(requirements(only))
    source = ["--requirement", str(listing), "--default-index", only.prebuilt[0].source.url]
    _pip_install(prefix, [*again, "--require-hashes", *source], f"installing {name} again")


def _pip_install(prefix: Path, options: Sequence[str], doing: str) -> None:
    base = ["pip", "install", "--python", str(prefix / "bin" / "python3.12"), "--break-system-packages"]
    fixed = ["--no-deps", "--no-build", "--no-python-downloads", "--link-mode", "copy", "--no-config"]
    try:
        proc.run([tools.uv(), *base, *fixed, *options], doing=doing, cwd=prefix)
    except CommandFailed as error:
        raise tools.explain_uv(error) from None
