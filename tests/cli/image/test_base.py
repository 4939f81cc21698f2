"""``orbit image base``: a whole archive in miniature behind the real command line."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.errors import ExitCode
from orbit.image.base import definition, lock, refresh
from tests.image.base.archive import (
    CHOSEN,
    SECURITY,
    TOYS,
    Server,
    Signer,
    Toy,
    direct,
    locked,
    serving,
    signer,
    write_dists,
    write_pool,
)

TOML = """schema = 2
distribution = "debian"
suites = ["toy", "toy-updates", "toy-security"]
variant = "essential"
packages = ["hello"]
"""

Run = Callable[..., tuple[int, str]]


@dataclass(frozen=True)
class World:
    """A signed archive behind a server, named in ORBIT_DEBIAN, and a data folder with base.toml."""

    data: Path
    pool: Path
    server: Server
    key: Signer

    def publish(self, *toys: Toy) -> None:
        write_pool(self.pool, *toys)
        for suite in ("toy", "toy-updates", "toy-security"):
            write_dists(self.pool, suite, *(toy for toy in toys if suite in toy.suites))
            self.key.sign(self.pool, suite)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    direct(monkeypatch)
    data, pool = tmp_path / "containers", tmp_path / "mirror"
    data.mkdir()
    (data / "base.toml").write_text(TOML)
    for module in (definition, lock):
        monkeypatch.setattr(module, "data_file", lambda *parts: data / parts[-1])
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    with (
        tempfile.TemporaryDirectory(prefix="orbit-gpg-") as home,
        signer(Path(home) / "h") as key,
        serving(pool) as server,
    ):
        monkeypatch.setattr(refresh, "KEYRING", key.keyring)
        monkeypatch.setenv("ORBIT_DEBIAN", server.url)
        made = World(data=data, pool=pool, server=server, key=key)
        made.publish(*TOYS)
        yield made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Status and everything that was said; with --json what came to stdout."""

    def call(*words: str) -> tuple[int, str]:
        status = main(["image", "base", *words])
        said = capsys.readouterr()
        return status, said.out if "--json" in words else said.out + said.err

    return call


def test_the_life_of_a_lock(world: World, run: Run) -> None:
    assert run("show")[0] == ExitCode.USAGE
    status, said = run("refresh", "--dry-run")
    assert (status, (world.data / "base.lock").exists()) == (0, False)
    assert "3 added" in said
    status, said = run("refresh")
    assert (status, (world.data / "base.lock").exists()) == (0, True)
    status, said = run("refresh")
    assert (status, "no package changes" in said) == (0, True)
    status, said = run("show")
    assert status == 0
    assert all(toy.name in said for toy in CHOSEN)
    assert run("check")[0] == 0
    world.publish(*TOYS, Toy("hello", "1:2.10-3+toy1", depends="libhello1", suites=(SECURITY,)))
    status, said = run("check")
    assert status == ExitCode.FINDINGS
    assert "security" in said
    status, said = run("refresh", "--json")
    (change,) = json.loads(said)["changes"]
    assert (change["name"], change["kind"], change["security"]) == ("hello", "upgraded", True)
    assert run("check")[0] == 0


def test_fetch_and_export_for_a_machine_without_network(
    world: World,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run("refresh")
    status, said = run("fetch", "--dry-run")
    assert (status, "3 of 3 packages would be fetched" in said) == (0, True)
    out = tmp_path / "stick"
    status, said = run("export", str(out), "--dry-run")
    assert (status, f"{out}: 3 of 3 packages would be written" in said) == (0, True)
    assert "3 of 3 packages would be fetched" in said
    assert said.endswith("nothing was changed\n")
    assert not out.exists()
    assert run("export", str(out))[0] == 0
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "other"))
    monkeypatch.setenv("ORBIT_DEBIAN", "http://127.0.0.1:9/debian")
    assert run("fetch")[0] == ExitCode.MISSING
    monkeypatch.setenv("ORBIT_SOURCES", str(out))
    status, said = run("fetch", "--json")
    assert status == 0
    assert json.loads(said)["fetched"] == sorted(locked(toy).file for toy in CHOSEN)
    status, said = run("check", "--offline")
    assert (status, "3 store" in said) == (0, True)


def test_a_changed_definition_makes_the_lock_stale(world: World, run: Run) -> None:
    run("refresh")
    (world.data / "base.toml").write_text(TOML.replace('"hello"', '"hello", "nothing"'))
    for step in ("show", "check", "fetch"):
        status, said = run(step)
        assert status == ExitCode.USAGE
        assert "the lock is stale" in said
        assert "orbit image base refresh" in said
    status, said = run("refresh")
    assert status == ExitCode.USAGE
    assert "nothing" in said


def test_a_package_that_is_gone_is_exit_3_and_one_that_lies_is_exit_2(world: World, run: Run) -> None:
    run("refresh")
    world.server.faults["hello_2.10-3_all.deb"] = "missing"
    status, said = run("fetch")
    assert status == ExitCode.MISSING
    assert "pool/main/h/hello/hello_2.10-3_all.deb" in said
    world.server.faults["hello_2.10-3_all.deb"] = "wrong"
    status, said = run("fetch")
    assert status == ExitCode.USAGE
    assert "it was not used" in said


def test_a_tampered_archive_changes_no_lock(world: World, run: Run) -> None:
    run("refresh")
    before = (world.data / "base.lock").read_bytes()
    path = world.pool / "dists" / SECURITY / "InRelease"
    path.write_text(path.read_text().replace("Version: 1.2", "Version: 6.6"))
    for step in ("refresh", "check"):
        status, said = run(step)
        assert status == ExitCode.USAGE
        assert "not what Debian signed" in said
    assert (world.data / "base.lock").read_bytes() == before


def test_an_image_has_no_packages_to_lock(world: World, run: Run) -> None:
    (world.data / "base.toml").write_text(f'schema = 2\nimage = "registry.example/x@sha256:{"1" * 64}"\n')
    for step in ("show", "refresh"):
        status, said = run(step)
        assert (status, "its digest is its lock" in said) == (ExitCode.USAGE, True)


def test_the_shipped_lock_is_shown(run: Run) -> None:
    status, said = run("show", "--json")
    assert status == 0
    assert {"gcc", "libc6"} <= {package["name"] for package in json.loads(said)["packages"]}
