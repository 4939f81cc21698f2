"""The whole gate over a run: build it again in a clean room, judge all evidence, write the signed bundle of a release.

Exit status 0 only when a release was written; 1 when the evidence refuses it. Page: docs/gate.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.cli.gate.options import add_evidence_option, add_room_options, add_run_options, gate_of, room_of, show
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.release.attest.signers import Signer


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_run_options(parser)
    add_evidence_option(parser)
    add_room_options(parser)
    parser.add_argument("--key", type=Path, metavar="FILE", help="private key that signs the release")
    parser.add_argument("--sigstore", action="store_true", help="sign with the identity of this CI job instead; public")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the bundle (default: dist/PROFILE-DIGEST.release)")
    parser.add_argument("--tar", action="store_true", help="the bundle as one file, too: DIR.tar")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Do all of it, and print the decision."""
    import datetime as dt
    import sys

    from orbit.cli.gate.cleanroom import plan
    from orbit.release.bundle.write import write_archive
    from orbit.release.gate.candidate import read_candidate
    from orbit.release.gate.run import release

    if bool(args.key) == args.sigstore:
        raise InputError(
            "who signs the release? Give a key or --sigstore, one of them",
            fix="--key FILE (`orbit gate key new FILE` makes one); `orbit gate decide` only judges, and signs nothing",
        )
    gate = gate_of(args)
    options = room_of(args, gate.profile.name)
    candidate = read_candidate(gate.places.run, gate.profile)
    name = f"{gate.profile.name}-{candidate.digest.removeprefix('sha256:')[:12]}.release"
    out = (args.out or gate.places.run.parent / name).absolute()
    signer = _signer(args)  # before an hour's work, not after
    if args.dry_run:
        steps = {**plan(gate, options), "decision": str(gate.places.run), "bundle": str(out)}
        print_json(steps) if args.json else sys.stdout.write("".join(f"{k:12} {v}\n" for k, v in steps.items()))
        return ExitCode.OK
    decision, bundle = release(gate, options, signer, out, again=args.again, now=lambda: dt.datetime.now(dt.UTC))
    archive = write_archive(bundle, out.with_name(f"{out.name}.tar")) if bundle is not None and args.tar else None
    if args.json:
        where = {"bundle": str(bundle.folder) if bundle else "", "archive": str(archive or "")}
        print_json({"decision": decision, **where})
    else:
        show(decision, gate)
        if bundle is not None:
            sys.stdout.write(f"\nbundle {bundle.folder}: read RELEASE.md in it first\n")
        if archive is not None:
            sys.stdout.write(f"archive {archive}\n")
    return ExitCode.OK if bundle is not None else ExitCode.FINDINGS


def _signer(args: argparse.Namespace) -> Signer:
    from orbit.release.attest.signers import LocalSigner, SigstoreSigner

    return SigstoreSigner() if args.sigstore else LocalSigner.load(args.key)
