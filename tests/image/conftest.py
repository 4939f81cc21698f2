"""Fixtures of the image stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Entry, Store
from orbit.image import build
from orbit.image.blob import Codec
from orbit.image.build import ImageResult, build_image
from orbit.profile.model import Profile
from tests.image.world import PROFILE, Kernels, make_checkout, make_environment, make_small_base

BuildSmall = Callable[..., ImageResult]


@pytest.fixture
def build_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildSmall:
    """Build the small image: ``build_small(store, environment=..., root=..., out=..., codec=...)``."""
    monkeypatch.setattr(build, "make_base", lambda *_args, **_rest: make_small_base(tmp_path / "base"))

    def run(
        store: Store,
        *,
        environment: Entry | None = None,
        root: Path | None = None,
        out: Path | None = None,
        codec: Codec = "zstd",
        profile: Profile = PROFILE,
    ) -> ImageResult:
        return build_image(
            profile,
            root or make_checkout(tmp_path / "checkout"),
            environment or make_environment(store),
            Kernels(),
            store,
            out=out or tmp_path / "image",
            progress=Silent(),
            codec=codec,
        )

    return run
