"""An image on this machine, held against the one that a bundle is about."""

from __future__ import annotations

from pathlib import Path

from orbit.audit.images.opened import ENGINES, FILES, OpenImage, open_image
from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.errors import InputError, MissingError
from orbit.image.oci import read_layout, verify_layers
from orbit.release.attest.statement import IMAGE_DIGEST
from orbit.release.bundle.facts import Files, manifest_of
from orbit.release.bundle.model import ImageReference, sha256
from orbit.release.bundle.report import Claim, State

TEXT = "the image on this machine is the one that was released"
NO_MANIFEST = b"{}"
"""What a docker archive has in place of a manifest."""
OTHER = "pull the image by its digest (RELEASE.md), and use no other"


def judge_image(spec: str | None, files: Files, image: ImageReference, progress: Progress) -> Claim:
    """The claim about ``spec``: a layout, an archive, an image of an engine, a digest as one shows it, or nothing.

    Every byte of a layout or an archive is read. Raises :class:`MissingError` when there is no such thing.
    """
    if spec is None:
        return _claim(
            State.NOT_CHECKED, "no image was given", "--image with a layout, an archive, or the digest you pulled"
        )
    kind, colon, name = spec.partition(":")
    if colon and kind in ENGINES:
        try:
            return _opened(spec, None, files, image, progress)
        except InputError as error:
            raise MissingError(error.what, fix="--image PATH, or the digest that your engine shows") from None
    path = Path(name if colon and kind in FILES else spec)
    if not path.exists():
        found = IMAGE_DIGEST.search(spec)
        if found is None:
            raise MissingError(f"{spec}: no such layout or archive, and no digest", fix="--image PATH, or sha256:...")
        if found[0] != image.digest:
            return _claim(State.CONTRADICTED, f"{spec} is another image; the release is {image.digest}", OTHER)
        return _claim(State.PROVEN, "the digest is the released one; its bytes were not looked at")
    try:
        return _opened(spec, path, files, image, progress)
    except InputError as error:
        return _claim(State.CONTRADICTED, error.what, OTHER)


def _opened(spec: str, path: Path | None, files: Files, image: ImageReference, progress: Progress) -> Claim:
    opened = open_image(spec, progress)
    if opened.ref.manifest != NO_MANIFEST:
        digest, wanted, what = f"sha256:{sha256(opened.ref.manifest)}", image.digest, "manifest"
    else:
        digest, wanted, what = f"sha256:{sha256(opened.ref.config)}", manifest_of(files).config.digest, "configuration"
    if digest != wanted:
        return _claim(
            State.CONTRADICTED, f"{spec} is another image: its {what} is {digest}, released was {wanted}", OTHER
        )
    _read_all(path, opened, progress)
    note = (
        "" if what == "manifest" else " (an archive of docker has no manifest: configuration and layers were compared)"
    )
    return _claim(State.PROVEN, f"{spec}: {len(opened.ref.layers)} layers, every byte read{note}")


def _read_all(path: Path | None, opened: OpenImage, progress: Progress) -> None:
    """Compare every layer with its digest; raises :class:`InputError` for the first that differs."""
    if path is not None and path.is_dir():
        layout = read_layout(path)
        progress.step(f"reading {format_bytes(sum(layer.size for layer in layout.layers))} of layers")
        verify_layers(layout, progress=progress)
    elif opened.stream is None:  # one that streams by was compared as it did
        opened.facts(range(len(opened.ref.layers)), None, progress)


def _claim(state: State, why: str, fix: str = "") -> Claim:
    return Claim(name="image", text=TEXT, state=state, why=why, fix=fix)
