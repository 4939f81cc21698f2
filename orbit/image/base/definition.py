"""What a base is to be: ``containers/<name>.toml``, read and checked.

There are two kinds: a root file system made of Debian packages (which ones exactly says ``containers/<name>.lock``),
and an image that exists already, named by its digest.
"""

from __future__ import annotations

import os
import re
from typing import Literal

from orbit.core.paths import data_file
from orbit.core.records import Record, content_key, load_toml
from orbit.errors import InputError

SCHEMA = 2
ARCHITECTURE = "amd64"
PINNED = re.compile(r"(?P<place>.+)@(?P<digest>sha256:[0-9a-f]{64})")
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
"""Of a package: Debian Policy 5.6.1. A suite has the same characters."""


class BaseDefinition(Record, frozen=True, kw_only=True):
    """``containers/<name>.toml``."""

    schema: int
    distribution: Literal["", "debian"] = ""
    """Empty for an image."""
    suites: tuple[str, ...] = ()
    """Code names. The first is the release, the others are taken from too: updates, security."""
    components: tuple[str, ...] = ("main",)
    variant: Literal["essential", "minbase"] = "minbase"
    """What is there beside ``packages``: those marked essential; minbase: also apt and those of priority required."""
    packages: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    """Shell patterns over paths that stay although ``drop`` names them."""
    drop: tuple[str, ...] = ()
    """Shell patterns over paths that are left out (``*`` also matches slashes)."""
    keep_links: tuple[str, ...] = ()
    """Shell patterns over symbolic links that stay although ``drop`` names them (here ``*`` matches no slash)."""
    files: dict[str, str] = {}
    """Text files of our own by their path in the image; one that a package has, too, is replaced."""
    image: str = ""
    """``NAME@sha256:...`` in a registry, or ``oci:FOLDER@sha256:...``: an OCI layout on disk."""

    @property
    def suite(self) -> str:
        """The release."""
        return self.suites[0]

    @property
    def resolved_from(self) -> str:
        """sha256 over everything that decides which packages a lock holds. Patterns of paths do not."""
        return content_key(
            {
                "architecture": ARCHITECTURE,
                "components": sorted(self.components),
                "packages": sorted(self.packages),
                "suites": list(self.suites),
                "variant": self.variant,
            }
        )


def load_base(name: str) -> BaseDefinition:
    """Read ``containers/<name>.toml``. Raises :class:`InputError` for anything that cannot be made, or not surely."""
    path = data_file("containers", f"{name}.toml")
    definition = load_toml(path, BaseDefinition)
    if definition.schema != SCHEMA:
        raise InputError(
            f"{path}: schema {definition.schema} is not known", fix=f"this version of orbit reads schema {SCHEMA}"
        )
    if definition.image:
        _check_image(definition, str(path))
    else:
        _check_debian(definition, str(path))
    return definition


def _check_image(definition: BaseDefinition, path: str) -> None:
    given = [
        key
        for key in ("distribution", "suites", "packages", "keep", "drop", "keep_links", "files")
        if getattr(definition, key)
    ]
    if given:
        raise InputError(f"{path}: image and {', '.join(given)}", fix="an image is taken as it is: keep one of the two")
    if not PINNED.fullmatch(definition.image):
        raise InputError(
            f"{path}: image = {definition.image!r} has no digest",
            fix="a tag can mean another image tomorrow: write NAME@sha256:... (64 hex digits)",
        )


def _check_debian(definition: BaseDefinition, path: str) -> None:
    if not definition.distribution:
        raise InputError(f"{path}: neither distribution nor image", fix='write distribution = "debian", or an image')
    for key in ("suites", "components", "packages"):
        names: tuple[str, ...] = getattr(definition, key)
        if not names:
            raise InputError(f"{path}: {key} is empty", fix="list what the image needs")
        for name in names:
            if not NAME.fullmatch(name):
                raise InputError(f"{path}: {key}: {name!r} is no name", fix="lower-case letters, digits, + . -")
        if len(set(names)) != len(names):
            raise InputError(f"{path}: {key}: a name stands there twice", fix="take one of them out")
    for name in definition.files:
        if os.path.normpath(name) != name or name.startswith(("/", "..")) or name == ".":
            raise InputError(f"{path}: files: {name!r} is no path in the image", fix="write it without a leading slash")
