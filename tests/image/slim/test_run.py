"""The plain and the slim image of one environment, and what is said of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image import build
from orbit.image.oci import read_layout
from orbit.image.slim.report import render
from orbit.image.slim.run import slim_image, slim_plan
from tests.image.slim.trees import ANY, profile, sealed_environment
from tests.image.world import Kernels, make_checkout, make_small_base


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "make_base", lambda *_args, **_rest: make_small_base(tmp_path / "base"))
    return make_checkout(tmp_path / "checkout")


def test_only_layers_with_slimmed_files_differ(store: Store, checkout: Path, tmp_path: Path) -> None:
    report = slim_image(
        profile(ANY), checkout, sealed_environment(store), Kernels(), store, out=tmp_path / "slim", progress=Silent()
    )
    assert report.digest == read_layout(tmp_path / "slim").digest != report.plain_digest
    changed = {layer.name for layer in report.layers if layer.unpacked_before != layer.unpacked_after}
    assert changed == {"stack", "interpreter"}  # the library; environment.json and slim.json
    stack = next(layer for layer in report.layers if layer.name == "stack")
    assert stack.unpacked_after < stack.unpacked_before
    assert report.disk_after < report.disk_before
    text = render(report)
    assert "some_kernels/fat.so" in text
    assert "sm_80" in text
    assert "licence: " in text
    assert report.digest in text


def test_the_profile_switch_makes_the_same_image(store: Store, checkout: Path, tmp_path: Path) -> None:
    environment = sealed_environment(store)
    report = slim_image(profile(ANY), checkout, environment, Kernels(), store, out=tmp_path / "slim", progress=Silent())
    built = build.build_image(
        profile(ANY), checkout, environment, Kernels(), store, out=tmp_path / "built", progress=Silent()
    )
    plain = build.build_image(
        profile(), checkout, environment, Kernels(), store, out=tmp_path / "plain", progress=Silent()
    )
    assert (built.digest, plain.digest) == (report.digest, report.plain_digest)


def test_a_plan_makes_no_image(store: Store) -> None:
    report = slim_plan(profile(ANY), sealed_environment(store), progress=Silent())
    assert (report.layers, report.digest, report.pull_ratio) == ((), "", 1.0)
    assert report.slim.changed[0].sha256 == ""
    assert "nothing was changed" in render(report)
