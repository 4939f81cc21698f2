"""Fixtures of the registry client: a registry that obeys and misbehaves, an image, nobody logged in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.image.registry.session import Patience
from orbit.image.registry.transport import Transport
from tests.image.registry.fake import FakeRegistry, serving
from tests.writers.tiny_image import file, folder, write_image

QUICK = Patience(tries=4, first_s=0.0, longest_s=0.0)


@pytest.fixture(autouse=True)
def _nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials and no proxies of the machine, a store of the test's own."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-docker"))
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A registry that serves."""
    with serving(FakeRegistry()) as server:
        yield server


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An image of two layers; the upper one has 300 kB that do not compress."""
    data = random.Random(5).randbytes(300_000)
    return write_image(
        tmp_path / "layout", [[folder("etc"), file("etc/a", b"a" * 5000)], [file("b", data)]],
        config={"Env": ["A=b"], "Cmd": None},
    )  # fmt: skip


@pytest.fixture
def transport() -> Iterator[Transport]:
    """Connections that are closed at the end."""
    found = Transport()
    yield found
    found.close()
