"""The main job on the small profile, for real: compiler, environment, audit, base, image, smoke.

One ``ship`` in an empty cache is shared by all tests of this module; it takes about a minute or two on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit.core.paths import checkout_root
from tests.pythons import require_copyable

pytestmark = pytest.mark.integration

DEAD_PROXY = "http://127.0.0.1:9"


def orbit(*args: str, cache: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "orbit", *args],
        env=os.environ | {"ORBIT_CACHE": str(cache)} | env,
        capture_output=True,
        text=True,
        check=False,
    )


class Shipped:
    """A cache and a dist folder in which the probe image was shipped once."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.dist = folder / "dist"
        self.first = self.ship()

    def ship(self, *args: str, **env: str) -> dict[str, Any]:
        done = orbit("ship", "--profile", "probe", "--dist", str(self.dist), "--json", *args, cache=self.cache, **env)
        assert done.returncode == 0, done.stderr[-4000:]
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary

    def stage(self, summary: dict[str, Any], name: str) -> dict[str, Any]:
        return next(stage for stage in summary["stages"] if stage["stage"] == name)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    for program in ("mmdebstrap", "bwrap"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    require_copyable()
    folder = tmp_path_factory.mktemp("main-job")
    yield Shipped(folder)
    shutil.rmtree(folder, ignore_errors=True)


def test_every_stage_passed_and_left_evidence(shipped: Shipped) -> None:
    summary = shipped.first
    assert [(s["stage"], s["result"]) for s in summary["stages"]] == [
        (name, "passed")
        for name in ("lock", "kernels", "environment", "audit", "image", "image-audit", "sbom", "smoke")
    ]
    folder = shipped.dist / summary["run"]
    assert (folder / "image" / "oci-layout").is_file()
    assert (shipped.dist / "probe").resolve() == folder.resolve()
    assert summary["image_digest"] in (folder / "summary.md").read_text() + (folder / "summary.json").read_text()
    smoke = shipped.stage(summary, "smoke")["outputs"]
    assert smoke["passed"] > 0
    assert smoke["failed"] == 0


def test_second_run_does_nothing_and_says_so(shipped: Shipped) -> None:
    summary = shipped.ship()
    assert summary["image_digest"] == shipped.first["image_digest"]
    reused = {s["stage"]: s["reused"] for s in summary["stages"] if s["stage"] != "lock"}
    assert all(reused.values()), reused


def test_another_cache_gives_the_same_image(shipped: Shipped, tmp_path: Path) -> None:
    done = orbit(
        "ship", "--profile", "probe", "--dist", str(tmp_path / "dist"), "--no-smoke", "--json", cache=tmp_path / "cache"
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["image_digest"] == shipped.first["image_digest"]


def test_an_edit_of_orbit_changes_only_its_layer(shipped: Shipped, tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    root = checkout_root()
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".uv", "dist", "*_cache", "__pycache__"))
    with (copy / "orbit" / "errors.py").open("a") as file:
        file.write("\n# edited\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "orbit",
            "ship",
            "--profile",
            "probe",
            "--dist",
            str(tmp_path / "d"),
            "--no-smoke",
            "--json",
        ],
        cwd=copy,
        env=os.environ | {"ORBIT_CACHE": str(shipped.cache), "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    before = shipped.stage(shipped.first, "image")["outputs"]["layers"]
    after = shipped.stage(json.loads(done.stdout), "image")["outputs"]["layers"]
    assert {name for name in before if before[name] != after[name]} == {"orbit"}


def test_a_damaged_cache_is_noticed_and_mended(shipped: Shipped) -> None:
    wheel = next(shipped.cache.glob("entries/wheel/*/*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-1])
    summary = shipped.ship("--no-smoke")
    assert not shipped.stage(summary, "kernels")["reused"]
    assert summary["image_digest"] == shipped.first["image_digest"]


def test_two_runs_at_once_are_refused(shipped: Shipped, tmp_path: Path) -> None:
    holder = (
        "import sys, time; from pathlib import Path; from orbit.core.store import Store\n"
        "with Store(Path(sys.argv[1])).writer('orbit ship'): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(shipped.cache)], stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            done = orbit("ship", "--profile", "probe", "--dist", str(tmp_path), cache=shipped.cache)
        finally:
            other.kill()
    assert done.returncode == 4
    assert f"process {other.pid}" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_network_is_a_sentence(tmp_path: Path) -> None:
    """An empty home has no package cache, and a dead proxy stands for a machine without network."""
    offline = {"https_proxy": DEAD_PROXY, "http_proxy": DEAD_PROXY, "no_proxy": ""}
    offline |= {name.upper(): value for name, value in offline.items()}
    offline |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    done = orbit("ship", "--profile", "probe", "--dist", str(tmp_path / "dist"), cache=tmp_path / "cache", **offline)
    assert done.returncode == 3, done.stderr[-2000:]
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dist_below_a_file(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = orbit("ship", "--profile", "probe", "--dist", str(blocked / "dist"), cache=tmp_path / "cache")
    assert done.returncode == 2, done.stderr[-2000:]
    assert str(blocked) in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_profile(tmp_path: Path) -> None:
    done = orbit("ship", "--profile", "cu999", cache=tmp_path)
    assert done.returncode == 2
    assert "cu130" in done.stderr


def bases_mounted() -> set[str]:
    """Mount points inside root file systems under construction."""
    places = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    return {place for place in places if "mmdebstrap" in place}


def test_killed_and_run_again(shipped: Shipped, tmp_path: Path) -> None:
    """Three kills in an empty cache, then the same digest. tests/bench/kill_ship.py does twenty."""
    argv = [sys.executable, "-m", "orbit", "ship", "--profile", "probe", "--dist", str(tmp_path / "dist"), "--no-smoke"]
    env = os.environ | {"ORBIT_CACHE": str(tmp_path / "cache")}
    before = bases_mounted()
    for after_s in (2.0, 9.0, 25.0):
        child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(after_s)
        child.kill()
        child.wait()
    assert bases_mounted() <= before, "a killed run left something mounted"
    done = orbit(*argv[3:], "--json", cache=tmp_path / "cache")
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["image_digest"] == shipped.first["image_digest"]
