"""The files of a lock: remembered, local or asked for; never twice, never wrongly, and without network at once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.audit.locks import lock_wheels
from orbit.audit.locks.lock_wheels import Read, Reader, lock_environment, one_of_each
from orbit.core.console import Silent
from orbit.profile.lock import Artifact, Package, Source
from orbit.profile.model import load_profile
from tests.audit.locks.test_sdist import SETUP, tar
from tests.writers.web import WebServer, serving
from tests.writers.wheels import write_wheel

REGISTRY = Source(kind="registry", url="https://index.invalid/simple")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        yield running


def artifact(data: bytes, name: str, url: str) -> Artifact:
    return Artifact(url=url, filename=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data))


def served(folder: Path, server: WebServer, *names: str) -> tuple[Package, ...]:
    """Packages whose wheels only the server has."""
    packages = []
    for name in names:
        path = write_wheel(folder / "served", name, {f"{name}.py": name.encode()})
        data = path.read_bytes()
        server.files[f"/{path.name}"] = data
        found = artifact(data, path.name, f"{server.url}/{path.name}")
        packages.append(Package(name=name, version="1.0", source=REGISTRY, wheels=(found,)))
    return tuple(packages)


def read(folder: Path, *packages: Package, cache: bool = True, offline: bool = False, wheels: str = "") -> Read:
    folders = [folder / wheels] if wheels else []
    memory = folder / "cache" if cache else None
    reader = Reader(folder / "uv.lock", cache=memory, folders=folders, offline=offline, progress=Silent())
    return reader.run(packages)


def test_asked_for_once_then_remembered(tmp_path: Path, server: WebServer) -> None:
    packages = served(tmp_path, server, "a", "b")
    first = read(tmp_path, *packages)
    assert (sorted(first.wheels), first.requests, first.remembered) == (
        ["a-1.0-py3-none-any.whl", "b-1.0-py3-none-any.whl"], 2, 0,
    )  # fmt: skip
    assert first.bytes == len(b"".join(server.files.values()))
    second = read(tmp_path, *packages, offline=True)
    assert (second.wheels, second.requests, second.remembered, second.unread) == (first.wheels, 0, 2, {})


def test_offline_nothing_is_asked_and_everything_told(tmp_path: Path, server: WebServer) -> None:
    found = read(tmp_path, *served(tmp_path, server, "a"), offline=True)
    assert (found.wheels, server.seen) == ({}, [])
    assert "--offline" in found.unread["a-1.0-py3-none-any.whl"]


def test_from_a_folder_without_network(tmp_path: Path, server: WebServer) -> None:
    found = read(tmp_path, *served(tmp_path, server, "a"), offline=True, wheels="served")
    assert (len(found.wheels), found.local, server.seen) == (1, 1, [])


def test_a_wheel_of_another_content_is_not_taken_for_the_locks(tmp_path: Path, server: WebServer) -> None:
    packages = served(tmp_path, server, "a")
    write_wheel(tmp_path / "mine", "a", {"a.py": b"another build"})
    found = read(tmp_path, *packages, wheels="mine")
    assert "is not the lock's" in found.broken["a-1.0-py3-none-any.whl"]
    assert found.wheels == {}


def test_a_path_beside_the_lock(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "wheels", "a", {})
    found = artifact(path.read_bytes(), path.name, f"wheels/{path.name}")
    source = Source(kind="path", url=found.url)
    package = Package(name="a", version="1.0", source=source, wheels=(found,))
    assert read(tmp_path, package, offline=True).local == 1


def test_what_the_server_lacks_or_has_otherwise(tmp_path: Path, server: WebServer) -> None:
    packages = served(tmp_path, server, "a", "b", "c")
    server.files["/b-1.0-py3-none-any.whl"] += b"x"
    server.files["/c-1.0-py3-none-any.whl"] = b"x" * len(server.files["/c-1.0-py3-none-any.whl"])
    del server.files["/a-1.0-py3-none-any.whl"]
    found = read(tmp_path, *packages)
    assert found.unread == {"a-1.0-py3-none-any.whl": "the server answers 404"}
    assert "the lock says" in found.broken["b-1.0-py3-none-any.whl"]
    assert "no end record" in found.broken["c-1.0-py3-none-any.whl"]


def test_without_network_it_gives_up_soon(tmp_path: Path) -> None:
    packages = [
        Package(
            name=f"p{number}",
            version="1.0",
            source=REGISTRY,
            wheels=(artifact(b"", f"p{number}-1.0-py3-none-any.whl", "http://127.0.0.1:1/x.whl"),),
        )
        for number in range(60)
    ]
    found = read(tmp_path, *packages)
    assert (len(found.unread), found.requests) == (60, 0)
    assert sum(reason.startswith("no network: ") for reason in found.unread.values()) > 30


def test_a_server_that_never_ends_its_answers_does_not_hold_the_audit_up(
    tmp_path: Path, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = served(tmp_path, server, *(f"p{number}" for number in range(20)))
    monkeypatch.setattr(lock_wheels, "DEADLINE_S", 0.3)
    server.fault = "slow"
    began = time.monotonic()
    found = read(tmp_path, *packages)
    assert time.monotonic() - began < 10
    assert len(found.unread) == 20
    assert all(reason.endswith("the servers took too long") for reason in found.unread.values())


def sdist_package(server: WebServer, data: bytes, **changes: object) -> Package:
    server.files["/x-1.0.tar.gz"] = data
    fields = {"url": f"{server.url}/x-1.0.tar.gz", "filename": "x-1.0.tar.gz", "size": len(data)}
    fields |= {"sha256": hashlib.sha256(data).hexdigest(), **changes}
    return Package(name="x", version="1.0", source=REGISTRY, sdist=Artifact(**fields))  # type: ignore[arg-type]


def test_source_archives_are_read_whole_checked_and_remembered(tmp_path: Path, server: WebServer) -> None:
    package = sdist_package(server, tar(setup__DOT__py=SETUP))
    assert read(tmp_path, package).sdists["x-1.0.tar.gz"].hollow
    again = read(tmp_path, package, offline=True)
    assert (again.sdists["x-1.0.tar.gz"].hollow, again.unread) == (True, {})


@pytest.mark.parametrize(
    ("changes", "where", "words"),
    [
        ({"sha256": "0" * 64}, "broken", "is not the lock's"),
        ({"size": 0}, "unread", "not stated"),
        ({"size": 1 << 40}, "unread", "64 MB at most"),
        ({"url": "ftp://127.0.0.1/x"}, "unread", "no URL"),
    ],
)
def test_source_archives_that_are_not_read(
    tmp_path: Path, server: WebServer, changes: dict[str, object], where: str, words: str
) -> None:
    found = read(tmp_path, sdist_package(server, tar(setup__DOT__py=SETUP), **changes), cache=False)
    assert words in getattr(found, where)["x-1.0.tar.gz"]
    assert found.sdists == {}


def test_the_environment_has_every_package_by_name(tmp_path: Path, server: WebServer) -> None:
    packages = (*served(tmp_path, server, "a"), Package(name="b-c", version="2.0", source=REGISTRY))
    env = lock_environment(packages, read(tmp_path, *packages).wheels, load_profile("probe"))
    assert (env.kind, [(dist.name, dist.version, len(dist.rows)) for dist in env.dists]) == (
        "wheels", [("a", "1.0", 4), ("b-c", "2.0", 0)],
    )  # fmt: skip
    assert "lib/python3.12/site-packages/a.py" in env.tree.entries


def test_one_version_of_each_package() -> None:
    versions = [Package(name="t", version=version, source=REGISTRY) for version in ("1.0", "2.0")]
    chosen, others = one_of_each([*versions, Package(name="u", version="1.0", source=REGISTRY)])
    assert [(package.name, package.version) for package in chosen] == [("t", "2.0"), ("u", "1.0")]
    assert others == {"t": ("1.0",)}
