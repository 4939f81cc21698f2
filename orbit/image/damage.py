"""An image that is not what its digests say: one error, one sentence and one exit status, whoever finds it."""

from __future__ import annotations

from pathlib import Path

from orbit.core.files import sha256_file
from orbit.errors import InputError

FIX = (
    "remove that image and get it again: `orbit image pull`, or `orbit image build` (a layout that was built here "
    "shares its files with the store: remove entries/layer there first)"
)
CONTENT = "its content is not what its digest says"
MISSING = "it is missing, or has another size than the image says"


class DamagedImage(InputError):
    """A blob or a document of an image is missing, cut short or not what names it. Bad input, whichever command reads
    it: nothing was done with the image.

    ``where``: the layout, the archive or the store; ``digest`` of what is damaged, ``layer`` its name where it has one.
    """

    def __init__(self, where: Path | str, digest: str, why: str = CONTENT, *, layer: str = "") -> None:
        what = f"layer {layer} ({digest})" if layer else digest
        super().__init__(f"{where}: {what} is damaged: {why}", fix=FIX)
        self.digest = digest


def damaged_blob(blob: Path, why: str = CONTENT, *, layer: str = "") -> DamagedImage:
    """The error of a blob by its file: a layout's, or the store's, whose name is the digest."""
    inside = blob.parent.name == "sha256" and blob.parent.parent.name == "blobs"
    return DamagedImage(blob.parent.parent.parent if inside else blob.parent, f"sha256:{blob.name}", why, layer=layer)


def blame(blob: Path, *, layer: str = "") -> None:
    """After something failed over ``blob``: raise :class:`DamagedImage` when its content is why. Reads all of it."""
    if not blob.is_file():
        raise damaged_blob(blob, MISSING, layer=layer)
    if sha256_file(blob) != blob.name:
        raise damaged_blob(blob, layer=layer)
