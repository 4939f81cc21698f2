"""Putting a layout into a docker engine: a docker-archive stream made on the fly, nothing written in between.

The engine's own release may be old (20.10 reads neither OCI layouts nor zstd), so layers go in as plain tar. They are
checked while they stream: a damaged layer stops the load before anything gets a name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from orbit.core import proc
from orbit.core.amounts import format_bytes
from orbit.core.console import BYTES, Progress
from orbit.core.files import require_free
from orbit.core.records import Record
from orbit.errors import CheckFailed, CommandFailed, MissingError
from orbit.image.blob import read_tar, verified_tar
from orbit.image.damage import damaged_blob
from orbit.image.oci import ImageLayer, Layout, read_layout
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

    kind: str = "docker"
    """``docker``, ``podman`` or ``containerd``."""
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

    Raises :class:`MissingError` without an engine or when it goes away meanwhile, :class:`DamagedImage` for a
    damaged layer, :class:`CheckFailed` when the engine ends up with something else and :class:`RefusedError` when its
    disk is too small.
    """
    layout = read_layout(path)
    engine = require_engine()
    image = layout.manifest.config.digest
    known = _inspect(engine, image) is not None
    if not known:
        sizes = tar_sizes(layout, progress)
        if Path(engine.root).is_dir():
            # the engine keeps the stream beside the unpacked layers until it is done
            require_free(Path(engine.root), 2 * sum(sizes.values()), "docker load")
        progress.step(f"docker {engine.version}: loading {format_bytes(sum(sizes.values()))}")
        try:
            proc.run(
                [engine.client, "load"],
                doing="docker load",
                stdin=archive(layout, progress, tag=None, sizes=sizes),
                fix="run the same command again; nothing has the name",
            )
        except CommandFailed as failure:
            if isinstance(reason := find_engine(), str):
                raise MissingError(
                    f"the docker engine went away while {path} was loaded ({reason})",
                    fix="when it is back, run the same command again; nothing has the name",
                ) from failure
            raise
    proc.run([engine.client, "tag", image, tag], doing="docker tag", fix="run `orbit image load` again")
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


def tar_sizes(layout: Layout, progress: Progress) -> dict[str, int]:
    """Digest -> bytes of the unpacked layer. A layer whose layout does not say is unpacked once to count them."""
    sizes = {}
    for layer in layout.layers:
        size = layer.tar_bytes
        if size is None:
            progress.step(f"layer {layer.name}: counting its bytes, the layout does not say")
            size = sum(len(piece) for piece in read_tar(layout.blob(layer), layer.codec))
        sizes[layer.digest] = size
    return sizes


def archive(
    layout: Layout, progress: Progress, *, tag: str | None, sizes: Mapping[str, int] | None = None
) -> Iterator[bytes]:
    """The docker-archive stream of a layout (the format of ``docker save``), layers uncompressed and verified.

    ``sizes``: those of :func:`tar_sizes`, where the caller has them already.
    """
    sizes = tar_sizes(layout, progress) if sizes is None else sizes
    name = f"{layout.manifest.config.hex}.json"
    paths = []
    done, total = 0, sum(layer.size for layer in layout.layers)
    for number, layer in enumerate(layout.layers):
        path = f"{number:02}-{layer.diff_id.removeprefix('sha256:')}/layer.tar"
        paths.append(path)
        progress.advance("loading layers", done, total, BYTES)
        yield from _layer(layout, layer, path, sizes[layer.digest])
        done += layer.size
    manifest = [{"Config": name, "RepoTags": [tag] if tag else None, "Layers": paths}]
    documents = [content(name, layout.config_bytes), content("manifest.json", json.dumps(manifest).encode())]
    yield from tar_chunks(documents)


def _layer(layout: Layout, layer: ImageLayer, name: str, size: int) -> Iterator[bytes]:
    blob = layout.blob(layer)
    left = size
    yield header(Member(name, "file", 0o644, size=size))
    for piece in verified_tar(blob, layer.codec, layer.diff_id):
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise damaged_blob(blob, f"unpacked it has not the {size} bytes the manifest says", layer=layer.name)
    yield bytes(-size % BLOCK)
