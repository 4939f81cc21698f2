"""Images that are wrong must fail, each with the check that is there for it, in every engine of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.image.smoke import run as smoke
from orbit.image.smoke.engine import Choice
from orbit.image.smoke.report import SmokeReport
from orbit.smoke.model import SmokeList
from tests.image.smoke.real import NEGATIVE, PLAN, PROFILE, real_image

pytestmark = pytest.mark.integration
ENGINES = ("bubblewrap", "unshare", "podman", "docker")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    name = str(request.param)
    (finder,) = smoke.FINDERS[name]
    found = finder()
    if not isinstance(found, Choice):
        pytest.skip(found)
    yield name
    if name in smoke.LOADING:
        tag = f"{PROFILE.image.name}:negative"
        subprocess.run([found.program, *found.words, "image", "rm", "-f", tag], capture_output=True, check=False)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Image by name, each written once for all engines; the empty name is the sound one."""
    folder = tmp_path_factory.mktemp("images")

    def written(name: str) -> Path:
        layout = folder / (name.replace(" ", "-") or "sound")
        return layout if layout.exists() else real_image(layout, NEGATIVE[name][0] if name else list)

    return written


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store for all: the layers that are the same are unpacked once."""
    return Store(tmp_path_factory.mktemp("store"))


def smoked(
    layout: Path, store: Store, engine: str, monkeypatch: pytest.MonkeyPatch, plan: SmokeList = PLAN
) -> SmokeReport:
    monkeypatch.setattr(smoke, "load_list", lambda _name: plan)
    monkeypatch.setattr(smoke, "SMOKE_TAG", "negative")
    return smoke.run_smoke(PROFILE, layout, ["real"], store, engine=engine, progress=Silent())


def failures(report: SmokeReport) -> dict[str, str]:
    return {result.check: result.detail for run in report.runs for result in run.results if result.result == "failed"}


def test_the_sound_image_passes(
    engine: str, images: Callable[[str], Path], shared_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = smoked(images(""), shared_store, engine, monkeypatch)
    assert failures(report) == {}
    checks = [result.check for result in report.runs[0].results]
    assert checks[:6] == ["start", "tree", "caches", "contract", "import", "audit"]


@pytest.mark.parametrize("name", NEGATIVE)
def test_each_wrong_image_fails_with_its_check(
    engine: str, name: str, images: Callable[[str], Path], shared_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _change, check, says = NEGATIVE[name]
    asked = tuple(item for item in PLAN.checks if item.name == check)
    plan = replace(PLAN, checks=asked or PLAN.checks[-1:])
    if name == "a link out of the image" and engine not in smoke.LOADING:
        with pytest.raises(InputError, match="above the image's root"):  # not even unpacked
            smoked(images(name), shared_store, engine, monkeypatch, plan)
        return
    found = failures(smoked(images(name), shared_store, engine, monkeypatch, plan))
    assert check in found, found
    assert says in found[check]
