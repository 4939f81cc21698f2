"""Keys that sign evidence: make one, or show what others need of one.

``new`` writes the private key to FILE (readable for you alone; encrypted when ORBIT_KEY_PASSPHRASE is set) and the
public one to FILE.pub; nothing is ever written over. ``show`` takes either. Page: docs/attest.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KINDS = '["smoke", "qualification"]'


def configure(parser: argparse.ArgumentParser) -> None:
    """``new`` and ``show``."""
    children = parser.add_subparsers(metavar="ACTION", dest="key_action", required=True)
    new = children.add_parser("new", help="make a key", description="Make a key: FILE and FILE.pub.")
    new.add_argument("file", type=Path, metavar="FILE", help="where the private key goes")
    new.add_argument("--dry-run", action="store_true", help="say what would be written")
    add_json_option(new)
    new.set_defaults(key_run=_new)
    show = children.add_parser(
        "show", help="id and public half of a key", description="Show id and public half of a key."
    )
    show.add_argument("file", type=Path, metavar="FILE", help="a private or a public key")
    add_json_option(show)
    show.set_defaults(key_run=_show)


def run(args: argparse.Namespace) -> int:
    """Run what was chosen."""
    status: int = args.key_run(args)
    return status


def _new(args: argparse.Namespace) -> int:
    import os
    import sys

    from orbit.errors import ExitCode
    from orbit.release.attest.keys import VARIABLE, load_public, public_path, require_new, write_new

    if args.dry_run:
        require_new(args.file)
        public, keyid, encrypted = public_path(args.file), "", bool(os.environ.get(VARIABLE))
    else:
        made = write_new(args.file)
        public, keyid, encrypted = made.public, made.keyid, made.encrypted
    if args.json:
        print_json({"private": args.file, "public": public, "keyid": keyid, "encrypted": encrypted})
        return ExitCode.OK
    would = "would write" if args.dry_run else "wrote"
    how = "encrypted" if encrypted else f"not encrypted (set {VARIABLE} for that)"
    sys.stdout.write(f"{would} {args.file}: the private key, {how}; keep it on the machine that signs\n")
    sys.stdout.write(f"{would} {public}: the public one, for those who verify\n")
    if not args.dry_run:
        sys.stdout.write(_row(load_public(public), public))
    return ExitCode.OK


def _show(args: argparse.Namespace) -> int:
    import sys

    from orbit.errors import ExitCode
    from orbit.release.attest.keys import PUBLIC_SUFFIX, keyid_of, load_either, public_path, public_pem

    key = load_either(args.file)
    if args.json:
        print_json({"keyid": keyid_of(key), "public": public_pem(key).decode()})
        return ExitCode.OK
    public = args.file if args.file.name.endswith(PUBLIC_SUFFIX) else public_path(args.file)
    sys.stdout.write(public_pem(key).decode() + _row(key, public))
    return ExitCode.OK


def _row(key: Ed25519PublicKey, public: Path) -> str:
    """The id, and the lines that make somebody trust this key."""
    from orbit.release.attest.keys import keyid_of

    return (
        f"keyid {keyid_of(key)}\n\n"
        f"to trust it, put {public.name} into ci/keys and these lines into ci/gate.toml:\n\n"
        f'[[trust]]\nname = "{public.name.removesuffix(".pub")}"\nkey = "keys/{public.name}"\nmay_sign = {KINDS}\n'
    )
