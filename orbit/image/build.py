"""The image of a profile: base, environment by layers, Orbit itself, as an OCI layout. No daemon, no copy of the tree.

Layers come from the store by their content (:mod:`orbit.image.content`), whichever environment or image they were
written for. What is missing is written with at most two layers at a time.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orbit.core.console import Progress
from orbit.core.files import remove_tree
from orbit.core.records import Record
from orbit.core.store import Entry, Store
from orbit.env.activate import conditions_of
from orbit.env.record import EnvironmentRecord, read_environment
from orbit.errors import RefusedError
from orbit.image.base import Base, base_chunks, make_base
from orbit.image.blob import Codec, codec_identity
from orbit.image.cache import Request, Stream, obtain_layers
from orbit.image.content import (
    Planned,
    list_environment,
    members_key,
    plan_layers,
    planned,
    recall,
    remember,
    remembered_digests,
)
from orbit.image.layout_writer import NamedLayer, image_documents, write_layout
from orbit.image.own import OwnFiles, layer_members, read_own
from orbit.image.runtime import Identity, image_labels, run_config
from orbit.image.slim.tree import slim_environment
from orbit.image.tar import Member, tar_chunks, with_parents
from orbit.profile.model import Profile

FORMAT = 2
"""Bumped when the bytes of a layer change for equal inputs."""


class Wheelhouse(Protocol):
    """What the image needs to know of the kernels (:class:`orbit.kernels.build.Wheelhouse` has more)."""

    @property
    def manifest_hash(self) -> str:
        """Hash over the build manifests of all kernels."""


class LayerResult(Record, frozen=True, kw_only=True):
    """One layer of a built image."""

    name: str
    digest: str
    diff_id: str
    size: int
    """Bytes to pull."""
    tar_bytes: int
    """Bytes of the unpacked stream."""
    files: int
    reused: bool


class ImageResult(Record, frozen=True, kw_only=True):
    """A built image."""

    layout: Path
    digest: str
    """Of the manifest, ``sha256:...``."""
    config: str
    """Digest of the configuration: the image id docker shows."""
    layers: tuple[LayerResult, ...]
    debian_packages: int


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What the layers of one image are made from."""

    profile: Profile
    root: Path
    environment: Entry
    record: EnvironmentRecord
    base: Base
    own: OwnFiles
    codec: Codec
    store: Store
    progress: Progress

    @property
    def prefix(self) -> Path:
        """The environment's tree."""
        return self.environment.path / "prefix"


def build_image(
    profile: Profile,
    root: Path,
    environment: Entry,
    wheelhouse: Wheelhouse,
    store: Store,
    *,
    out: Path,
    progress: Progress,
    codec: Codec = "zstd",
) -> ImageResult:
    """Build the image of ``profile`` into the OCI layout ``out``. Equal inputs give an equal digest anywhere.

    With ``[image.slim]`` in the profile it holds the environment without device code that no target loads.

    Raises :class:`MissingError` without mmdebstrap or packages of the base, :class:`InputError` for a stale base.lock,
    :class:`RefusedError` when the environment changes meanwhile, :class:`InputError` when it holds what an image must
    not.
    """
    if (policy := profile.image.slim) is not None:
        environment = slim_environment(profile, environment, store, policy=policy, progress=progress)
    made = _Inputs(
        profile=profile,
        root=root,
        environment=environment,
        record=read_environment(environment.path / "prefix"),
        base=make_base(profile.image.base, store, progress=progress),
        own=read_own(root),
        codec=codec,
        store=store,
        progress=progress,
    )
    requests = [*_base_request(made), *_environment_requests(made), _own_request(made)]
    below = [(layer, made.base.reused) for layer in made.base.layers]
    layers = [*below, *obtain_layers(requests, store, progress)]
    identity = Identity(
        lock=made.record.lock,
        environment=made.record.identity,
        python=made.record.python,
        kernels=wheelhouse.manifest_hash,
        base=made.base.sha256,
        orbit=made.own.key,
    )
    labels = image_labels(profile, identity)
    run = run_config(profile, labels, has=conditions_of(made.prefix))
    manifest, config = image_documents([layer for layer, _ in layers], run, labels)
    digest = write_layout(out, [layer for layer, _ in layers], manifest, config, ref=profile.image.name)
    return ImageResult(
        layout=out,
        digest=digest,
        config=f"sha256:{hashlib.sha256(config).hexdigest()}",
        layers=tuple(_result(layer, reused) for layer, reused in layers),
        debian_packages=len(made.base.packages),
    )


def _base_request(made: _Inputs) -> tuple[Request, ...]:
    """The layer of a base that is no image; an image has its own."""
    base = made.base
    if base.tar is None:
        return ()
    size = base.tar.stat().st_size

    def stream() -> Stream:
        return Stream(chunks=base_chunks(base), files=base.files, size=size, diff_id=f"sha256:{base.sha256}")

    inputs = {"format": FORMAT, "tar": base.sha256, "codec": codec_identity(made.codec)}
    return (Request("base", made.codec, inputs, stream),)


def _environment_requests(made: _Inputs) -> list[Request]:
    """The environment's layers that hold anything. Its files are looked at once, and planned only when need be."""
    policy = made.profile.image
    listing = list_environment(made.prefix)

    @functools.cache
    def plan() -> dict[str, list[Member]]:
        known = remembered_digests(listing, made.profile.python, made.store.root / "facts")
        return plan_layers(listing, policy, progress=made.progress, remembered=known)

    layers = recall(listing, policy, made.store)
    if layers is None:
        layers = tuple(planned(name, members) for name, members in plan().items())
        remember(listing, policy, made.store, layers)

    def stream(layer: Planned) -> Stream:
        members = plan()[layer.name]
        if members_key(members) != layer.members:
            raise RefusedError(
                f"{made.prefix}: changed while its layers were planned ({layer.name})",
                fix="stop whatever writes to that tree and run the same command again",
            )
        return _members_stream(members)

    return [
        Request(
            layer.name,
            made.codec,
            {"format": FORMAT, "members": layer.members, "codec": codec_identity(made.codec)},
            functools.partial(stream, layer),
        )
        for layer in layers
        if layer.files
    ]


def _own_request(made: _Inputs) -> Request:
    at = made.profile.image.prefix

    def stream() -> Stream:
        scratch = made.store.scratch("own")
        try:
            return _members_stream(layer_members(made.own, made.prefix, at, scratch, progress=made.progress))
        finally:
            remove_tree(scratch)

    inputs = {
        "format": FORMAT,
        "own": made.own.key,
        "interpreter": made.record.interpreter,
        "prefix": at,
        "codec": codec_identity(made.codec),
    }
    return Request("orbit", made.codec, inputs, stream)


def _members_stream(members: Sequence[Member]) -> Stream:
    ordered = with_parents(members)
    files = sum(member.kind != "dir" for member in ordered)
    return Stream(chunks=tar_chunks(ordered), files=files, size=sum(member.size for member in ordered))


def _result(layer: NamedLayer, reused: bool) -> LayerResult:
    blob = layer.blob
    return LayerResult(
        name=layer.name,
        digest=blob.digest,
        diff_id=blob.diff_id,
        size=blob.size,
        tar_bytes=blob.tar_bytes,
        files=blob.files,
        reused=reused,
    )
