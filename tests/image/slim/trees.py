"""A small environment with one library that has something to lose, one that must not be touched, and one without."""

from __future__ import annotations

from pathlib import Path

import msgspec

from orbit.core.store import Entry, Store
from orbit.env import tree
from orbit.env.contents import hash_files, write_contents
from orbit.profile.model import Profile, SlimPolicy
from tests.image.slim.test_plan import FAT
from tests.image.slim.world import TARGETS, Library
from tests.image.world import PROFILE, dist, environment_files, make_environment, recorded

ANY = SlimPolicy(unproved=True)


def profile(slim: SlimPolicy | None = None) -> Profile:
    """The small profile with the targets of the tests."""
    image = msgspec.structs.replace(PROFILE.image, slim=slim)
    return msgspec.structs.replace(PROFILE, targets=TARGETS, image=image)


def files() -> dict[str, bytes]:
    """The small stack with libraries."""
    fat = Library([FAT, FAT]).write()
    found = environment_files()
    found |= dist("some-kernels", "1.0", {"some_kernels/fat.so": fat, "some_kernels/plain.so": b"\x7fELF no"})
    found |= dist("nvidia-cudnn-cu13", "9.0", {"nvidia/cudnn/lib/libcudnn_ops.so.9": fat})
    return recorded(found)


def sealed_environment(store: Store) -> Entry:
    """An entry as ``orbit env create`` leaves one: sealed, with manifest and contents."""
    entry = make_environment(store, files())
    seal(entry.path)
    return entry


def seal(place: Path) -> None:
    """Modes, times, manifest and contents of an entry's prefix."""
    sealed = tree.seal(place / "prefix")
    tree.write_lines(place / tree.MANIFEST, sealed.lines)
    write_contents(place, hash_files(place / "prefix", sealed.own))
