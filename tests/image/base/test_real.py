"""The real base, of real packages: equal bytes twice and in a user namespace, nothing of the host inside, kills.

Needs mmdebstrap and the locked packages: from ``ORBIT_SOURCES``, a mirror in ``ORBIT_DEBIAN``, or the host's archive.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import MissingError
from orbit.image.base import Base, load_base, make_base
from orbit.image.base.fetch import find_places, obtain_packages
from orbit.image.base.lock import read_base_lock
from orbit.image.base.make import make_root
from orbit.image.tar import EPOCH_S

pytestmark = [pytest.mark.integration, pytest.mark.network]

VARIABLES = {name: os.environ.get(name, "") for name in ("ORBIT_SOURCES", "ORBIT_DEBIAN", "http_proxy", "https_proxy")}
"""Of the caller: the other tests of this folder do without."""


@pytest.fixture(autouse=True)
def _as_the_caller_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        if value:
            monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def big_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    store = Store(tmp_path_factory.mktemp("store"))
    definition = load_base("base")
    try:
        obtain_packages(read_base_lock("base", definition), store, find_places(definition), Silent())
    except MissingError as error:
        pytest.skip(f"the locked packages cannot be had here: {error.what.splitlines()[0]}")
    return store


@pytest.fixture(scope="module")
def real_base(big_store: Store) -> Base:
    try:
        return make_base("base", big_store, progress=Silent())
    except MissingError as error:
        pytest.skip(f"the base cannot be made here: {error.what}")


def test_a_second_run_without_any_place_gives_the_same_bytes(
    real_base: Base, big_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    definition = load_base("base")
    lock = read_base_lock("base", definition)
    debs = obtain_packages(lock, big_store, (), Silent())
    again = make_root(definition, lock, debs, tmp_path / "root.tar", Store(tmp_path / "other"))
    assert again.packages == real_base.packages
    assert again.sha256 == real_base.sha256
    assert list((tmp_path / "other" / "base").iterdir()) == []


def test_its_packages_are_those_of_the_lock(real_base: Base) -> None:
    lock = read_base_lock("base", load_base("base"))
    assert {(each.name, each.version, each.source, each.source_version) for each in real_base.packages} == {
        (each.name, each.version, each.source, each.source_version) for each in lock.packages
    }


def test_no_certificate_of_the_host_is_inside(real_base: Base, tmp_path: Path) -> None:
    """The host's bundle minus Debian's own certificates: none of the rest may be in the base."""
    bundle = next((Path(p) for p in (os.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt") if p), None)
    if bundle is None or not bundle.is_file():
        pytest.skip("the host has no certificate bundle")
    with tarfile.open(real_base.tar) as archive:
        handle = archive.extractfile("etc/ssl/certs/ca-certificates.crt")
        assert handle is not None
        inside = certificates(handle.read())
        assert [name for name in archive.getnames() if name.startswith("usr/local/share/ca-certificates/")] == []
    assert len(inside) > 100
    debian = tmp_path / "debian"
    shipped = subprocess.run(
        ["sh", "-c", f"cat /usr/share/ca-certificates/*/*.crt > {debian} 2>/dev/null"], check=False
    )
    extra = certificates(bundle.read_bytes()) - (
        certificates(debian.read_bytes()) if shipped.returncode == 0 else set()
    )
    if not extra:
        pytest.skip("the host trusts nothing that Debian does not")
    raw = real_base.tar.read_bytes()
    assert extra.isdisjoint(inside)
    for certificate in extra:
        assert certificate.splitlines()[1] not in raw


def certificates(data: bytes) -> set[bytes]:
    return set(re.findall(rb"-----BEGIN CERTIFICATE-----\n.*?-----END CERTIFICATE-----", data, re.DOTALL))


def test_the_real_base_is_readable_by_all_and_names_no_host(real_base: Base) -> None:
    host = os.uname().nodename.encode()
    with tarfile.open(real_base.tar) as archive:
        for info in archive:
            assert (info.uid, info.gid, info.mtime) == (0, 0, EPOCH_S)
            assert info.issym() or info.mode & 0o444 == 0o444
            assert not info.mode & 0o6000
            assert not info.isdev()
        names = set(archive.getnames())
    assert {"etc/hostname", "etc/resolv.conf"}.isdisjoint(names)
    assert {"usr/bin/gcc", "usr/bin/g++", "etc/ssl/certs/ca-certificates.crt", "bin", "lib64"} <= names
    assert "usr/bin/usrmerge" not in names
    assert [name for name in names if name.startswith("etc/apt/sources")] == ["etc/apt/sources.list.d"]
    raw = real_base.tar.read_bytes()
    assert b"orbit-base." not in raw
    assert b"trusted=yes" not in raw
    if len(host) > 6:
        assert host not in raw


def test_no_link_of_the_real_base_leads_nowhere(real_base: Base) -> None:
    with tarfile.open(real_base.tar) as archive:
        links = {info.name: info.linkname for info in archive if info.issym()}
        names = set(archive.getnames())

    def real(path: str, depth: int = 0) -> str:
        """The path with every link in it followed, as in a root file system."""
        assert depth < 40, path
        here = ""
        for part in path.strip("/").split("/"):
            here = os.path.normpath(f"{here}/{part}").strip("/") if part != ".." else os.path.dirname(here)
            if here in links:
                target = links[here]
                here = real(target if target.startswith("/") else f"{os.path.dirname(here)}/{target}", depth + 1)
        return here

    nowhere = {name for name in links if (place := real(name)) not in names and not place.startswith(("proc/", "dev/"))}
    assert nowhere == set()
