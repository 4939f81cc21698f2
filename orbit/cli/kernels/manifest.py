"""What is known about every wheel of the profile: architectures requested, compiled and found; what was verified."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, add_profile_option, add_tier_option, print_json
from orbit.errors import ExitCode, MissingError

if TYPE_CHECKING:
    from orbit.kernels.manifest import BuildManifest


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_tier_option(parser)
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the manifests in the store."""
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.plan import built_manifests
    from orbit.profile.model import load_profile

    found, missing = built_manifests(load_profile(args.profile), checkout_root(), open_store(), tier=args.kernels)
    if missing:
        raise MissingError(f"not done yet: {', '.join(missing)}", fix=f"orbit kernels build --profile {args.profile}")
    if args.json:
        print_json(found)
        return ExitCode.OK
    for manifest in found:
        _print(manifest)
    return ExitCode.OK


def _print(manifest: BuildManifest) -> None:
    print(f"{manifest.dist} {manifest.version}  ({manifest.wheel})")
    if manifest.mode == "source":
        print(f"  requested  {', '.join(manifest.requested)}")
        asked = sorted({pair for unit in manifest.units for pair in unit.requested})
        print(f"  script     asked for {', '.join(asked) or 'nothing'}")
        print(f"  compiled   {len(manifest.units)} translation unit(s) behind the shim, {manifest.compiler}")
    else:
        print(f"  {manifest.mode:<10} sha256 {manifest.wheel_sha256}, as the lock says; not compiled here")
    for probed in manifest.jit.probes if manifest.jit else ():
        print(f"  probe      {probed}")
    for binary in manifest.found:
        images = ", ".join(f"{arch} {count}" for arch, count in binary.images.items()) or "no device code"
        print(f"  found      {binary.file}: {images}; glibc {binary.glibc}")
