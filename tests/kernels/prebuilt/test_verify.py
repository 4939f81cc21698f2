"""orbit.kernels.prebuilt.verify: a manifest for what was not compiled here; remembered; each broken twin refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from orbit.audit.archives.wheels import read_wheels
from orbit.audit.rules.coverage import build_manifest
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import CheckFailed, ExitCode, MissingError
from orbit.kernels.prebuilt import verify
from orbit.kernels.prebuilt.listing import PACKAGE
from orbit.kernels.prebuilt.verify import VerifiedWheel, ensure_verified, known_manifest
from orbit.kernels.recipe import Recipe
from orbit.profile.lock import Lock
from orbit.profile.model import load_profile
from tests.audit.support import TODAY, make_policy
from tests.kernels.prebuilt import made
from tests.kernels.prebuilt.test_jit import SOUND
from tests.writers.wheels import write_wheel


@pytest.fixture
def at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel, in the folder that ORBIT_SOURCES names."""
    monkeypatch.setenv("ORBIT_SOURCES", str(tmp_path / "sources"))
    return made.published(tmp_path / "sources")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    return made.build_environment(tmp_path / "env")


def ensure(
    store: Store, lock: Lock, environment: Path | Callable[[], Path], recipe: Recipe | None = None, **more: dt.date
) -> VerifiedWheel:
    given = environment if callable(environment) else lambda: environment
    today = more.get("today", TODAY)
    profile = load_profile("probe")
    return ensure_verified(recipe or made.recipe(), profile, lock, store, Silent(), environment=given, today=today)


def test_a_sound_wheel_has_a_manifest_that_says_what_it_was_held_against(
    store: Store, at_hand: Path, environment: Path
) -> None:
    wheel = ensure(store, made.lock_of(at_hand), environment)
    manifest = wheel.manifest
    assert Path(wheel.path).read_bytes() == at_hand.read_bytes()
    assert (manifest.mode, manifest.requested, manifest.units, manifest.shim) == ("prebuilt", (), (), "")
    assert [(binary.file, binary.coverage) for binary in manifest.found] == [
        ("thing/_C.abi3.so", {"sm_100a+sm_90a": 2})
    ]
    assert manifest.verified is not None
    assert manifest.verified.symbols == {"torch 2.11.0": 1}
    assert manifest.verified.modules == ("thing._C",)
    assert manifest.source.kind == "wheel"


def test_the_answer_is_remembered_and_nothing_is_read_again(store: Store, at_hand: Path, environment: Path) -> None:
    def refuse() -> Path:
        raise AssertionError("the build environment was asked for")

    lock = made.lock_of(at_hand)
    first = ensure(store, lock, environment)
    again = ensure(store, lock, refuse)
    assert (first.reused, again.reused) == (False, True)
    assert again.manifest == first.manifest


def test_what_is_known_can_be_asked_without_doing_anything(store: Store, at_hand: Path, environment: Path) -> None:
    lock, profile = made.lock_of(at_hand), load_profile("probe")
    assert known_manifest(made.recipe(), profile, lock, store) is None
    today = dt.datetime.now(dt.UTC).date()
    found = ensure(store, lock, environment, today=today)
    assert known_manifest(made.recipe(), profile, lock, store) == found.manifest


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.setattr(verify, "code_hash", lambda: "other code"),
        lambda m: m.setattr(verify, "tree_hash", lambda _path: "other expectations"),
        lambda m: m.setattr(verify, "closure_hash", lambda _lock, _group: "another build environment"),
    ],
)
def test_whatever_the_answer_depends_on_makes_it_new(
    store: Store, at_hand: Path, environment: Path, monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch], None],
) -> None:  # fmt: skip
    lock = made.lock_of(at_hand)
    ensure(store, lock, environment)
    change(monkeypatch)
    assert not ensure(store, lock, environment).reused


