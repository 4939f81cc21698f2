"""A SIF file, the native format of Apptainer and SingularityCE: made by their own program from the layout.

SIF files hold an id and a time of their own, so two of one image differ; the image's digest is in the evidence.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from orbit.core import proc
from orbit.core.console import Progress
from orbit.errors import InputError, MissingError
from orbit.image.oci import Layout, blaming

PROGRAMS = ("apptainer", "singularity")
INSTALL = (
    "install Apptainer (its own packages, or `apt install` from its PPA; it needs no root), run this where it is, or "
    "take --format squashfs"
)
ANSWER_TIMEOUT_S = 30.0


def find_apptainer() -> tuple[Path, str]:
    """(program, what it calls its version). Raises :class:`MissingError`."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        raise MissingError(f"neither {' nor '.join(PROGRAMS)} is installed", fix=INSTALL)
    done = proc.run([found, "--version"], doing="asking apptainer", timeout_s=ANSWER_TIMEOUT_S)
    return Path(found), done.stdout.decode(errors="replace").strip()


def write_sif(image: Layout, out: Path, progress: Progress) -> str:
    """Make ``out``, a new file; gives the tool's name and version. Raises :class:`MissingError` without it, and
    :class:`DamagedImage` for a damaged layer."""
    program, version = find_apptainer()
    if ":" in str(image.path):
        raise InputError(f"{image.path}: Apptainer takes no layout with a colon in its path", fix="move the layout")
    with blaming(image, progress):
        proc.run([program, "build", out, f"oci:{image.path.absolute()}"], doing=f"{version}: build")
    return version
