"""Sign what was seen of an image: a smoke report, or a qualification record.

DOCUMENT says itself what it is (``schema``) and which image it is about. The result is an in-toto statement in a DSSE
envelope, a file ``*.intoto.json``: hand it to the gate with --evidence. Works inside the image, too, on the machine
with the GPU, which then has the key. Page: docs/attest.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.core.records import Record
    from orbit.release.attest.signers import Signer

SCHEMAS = ("slsa-provenance", "gpu-arch-coverage")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("document", type=Path, metavar="DOCUMENT", nargs="?", help="the report or record (JSON)")
    parser.add_argument("--key", type=Path, metavar="FILE", help="private key (orbit gate key new FILE)")
    parser.add_argument(
        "--sigstore", action="store_true", help="sign with the identity of this CI job instead of a key; public"
    )
    parser.add_argument("--sigstore-config", type=Path, metavar="FILE", help="another sigstore than the public one")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where it goes (default: beside DOCUMENT, *.intoto.json)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check document and key, sign and write nothing")
    parser.add_argument("--schema", choices=SCHEMAS, help="print the JSON schema of that predicate and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Read, check, sign, write."""
    import sys

    if args.schema:
        from orbit.audit.reports.report import json_schema

        sys.stdout.write(json_schema(_record(args.schema)).decode())
        return ExitCode.OK
    from orbit.release.attest.documents import read_document
    from orbit.release.attest.dsse import SUFFIX, write_envelope
    from orbit.release.attest.signers import sign_statement

    _check(args)
    document = read_document(args.document)
    signer, who = _signer(args)
    output = args.output or args.document.with_name(args.document.name.removesuffix(".json") + SUFFIX)
    if not args.dry_run:
        write_envelope(output, sign_statement(document.statement, signer))
    if args.json:
        print_json(
            {
                "output": output,
                "signer": who,
                "image": document.statement.image_digest,
                "predicate_type": document.statement.predicate_type,
                "says": document.summary,
                "written": not args.dry_run,
            }
        )
    else:
        would = "would sign" if args.dry_run else "signed"
        sys.stdout.write(f"{would} {document.summary}\n  image   {document.statement.image_digest}\n")
        sys.stdout.write(f"  signer  {who}\n  file    {output}\n")
    return ExitCode.OK


def _check(args: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options that are missing or contradict each other."""
    if args.document is None:
        raise InputError("no document is named", fix="orbit gate attest smoke.json --key FILE")
    if bool(args.key) == args.sigstore:
        raise InputError(
            "who signs? Give a key or --sigstore, one of them",
            fix="--key FILE (made by `orbit gate key new FILE`), or --sigstore in a CI job that has an identity",
        )
    if args.sigstore_config and not args.sigstore:
        raise InputError("--sigstore-config belongs to --sigstore", fix="add --sigstore, or leave it out")


def _signer(args: argparse.Namespace) -> tuple[Signer, str]:
    """Who signs, and what to call it."""
    from orbit.release.attest.signers import LocalSigner, SigstoreSigner

    if args.sigstore:
        return SigstoreSigner(args.sigstore_config), "sigstore"
    signer = LocalSigner.load(args.key)
    return signer, f"key {signer.keyid}"


def _record(name: str) -> type[Record]:
    from orbit.release.coverage import Coverage
    from orbit.release.provenance import Provenance

    kinds: dict[str, type[Record]] = {"slsa-provenance": Provenance, "gpu-arch-coverage": Coverage}
    return kinds[name]
