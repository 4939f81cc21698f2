"""What is known of an image that a manifest names, beside what the manifest says."""

from __future__ import annotations

import importlib.metadata
import re

from orbit.core.paths import checkout_root
from orbit.core.records import Record
from orbit.errors import InputError, MissingError
from orbit.profile.lock import read_lock

RAY_REPOSITORY = re.compile(r"(^|/)rayproject/(ray|ray-ml|ray-llm)$")
RAY_TAG = re.compile(r"^(\d+\.\d+\.\d+)")
PYTHON_TAG = re.compile(r"(?:^|[-_.])py(\d{2,3})(?=$|[-_.])")
DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")


class Known(Record, frozen=True, kw_only=True):
    """Facts about the image that the caller has: from its lock, its labels, or a flag."""

    image: str = ""
    """Digest (``sha256:...``) of the image that the facts are of; empty: of any image that does not say otherwise."""
    ray: str = ""
    """Version of Ray in it; empty: not known."""
    sure: bool = False
    """Whether ``ray`` is that of every image named; otherwise it is that of Orbit's own images (the lock's)."""
    uid: int | None = None
    """The image's user; None: not known."""
    entry_point: str = ""
    """The image's entry point, where one must not be left out."""


class Reference(Record, frozen=True, kw_only=True):
    """An image reference, taken apart."""

    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def ray(self) -> str:
        """Version of Ray that the tag of one of the Ray project's own images states."""
        match = RAY_TAG.match(self.tag) if RAY_REPOSITORY.search(self.repository) else None
        return match[1] if match else ""

    @property
    def python(self) -> str:
        """``310``, as a tag says it."""
        match = PYTHON_TAG.search(self.tag)
        return match[1] if match else ""

    @property
    def is_own(self) -> bool:
        """Whether the repository is called ``orbit``."""
        return any(part == "orbit" or part.startswith("orbit-") for part in self.repository.split("/"))


def reference(text: str) -> Reference:
    """``registry:5000/team/orbit:1@sha256:...`` in parts. A path of a file (``.sif``) is a repository alone."""
    for scheme in ("docker://", "oci://", "docker-daemon://"):
        text = text.removeprefix(scheme)
    enroot = text[-72:]
    if enroot.startswith(":") and DIGEST.match(enroot[1:]):
        text = f"{text[:-72]}@{enroot[1:]}"
    name, _, digest = text.partition("@")
    head, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        return Reference(repository=head, tag=tag, digest=digest)
    return Reference(repository=name, digest=digest)


def known_image(ray_version: str = "", *, image: str = "", uid: int | None = None) -> Known:
    """What is known without being told: Ray's version in the lock that Orbit's images are made of, or where Orbit runs.

    ``ray_version`` is that of every image (a flag); ``image`` and ``uid`` are those of a job that was rendered here.
    """
    if ray_version:
        return Known(image=image, ray=ray_version, sure=True, uid=uid)
    return Known(image=image, ray=_own_ray(), sure=bool(image), uid=uid)


def _own_ray() -> str:
    """From ``uv.lock``; in an installed copy, as in an image, of the Ray beside it. Empty where there is neither."""
    try:
        found = [
            package.version for package in read_lock(checkout_root() / "uv.lock").packages if package.name == "ray"
        ]
        return found[0] if len(found) == 1 else ""
    except (InputError, MissingError):
        pass
    try:
        return importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return ""


def is_file(text: str) -> bool:
    """Whether an image is a file or a folder of the node, not something of a registry."""
    named = text.startswith(("/", "./", "../", "$")) and "://" not in text
    return named or text.endswith((".sif", ".sqsh", ".squashfs"))


def image_uid(known: Known, text: str) -> int | None:
    """The user an image runs as, where it is known."""
    found = reference(text)
    if known.uid is not None and (known.image in ("", found.digest)):
        return known.uid
    return 1000 if RAY_REPOSITORY.search(found.repository) else None
