"""Manifests as registries give them: the image of one platform out of an index, docker's types as OCI's.

Types: OCI image specification 1.1, and docker's "Image Manifest Version 2, Schema 2". A docker manifest says the same
with other words; as OCI it has another digest, while configuration and layers keep theirs.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from orbit.core.records import Record
from orbit.errors import CheckFailed, InputError, MissingError
from orbit.image.blob import CODEC_OF
from orbit.image.oci import (
    CONFIG_TYPE,
    DOCUMENT_BYTES_MAX,
    INDEX_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    Manifest,
    encode,
)
from orbit.image.registry.reference import DIGEST
from orbit.image.registry.session import Registry

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
ACCEPT = ", ".join((MANIFEST_TYPE, INDEX_TYPE, DOCKER_MANIFEST, DOCKER_LIST))
LAYER_BASE, DOCKER_BASE = "application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar"
OCI_OF = {
    DOCKER_CONFIG: CONFIG_TYPE,
    DOCKER_BASE: LAYER_BASE,
    f"{DOCKER_BASE}.gzip": f"{LAYER_BASE}+gzip",
    f"{DOCKER_BASE}.zstd": f"{LAYER_BASE}+zstd",
}
PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9]+(/[a-z0-9.]+)?")
LIE_FIX = "the registry, or something between here and it, gives other content than it says: do not trust it"
IMAGE_FIX = "this is not an image that Orbit can read"


class _Platform(msgspec.Struct, frozen=True):
    os: str = ""
    architecture: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    digest: str
    media_type: str = ""
    platform: _Platform = _Platform()


class _Any(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str = ""
    manifests: tuple[_Entry, ...] = ()


class RemoteImage(Record, frozen=True, kw_only=True):
    """The manifest of one image in a registry."""

    digest: str
    """Of the manifest as the registry has it."""
    media_type: str
    manifest: Manifest
    """With OCI's media types."""
    data: bytes
    """The OCI manifest's bytes: the registry's own unless it was docker's."""
    index: str = ""
    """The digest of the index it was chosen from."""

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Configuration and layers, each digest once."""
        found = {item.digest: item for item in (self.manifest.config, *self.manifest.layers)}
        return tuple(found.values())


def read_remote(registry: Registry, platform: str) -> RemoteImage:
    """The image that the registry's reference names, for ``platform`` (``OS/ARCHITECTURE[/VARIANT]``): of several the
    one for it, and a single one only if its configuration says it is for that platform, or nothing.

    Raises :class:`MissingError` when it is not there (for that platform), :class:`CheckFailed` when what comes has not
    the digest asked for, and :class:`InputError` for what is no image.
    """
    if not PLATFORM.fullmatch(platform):
        raise InputError(f"{platform!r}: not a platform", fix="write OS/ARCHITECTURE, for example linux/amd64")
    digest, media_type, data = fetch_manifest(registry, registry.reference.wanted)
    index = ""
    if media_type in (INDEX_TYPE, DOCKER_LIST):
        index = digest
        wanted = _choose(registry, data, platform)
        digest, media_type, data = fetch_manifest(registry, wanted)
    where = f"{registry.reference}: manifest {digest}"
    if media_type not in (MANIFEST_TYPE, DOCKER_MANIFEST):
        raise InputError(f"{where}: of type {media_type or 'unknown'!r}", fix=IMAGE_FIX)
    manifest = as_oci(_decode(data, Manifest, where))
    _check(manifest, where)
    found = _platform_of(registry, manifest.config)
    if not _fits(found, platform):
        raise _none_for(registry, platform, str(found))
    if media_type == DOCKER_MANIFEST:
        data = encode(manifest)
    return RemoteImage(digest=digest, media_type=media_type, manifest=manifest, data=data, index=index)


def as_oci(manifest: Manifest) -> Manifest:
    """A manifest with OCI's media types for docker's; everything else as it is."""
    return msgspec.structs.replace(
        manifest,
        media_type=MANIFEST_TYPE,
        config=_as_oci(manifest.config),
        layers=tuple(_as_oci(layer) for layer in manifest.layers),
    )


def _as_oci(item: Descriptor) -> Descriptor:
    return msgspec.structs.replace(item, media_type=OCI_OF.get(item.media_type, item.media_type))


def fetch_manifest(registry: Registry, wanted: str) -> tuple[str, str, bytes]:
    """(digest, media type, bytes) of a manifest, by tag or digest; :class:`CheckFailed` when the digest is another."""
    url = registry.url(f"manifests/{wanted}")
    with registry.call("GET", url, expect=(200,), scopes=registry.scopes(), headers={"Accept": ACCEPT}) as response:
        data = response.read(DOCUMENT_BYTES_MAX + 1)
        told, kind = response.headers.get("Docker-Content-Digest", ""), response.headers.get("Content-Type", "")
    if len(data) > DOCUMENT_BYTES_MAX:
        raise InputError(f"{registry.reference}: a manifest of more than {DOCUMENT_BYTES_MAX} bytes", fix=IMAGE_FIX)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    asked = wanted if ":" in wanted else told
    if asked and asked != digest:
        raise CheckFailed(
            f"{registry.reference}: the manifest that came is {digest}, not {asked}",
            fix=LIE_FIX,
        )
    inner = _decode(data, _Any, f"{registry.reference}: manifest {digest}").media_type
    return digest, inner or kind.partition(";")[0].strip(), data


def _choose(registry: Registry, data: bytes, platform: str) -> str:
    """The digest of the entry of an index for ``platform``."""
    entries = _decode(data, _Any, f"{registry.reference}: index").manifests
    found = [entry for entry in entries if platform in (str(entry.platform), _short(entry.platform))]
    if not found:
        known = ", ".join(sorted({str(entry.platform) or "unnamed" for entry in entries})) or "none"
        raise _none_for(registry, platform, known)
    if not DIGEST.fullmatch(found[0].digest):
        raise InputError(f"{registry.reference}: index names {found[0].digest!r}", fix=IMAGE_FIX)
    return found[0].digest


def _none_for(registry: Registry, platform: str, known: str) -> MissingError:
    return MissingError(f"{registry.reference}: has no image for {platform}", fix=f"it has: {known} (--platform)")


def _platform_of(registry: Registry, config: Descriptor) -> _Platform:
    """What a configuration says the image is for. It is small, and comes before anything large does."""
    url = registry.url(f"blobs/{config.digest}")
    with registry.call("GET", url, expect=(200,), scopes=registry.scopes()) as response:
        data = response.read(config.size + 1)
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != config.digest:
        raise CheckFailed(f"{registry.reference}: what came for {config.digest} is not that", fix=LIE_FIX)
    return _decode(data, _Platform, f"{registry.reference}: configuration {config.digest}")


def _fits(found: _Platform, platform: str) -> bool:
    """Whether nothing in ``found`` contradicts ``platform``; what a configuration leaves out is not held against it."""
    wanted = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))
    return all(getattr(found, name) in ("", value) for name, value in wanted.items())


def _short(platform: _Platform) -> str:
    return f"{platform.os}/{platform.architecture}"


def _decode[T](data: bytes, kind: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{where}: {error}", fix=IMAGE_FIX) from None


def _check(manifest: Manifest, where: str) -> None:
    """Everything that decides whether a transfer makes sense."""
    if manifest.config.media_type != CONFIG_TYPE:
        raise InputError(f"{where}: configuration of type {manifest.config.media_type!r}", fix=IMAGE_FIX)
    if manifest.config.size > DOCUMENT_BYTES_MAX:
        raise InputError(f"{where}: configuration of {manifest.config.size} bytes", fix=IMAGE_FIX)
    for item in (manifest.config, *manifest.layers):
        if not DIGEST.fullmatch(item.digest):
            raise InputError(f"{where}: names {item.digest!r}, not sha256 and 64 hex digits", fix=IMAGE_FIX)
    for layer in manifest.layers:
        if layer.media_type not in CODEC_OF:
            raise InputError(f"{where}: layer of type {layer.media_type!r}", fix=f"known: {', '.join(CODEC_OF)}")
