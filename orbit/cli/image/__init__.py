"""Images: built without a container engine, looked into, compared, checked, and taken where they are needed.

``build`` makes the OCI layout of a profile on the packages of ``base``, ``slim`` makes it smaller; ``context`` and
``tree`` are the way through docker's own builder. ``inspect``, ``sbom``, ``diff`` and ``smoke`` are about a finished
image; ``push``, ``pull``, ``load`` and ``export`` take it where it is needed. Page: docs/image.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_actions, run_action
from orbit.errors import InputError

COPIED = {"docker-archive": "docker-archive", "docker-daemon": "docker-daemon", "podman": "containers-storage"}
"""Images that `orbit audit` and `orbit image inspect` read as they are, and what skopeo calls their kind."""
HELP = "build, inspect, compare, check, slim and carry the image"
ACTIONS = {
    "build": "lockfile -> kernels -> environment -> OCI layout; what is there is reused",
    "base": "the packages every image stands on: show, check, refresh, fetch, export",
    "inspect": "layers and what fills them: distributions, packages, device code; a page with a treemap",
    "sbom": "bill of materials (CycloneDX, SPDX), licences, and whether all of it is there",
    "diff": "what differs between two images, down to file, ELF section and kernel, and why",
    "push": "a layout into a registry; only what is not there, resumed after a broken connection",
    "pull": "an image from a registry into a layout; every byte checked, resumed after a broken connection",
    "load": "put a layout into docker, podman or containerd",
    "export": "an image as one file: oci-archive, docker-archive, squashfs, sif",
    "slim": "the image without device code that no target loads, and what that saved",
    "smoke": "run the profile's checks inside the image",
    "context": "make a folder in which docker builds the same image from containers/Dockerfile",
    "tree": "what the image has below its prefix, as a folder (used by the Dockerfile)",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action


IMAGE = "an OCI layout, an archive (docker save), or docker-daemon:NAME, podman:NAME"
"""The help of an argument that takes any image."""


def add_layout_argument(parser: argparse.ArgumentParser, *, default: str = "") -> None:
    """LAYOUT, the same everywhere; it may be left out where a ``default`` is said."""
    text = f"the image: a folder that is an OCI layout{default and f' (default: {default})'}"
    parser.add_argument("layout", type=layout_named, metavar="LAYOUT", nargs="?" if default else None, help=text)


def layout_named(spec: str) -> Path:
    """The layout's folder: a path, also as ``oci:PATH``. Raises :class:`InputError` for what names no layout."""
    kind, colon, name = spec.partition(":")
    if not colon or Path(spec).exists():
        return Path(spec)
    if kind in COPIED:
        raise InputError(
            f"{spec}: this command needs an OCI layout, which is a folder",
            fix=f"make one: skopeo copy {COPIED[kind]}:{name} oci:DIR",
        )
    return Path(name) if kind == "oci" else Path(spec)


def default_layout(profile: str) -> Path:
    """Where the image of a profile is written, and read from, when nothing else is said."""
    return Path("dist") / f"image-{profile}"
