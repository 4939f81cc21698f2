"""Putting a layout into a docker engine: a docker-archive stream made on the fly, nothing written in between.

The engine's own release may be old (20.10 reads neither OCI layouts nor zstd), so layers go in as plain tar. They are
checked while they stream: a damaged layer stops the load before anything gets a name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from orbit.core import proc
from orbit.core.console import Progress
from orbit.core.files import require_free
from orbit.core.records import Record
from orbit.errors import CheckFailed, InputError, MissingError
from orbit.image.blob import verified_tar
from orbit.image.oci import TAR_BYTES_KEY, ImageLayer, Layout, read_layout
from orbit.image.tar import BLOCK, Member, content, header, tar_chunks

ANSWER_TIMEOUT_S = 30.0
CLIENT_VARIABLE = "ORBIT_DOCKER"
NO_ENGINE = "start a docker engine (DOCKER_HOST says where, ORBIT_DOCKER names the client), or use the layout as it is"


class Engine(Record, frozen=True, kw_only=True):
    """A docker engine that answers."""

    client: Path
    version: str
    root: str
    """Its data folder, on its machine."""


class LoadedImage(Record, frozen=True, kw_only=True):
    """An image in the engine."""

    id: str
    """``sha256:`` of the configuration; what ``docker images`` shows."""
    tag: str
    engine: str
    """The engine's version."""
    reused: bool
    """True when the engine had the image already and only the tag was set."""
    diff_ids: tuple[str, ...]
    """As the engine reports them; equal to the layout's."""


def find_client() -> Path | None:
    """The docker client: ``$ORBIT_DOCKER``, else the first on PATH."""
    found = os.environ.get(CLIENT_VARIABLE) or shutil.which("docker")
    return Path(found) if found else None


def find_engine() -> Engine | str:
    """The engine that answers, or a sentence that says why there is none."""
    client = find_client()
    if client is None:
        return "no docker client is installed"
    if not client.is_file():
        return f"{CLIENT_VARIABLE} = {client}: no such program"
    form = "{{.ServerVersion}} {{.DockerRootDir}}"
    done = proc.run([client, "info", "--format", form], doing="asking docker", timeout_s=ANSWER_TIMEOUT_S, check=False)
    version, _, root = done.stdout.decode(errors="replace").strip().partition(" ")
    if done.returncode != 0 or not version:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        return f"no docker engine answers: {said[-1] if said else f'status {done.returncode}'}"
    return Engine(client=client, version=version, root=root)


def require_engine() -> Engine:
    """:func:`find_engine`, or :class:`MissingError`."""
    engine = find_engine()
    if isinstance(engine, str):
        raise MissingError(engine, fix=NO_ENGINE)
    return engine


def load_image(path: Path, *, tag: str, progress: Progress) -> LoadedImage:
    """Put the image of the layout at ``path`` into the engine under ``tag``.

    Raises :class:`MissingError` without an engine, :class:`CheckFailed` when a layer is damaged or the engine ends up
    with something else, :class:`RefusedError` when its disk is too small.
    """
    layout = read_layout(path)
    engine = require_engine()
    image = layout.manifest.config.digest
    known = _inspect(engine, image) is not None
    if not known:
        total = sum(_tar_bytes(layout, layer) for layer in layout.layers)
        if Path(engine.root).is_dir():
            # the engine keeps the stream beside the unpacked layers until it is done
            require_free(Path(engine.root), 2 * total, "docker load")
        progress.step(f"docker {engine.version}: loading {total / 1e9:.1f} GB")
        proc.run([engine.client, "load"], doing="docker load", stdin=archive(layout, progress, tag=None))
    proc.run([engine.client, "tag", image, tag], doing="docker tag")
    diff_ids = _inspect(engine, image)
    if diff_ids != layout.config.rootfs.diff_ids:
        raise CheckFailed(
            f"docker holds {image} with other layers than {path}", fix=f"docker image rm {image}, then load it again"
        )
    return LoadedImage(id=image, tag=tag, engine=engine.version, reused=known, diff_ids=diff_ids)


def _inspect(engine: Engine, image: str) -> tuple[str, ...] | None:
    """The layers' diff ids of an image in the engine; None when it is not there."""
    done = proc.run(
        [engine.client, "image", "inspect", "--format", "{{json .RootFS.Layers}}", image],
        doing="docker image inspect",
        timeout_s=ANSWER_TIMEOUT_S,
        check=False,
    )
    return tuple(json.loads(done.stdout)) if done.returncode == 0 else None


def archive(layout: Layout, progress: Progress, *, tag: str | None) -> Iterator[bytes]:
    """The docker-archive stream of a layout (the format of ``docker save``), layers uncompressed and verified."""
    name = f"{layout.manifest.config.hex}.json"
    paths = []
    done, total = 0, sum(layer.size for layer in layout.layers)
    for number, layer in enumerate(layout.layers):
        path = f"{number:02}-{layer.diff_id.removeprefix('sha256:')}/layer.tar"
        paths.append(path)
        progress.advance(f"layer {layer.name}, bytes", done, total)
        yield from _layer(layout, layer, path)
        done += layer.size
    manifest = [{"Config": name, "RepoTags": [tag] if tag else None, "Layers": paths}]
    documents = [content(name, layout.config_bytes), content("manifest.json", json.dumps(manifest).encode())]
    yield from tar_chunks(documents)


def _layer(layout: Layout, layer: ImageLayer, name: str) -> Iterator[bytes]:
    blob = layout.blob(layer)
    size = left = _tar_bytes(layout, layer)
    yield header(Member(name, "file", 0o644, size=size))
    for piece in verified_tar(blob, layer.codec, layer.diff_id):
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise CheckFailed(f"{blob}: not the {size} bytes the manifest says", fix="build the image again")
    yield bytes(-size % BLOCK)


def _tar_bytes(layout: Layout, layer: ImageLayer) -> int:
    if layer.tar_bytes is None:
        raise InputError(
            f"{layout.path}: layer {layer.name} does not say its unpacked size ({TAR_BYTES_KEY})",
            fix="load a layout that `orbit image build` wrote",
        )
    return layer.tar_bytes
