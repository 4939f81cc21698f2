"""A squashfs file of an image's tree, made by mksquashfs from a tar stream: no second copy of the tree on disk.

Measured with squashfs-tools 4.5.1: with one constant for all times the bytes depend on the stream alone, not on the
number of processors, the memory or the day (docs/image-distribution.md). The tool's release enters.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from orbit.core import proc
from orbit.core.console import Progress
from orbit.errors import MissingError
from orbit.image.export.merge import merged_tar
from orbit.image.oci import Layout
from orbit.image.tar import EPOCH_S

TOOL = "mksquashfs"
INSTALL = "install squashfs-tools, 4.5 or newer (it must know -tar)"
LEVEL = 3
BLOCK = "256K"
MEMORY = "512M"
ANSWER_TIMEOUT_S = 30.0


def find_mksquashfs() -> tuple[Path, str]:
    """(program, its version). Raises :class:`MissingError`."""
    found = shutil.which(TOOL)
    if found is None:
        raise MissingError(f"{TOOL} is not installed", fix=INSTALL)
    done = proc.run([found, "-version"], doing=f"asking {TOOL}", timeout_s=ANSWER_TIMEOUT_S, check=False)
    version = re.search(r"version ([0-9]+)\.([0-9]+)[^ ]*", done.stdout.decode(errors="replace"))
    if version is None or (int(version[1]), int(version[2])) < (4, 5):
        raise MissingError(f"{found}: {version[0] if version else 'does not say its version'}", fix=INSTALL)
    return Path(found), version[0].removeprefix("version ")


def write_squashfs(image: Layout, out: Path, progress: Progress) -> str:
    """Make ``out``, a new file; gives the tool's name and version. Everything in it has the time 1980-01-01.

    Raises :class:`MissingError` without mksquashfs, and what :func:`merged_tar` raises.
    """
    program, version = find_mksquashfs()
    times = ["-mkfs-time", str(EPOCH_S), "-all-time", str(EPOCH_S)]
    root = ["-root-mode", "755", "-root-uid", "0", "-root-gid", "0"]
    pack = ["-comp", "zstd", "-Xcompression-level", str(LEVEL), "-b", BLOCK, "-mem", MEMORY]
    proc.run(
        [program, "-", out, "-tar", "-quiet", "-no-progress", "-exit-on-error", *pack, *times, *root],
        doing=f"{TOOL} {version}",
        stdin=merged_tar(image, progress),
        fix=INSTALL,
    )
    return f"{TOOL} {version}"
