"""What is in an image: layers, sizes, configuration, labels. Reads documents; reads layers only to verify them."""

from __future__ import annotations

from pathlib import Path

from orbit.core.console import Progress
from orbit.core.records import Record
from orbit.image.oci import ImageLayer, read_layout, verify_layers

SCHEMA = 1


class ImageFacts(Record, frozen=True, kw_only=True):
    """One image."""

    schema: int = SCHEMA
    layout: str
    digest: str
    config: str
    layers: tuple[ImageLayer, ...]
    pull_bytes: int
    disk_bytes: int | None
    """Sum of the unpacked streams; None when a layer does not say."""
    env: tuple[str, ...]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    labels: dict[str, str]
    verified: bool
    """Whether every byte of every layer was read and compared with its digest."""


def inspect_layout(path: Path, *, verify: bool, progress: Progress) -> ImageFacts:
    """The facts of the layout at ``path``; with ``verify`` a damaged layer raises :class:`CheckFailed`."""
    layout = read_layout(path)
    if verify:
        verify_layers(layout, progress=progress)
    sizes = [layer.tar_bytes for layer in layout.layers if layer.tar_bytes is not None]
    run = layout.config.config
    return ImageFacts(
        layout=str(path),
        digest=layout.digest,
        config=layout.manifest.config.digest,
        layers=layout.layers,
        pull_bytes=sum(layer.size for layer in layout.layers),
        disk_bytes=sum(sizes) if len(sizes) == len(layout.layers) else None,
        env=run.env,
        entrypoint=run.entrypoint,
        cmd=run.cmd,
        labels=run.labels,
        verified=verify,
    )


def render(facts: ImageFacts) -> str:
    """The facts for people."""
    lines = [
        f"image   {facts.digest}",
        f"config  {facts.config}",
        "",
        f"{'layer':12} {'pull MB':>9} {'disk MB':>9} {'files':>7}  digest",
    ]
    for layer in facts.layers:
        files = "-" if layer.files is None else str(layer.files)
        sizes = f"{_mb(layer.size):>9} {_mb(layer.tar_bytes):>9} {files:>7}"
        lines.append(f"{layer.name:12} {sizes}  {layer.digest[7:19]} {layer.codec}")
    lines += [f"{'total':12} {_mb(facts.pull_bytes):>9} {_mb(facts.disk_bytes):>9}", ""]
    lines += [f"entrypoint  {' '.join(facts.entrypoint)}", f"command     {' '.join(facts.cmd)}"]
    lines += [f"env         {variable}" for variable in facts.env]
    lines += [f"label       {name} = {value}" for name, value in sorted(facts.labels.items())]
    if facts.verified:
        lines.append("every layer was read and is what its digest says")
    return "\n".join(lines)


def _mb(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:.1f}"
