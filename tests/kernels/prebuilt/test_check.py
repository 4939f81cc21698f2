"""orbit.kernels.prebuilt.check: the wrong file is not read; nothing that could not be asked counts as passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, MissingError
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.prebuilt import judge
from orbit.kernels.prebuilt.check import verify_wheel
from orbit.kernels.recipe import Recipe
from orbit.profile.lock import Lock
from orbit.profile.model import load_profile
from tests.audit.support import TODAY
from tests.kernels.prebuilt import made


def check(recipe: Recipe, wheel: Path, lock: Lock) -> BuildManifest:
    profile = load_profile("probe")
    manifest, findings = verify_wheel(recipe, wheel, profile, lock, environment=None, progress=Silent(), today=TODAY)
    assert findings == ()
    return manifest


def test_the_wrong_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise AssertionError("the wheel was read")

    monkeypatch.setattr(judge, "read_wheels", refuse)
    wheel = made.published(tmp_path)
    with pytest.raises(CheckFailed, match="the lock says"):
        check(made.recipe(), wheel, made.lock_of(wheel, sha256="f" * 64))


def test_what_it_is_loaded_with_was_not_asked_and_the_manifest_says_so(tmp_path: Path) -> None:
    wheel = made.published(tmp_path)
    verified = check(made.recipe(), wheel, made.lock_of(wheel)).verified
    assert verified is not None
    assert verified.symbols == {}
    assert {"undefined-symbol", "cxx11-abi", "symbol-version"} <= {skip.what for skip in verified.skipped}


def test_probes_need_something_to_compile_with(tmp_path: Path) -> None:
    wheel = made.published(tmp_path, {"thing/_C.so": made.generator_bytes(), "thing/include/thing/x.cuh": b"//"})
    recipe = made.recipe(mode="jit", jit=made.USE, probes=(made.HOPPER,), device_units=0, artifacts=("thing/_C.so",))
    with pytest.raises(MissingError, match="nothing to compile its probes with"):
        check(recipe, wheel, made.lock_of(wheel))