def test_estimates_do_not_matter_and_artifacts_do(store: Store, at_hand: Path, environment: Path) -> None:
    lock = made.lock_of(at_hand)
    ensure(store, lock, environment)
    assert ensure(store, lock, environment, made.recipe(memory_gib=7.0, tier="extended")).reused
    assert not ensure(store, lock, environment, made.recipe(artifacts=("thing/*.so",))).reused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"artifacts": ("thing/_flash.*.so",)}, "kernel-artifact thing: no file matches thing/_flash.*.so"),
        ({"device_units": 3}, "kernel-units thing: 2 fatbin containers in the wheel, the recipe says 3"),
    ],
)
def test_a_wheel_without_what_its_recipe_says_is_refused(
    store: Store, at_hand: Path, environment: Path, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(CheckFailed) as caught:
        ensure(store, made.lock_of(at_hand), environment, made.recipe(**changes))
    assert caught.value.code is ExitCode.FINDINGS
    assert words in caught.value.what
    assert not (store.root / "entries" / verify.KIND).exists()


@pytest.mark.parametrize(
    ("module", "rule"),
    [
        (made.extension(made.BOTH, made.container("sm_80", "sm_90a")), "arch-coverage"),
        (made.extension(made.BOTH, made.BOTH, symbol="_ZN2at9gone_awayEv"), "undefined-symbol"),
    ],
)
def test_a_wheel_for_other_gpus_or_another_torch_is_refused(
    store: Store, tmp_path: Path, environment: Path, monkeypatch: pytest.MonkeyPatch, module: bytes, rule: str
) -> None:
    monkeypatch.setenv("ORBIT_SOURCES", str(tmp_path))
    wheel = made.published(tmp_path, {"thing/__init__.py": b"", "thing/_C.abi3.so": module})
    with pytest.raises(CheckFailed, match=f"  {rule} thing/_C"):
        ensure(store, made.lock_of(wheel), environment)


def test_an_sdist_beside_no_wheel_is_exit_3_and_never_compiled(store: Store, environment: Path) -> None:
    with pytest.raises(MissingError, match="an sdist only"):
        ensure(store, made.lock_of(None, sdist=True), environment)
    assert not store.root.exists()


def test_the_audit_s_comparison_with_manifests_takes_it(store: Store, at_hand: Path, environment: Path) -> None:
    manifest = ensure(store, made.lock_of(at_hand), environment).manifest
    facts = read_wheels((at_hand,), load_profile("probe"), Silent())
    record = msgspec.json.encode({"kernels": [manifest]})
    held = replace(facts, texts={"share/orbit/environment.json": record})
    assert list(build_manifest.check(held, make_policy())) == []
    other = msgspec.structs.replace(manifest.found[0], coverage={"sm_90a": 2})
    record = msgspec.json.encode({"kernels": [msgspec.structs.replace(manifest, found=(other,))]})
    held = replace(facts, texts={"share/orbit/environment.json": record})
    assert [finding.rule for finding in build_manifest.check(held, make_policy())] == ["build-manifest"]


def test_a_package_that_compiles_at_run_time(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "thing/__init__.py": b"", "thing/_C.so": made.generator_bytes(), "thing/include/thing/product.cuh": b"//",
    }  # fmt: skip
    wheel = made.published(tmp_path / "sources", files)
    tool = made.disassembler(tmp_path / "nvdisasm", "HGMMA R1", "UTCHMMA R1").read_bytes()
    reader = write_wheel(tmp_path / "sources", PACKAGE, {"nvidia/cu13/bin/nvdisasm": tool}, tags=[made.TAG])
    prefix = made.build_environment(tmp_path / "env")
    made.toolkit(prefix / "lib" / "python3.12" / "site-packages", cubins=SOUND)
    monkeypatch.setenv("ORBIT_SOURCES", str(tmp_path / "sources"))
    recipe = made.recipe(
        mode="jit", jit=made.USE, probes=(made.HOPPER, made.BLACKWELL), device_units=0, artifacts=("thing/_C.so",)
    )
    lock = made.lock_of(wheel, made.package(PACKAGE, reader))
    found = ensure(store, lock, prefix, recipe)
    assert found.manifest.jit is not None
    assert [probe.arch for probe in found.manifest.jit.probes] == ["sm_90a", "sm_100f"]
    assert list((store.root / "tmp").iterdir()) == []
    assert ensure(store, lock, prefix, recipe).reused
