"""An image out into one file of a format: streamed, checked, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orbit.core.console import Progress
from orbit.core.files import naming, require_free, sha256_file, sync_folder
from orbit.core.records import Record
from orbit.errors import InputError
from orbit.image.docker import archive, tar_sizes
from orbit.image.export import Format
from orbit.image.export.archive import oci_archive
from orbit.image.export.sif import find_apptainer, write_sif
from orbit.image.export.squashfs import find_mksquashfs, write_squashfs
from orbit.image.oci import REF_KEY, Layout, read_layout

SCHEMA = 1
NAMED: tuple[Format, ...] = ("oci-archive", "docker-archive")
TITLE_LABEL = "org.opencontainers.image.title"
NAME = re.compile(r"[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?")


class ExportResult(Record, frozen=True, kw_only=True):
    """A file that was written."""

    schema: int = SCHEMA
    format: Format
    out: str
    image: str
    """The digest of the manifest."""
    name: str
    """The name the image has inside; empty where the format knows none."""
    bytes: int
    sha256: str
    reproducible: bool
    """Whether the same image gives the same bytes again (with the same release of the tool)."""
    tool: str
    """The program that wrote it, with its version; empty for Orbit itself."""


def image_name(image: Layout) -> str:
    """``NAME:TAG`` by which an image is known where nobody said another: its title, tag ``latest``."""
    return f"{image.config.config.labels.get(TITLE_LABEL, 'orbit/image')}:latest"


def check_name(name: str) -> str:
    """``name`` again. Raises :class:`InputError` for one that no engine takes."""
    if not NAME.fullmatch(name):
        raise InputError(f"--tag {name!r}: not NAME:TAG", fix="lower-case letters, digits and . _ - / in the name")
    return name


def plan_export(path: Path, form: Format, out: Path, name: str = "") -> tuple[Layout, str, str]:
    """The image, its name inside (empty where the format knows none) and the tool that will write it.

    Raises as :func:`export_image` does before it writes anything.
    """
    image = read_layout(path)
    if out.is_dir():
        raise InputError(f"{out}: is a folder", fix="name the file to write")
    chosen = check_name(name) if name else image_name(image)
    return image, chosen if form in NAMED else "", check_export(form)


def check_export(form: Format) -> str:
    """The tool that a format needs, with its version; empty for none. Raises :class:`MissingError`."""
    if form == "squashfs":
        return f"mksquashfs {find_mksquashfs()[1]}"
    return find_apptainer()[1] if form == "sif" else ""


def export_image(path: Path, form: Format, out: Path, *, progress: Progress, name: str = "") -> ExportResult:
    """Write the image of the layout at ``path`` as ``out``, under ``name`` where the format has names.

    ``out`` is replaced in one step at the end. Raises :class:`InputError` for what is no layout or for a place that is
    no file, :class:`MissingError` when the format's tool is not there, :class:`DamagedImage` for a damaged layer
    and :class:`RefusedError` when the disk is too small.
    """
    image, name, tool = plan_export(path, form, out, name)
    packed = sum(layer.size for layer in image.layers)
    sizes = tar_sizes(image, progress) if form == "docker-archive" else {}
    need = sum(sizes.values()) or (packed if form in NAMED else packed * 5 // 4)
    require_free(out.absolute().parent, need, f"the {form}")
    progress.step(f"{form} of {image.digest[:19]}")
    with _beside(out) as partial:
        if form == "oci-archive":
            found = _write(partial, oci_archive(image, {REF_KEY: name}, progress), out)
        elif form == "docker-archive":
            found = _write(partial, archive(image, progress, tag=name, sizes=sizes), out)
        else:
            write_squashfs(image, partial, progress) if form == "squashfs" else write_sif(image, partial, progress)
            found = sha256_file(partial)
        size = partial.stat().st_size
    return ExportResult(
        format=form,
        out=str(out),
        image=image.digest,
        name=name,
        bytes=size,
        sha256=found,
        reproducible=form != "sif",
        tool=tool,
    )


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A name to write to, which becomes ``out`` when the block ends well and is gone when it does not."""
    for leftover in out.parent.glob(f".{out.name}.*.partial"):
        maker = leftover.name.split(".")[-2]
        if not os.path.exists(f"/proc/{maker}"):
            leftover.unlink(missing_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, out)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(out.absolute().parent)


def _write(partial: Path, chunks: Iterable[bytes], out: Path) -> str:
    """Write the stream that will be ``out``; gives its sha256."""
    digest = hashlib.sha256()
    with naming(out), open(partial, "xb") as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()
