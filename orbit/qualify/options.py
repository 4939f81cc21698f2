"""Options of a recording, the same for ``orbit qualify record`` and for ``python -m orbit.qualify``.

Every command of Orbit makes these, so nothing is imported here that takes time.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from orbit.errors import InputError

DEFAULT = "tiny"
REPEATS = 2
IMAGE = "ORBIT_IMAGE_DIGEST"
"""Variable that names the image this runs in, when ``--image`` does not."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """What both take."""
    parser.add_argument("--definition", default=DEFAULT, metavar="NAME", help="in ci/qualify, or a file (tiny)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU if there is")
    parser.add_argument(
        "--path", action="append", default=[], metavar="NAME", help="only this path, and the plain one; repeatable"
    )
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, metavar="N", help=f"runs of each case, one process each ({REPEATS})"
    )
    parser.add_argument("--image", default="", metavar="DIGEST", help=f"sha256:... of the image (default: ${IMAGE})")
    parser.add_argument("--profile", default="", metavar="NAME", help="of the image (default: the environment's)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE",
        help="change a setting, to look for a cause: deterministic, tf32, reduced_precision, attention, threads",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("dist", "qualify", "record.json"), metavar="FILE",
        help="the record; its tensors go beside it (default: dist/qualify/record.json)",
    )  # fmt: skip


def words(args: argparse.Namespace) -> list[str]:
    """The options as arguments of another process; the path of the record is made absolute."""
    found = ["--definition", str(args.definition), "--device", args.device, "--repeats", str(args.repeats)]
    for name in ("path", "set"):
        for value in getattr(args, name):
            found += [f"--{name}", value]
    return [*found, "--image", image_of(args), "--profile", args.profile, "--out", str(args.out.absolute())]


def image_of(args: argparse.Namespace) -> str:
    """The image's digest, by option or variable; empty when neither names one. Raises :class:`InputError`."""
    digest: str = args.image or os.environ.get(IMAGE, "")
    text = digest.removeprefix("sha256:")
    if digest and (len(text) != 64 or text == digest or not set(text) <= set("0123456789abcdef")):
        raise InputError(f"--image {digest}: not a digest", fix="give sha256: and 64 hexadecimal digits")
    return digest
