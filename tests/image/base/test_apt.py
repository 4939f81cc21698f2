"""The host's apt as a tool: its archives, the signatures it checks, what it says when something is wrong."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.errors import CommandFailed, InputError, MissingError
from orbit.image.base import apt
from orbit.image.base.apt import Archive, Repository, acquire_options, host_repositories
from tests.image.base.archive import DEFINITION, SUITE, TOYS, Server, Signer, write_dists

ONE = replace(DEFINITION, suites=(SUITE,))


@pytest.fixture
def signed(pool: Path, key: Signer) -> Path:
    """The archive with one suite, signed."""
    write_dists(pool, SUITE, *TOYS)
    key.sign(pool, SUITE)
    return pool


def read(folder: Path, url: str, keyring: Path, *, expired: bool = False) -> Archive:
    archive = Archive(folder / "apt", ONE, keyring=keyring, expired=expired)
    archive.update([Repository(url=f"{url}/", suite=SUITE)])
    return archive


def test_a_signed_archive_is_read(tmp_path: Path, signed: Path, mirror: Server, key: Signer) -> None:
    archive = read(tmp_path, mirror.url, key.keyring)
    assert archive.choose(["hello"]) == {"hello": "1:2.10-3", "libhello1": "1.0-1+toy1"}
    ((suite, index),) = archive.indexes()
    assert suite == SUITE
    assert index.read_bytes() == (signed / "dists" / SUITE / "main/binary-amd64/Packages").read_bytes()
    assert (archive.release(SUITE)["Version"], archive.release(SUITE)["Label"]) == ("1.2", "Toy")


def test_nothing_of_the_hosts_own_packages_enters(tmp_path: Path, signed: Path, mirror: Server, key: Signer) -> None:
    archive = read(tmp_path, mirror.url, key.keyring)
    with pytest.raises(InputError, match="cannot be installed together") as caught:
        archive.choose(["dpkg"])
    assert "dpkg" in caught.value.what


def tampered_release(pool: Path) -> None:
    path = pool / "dists" / SUITE / "InRelease"
    path.write_text(path.read_text().replace("Version: 1.2", "Version: 6.6"))


def tampered_index(pool: Path) -> None:
    path = pool / "dists" / SUITE / "main" / "binary-amd64" / "Packages"
    path.write_text(path.read_text().replace("2.10-3", "2.10-4"))


def longer_index(pool: Path) -> None:
    path = pool / "dists" / SUITE / "main" / "binary-amd64" / "Packages"
    path.write_text(path.read_text() + "\nPackage: more\nVersion: 1\n")


def unsigned(pool: Path) -> None:
    (pool / "dists" / SUITE / "InRelease").unlink()


def signature_of_another_text(pool: Path) -> None:
    """A valid signature, of a Release file that does not list this index."""
    write_dists(pool, SUITE, TOYS[0])


@pytest.mark.parametrize(
    "tamper", [tampered_release, tampered_index, longer_index, unsigned, signature_of_another_text]
)
def test_what_was_not_signed_is_refused(
    tmp_path: Path, signed: Path, mirror: Server, key: Signer, tamper: object
) -> None:
    assert callable(tamper)
    tamper(signed)
    with pytest.raises(InputError, match="not what Debian signed; nothing of it was used") as caught:
        read(tmp_path, mirror.url, key.keyring)
    assert "ORBIT_DEBIAN" in caught.value.fix


def test_a_key_that_is_not_debians_is_refused(tmp_path: Path, signed: Path, mirror: Server, key: Signer) -> None:
    if not apt.KEYRING.is_file():
        pytest.skip("the package debian-archive-keyring is not installed")
    with pytest.raises(InputError, match="not what Debian signed"):
        read(tmp_path, mirror.url, apt.KEYRING)


def test_an_old_copy_is_refused_unless_it_is_asked_for(
    tmp_path: Path, signed: Path, mirror: Server, key: Signer
) -> None:
    write_dists(signed, SUITE, *TOYS, date="Sat, 01 Jan 2022 00:00:00 UTC", valid_until="Sat, 08 Jan 2022 00:00:00 UTC")
    key.sign(signed, SUITE)
    with pytest.raises(InputError, match="not what Debian signed") as caught:
        read(tmp_path, mirror.url, key.keyring)
    assert "--accept-expired" in caught.value.fix
    assert read(tmp_path / "again", mirror.url, key.keyring, expired=True).choose(["base-thing"])


def test_without_keys_nothing_is_fetched(tmp_path: Path, mirror: Server) -> None:
    with pytest.raises(MissingError, match="no signature could be checked") as caught:
        read(tmp_path, mirror.url, tmp_path / "none.gpg")
    assert "debian-archive-keyring" in caught.value.fix
    assert mirror.seen == []


@pytest.mark.parametrize("fault", ["missing", "error", "cut"])
def test_an_archive_that_cannot_be_read(tmp_path: Path, signed: Path, mirror: Server, key: Signer, fault: str) -> None:
    mirror.faults["InRelease"] = mirror.faults["Release"] = fault
    with pytest.raises((MissingError, InputError)) as caught:
        read(tmp_path, mirror.url, key.keyring)
    assert caught.value.fix


def test_nobody_answers(tmp_path: Path, key: Signer) -> None:
    with pytest.raises(MissingError, match="cannot be read") as caught:
        read(tmp_path, "http://127.0.0.1:9", key.keyring)
    assert "proxy" in caught.value.fix


def test_a_proxy_is_used(
    tmp_path: Path, signed: Path, mirror: Server, key: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With http_proxy set, apt asks the proxy for the whole address."""
    monkeypatch.setenv("http_proxy", mirror.url)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises((MissingError, InputError)):
        read(tmp_path, "http://archive.example/debian", key.keyring)
    assert any(path.startswith("http://archive.example/debian/dists/toy") for path in mirror.seen)


def test_the_named_certificates_are_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    assert not any("CAInfo" in option for option in acquire_options())
    (tmp_path / "ca.pem").write_text("x")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert f"Acquire::https::CAInfo={tmp_path}/ca.pem" in acquire_options()


def fake_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    path = tmp_path / "bin" / "apt-get"
    path.parent.mkdir()
    (tmp_path / "said").write_text(lines)
    path.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def test_the_archives_of_a_host_of_another_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_apt(
        tmp_path,
        monkeypatch,
        "http://m/debian/\tnewer\nhttp://m/debian\tnewer-updates\nhttp://s/debian-security/\tnewer-security\n"
        "http://other.example/deb/\tstable\nhttp://m/debian/\tnewer\n",
    )
    (tmp_path / "os").write_text('ID=debian\nVERSION_CODENAME="newer"\n')
    monkeypatch.setattr(apt, "OS_RELEASE", tmp_path / "os")
    assert host_repositories(DEFINITION) == (
        Repository(url="http://m/debian/", suite="toy"),
        Repository(url="http://m/debian/", suite="toy-updates"),
        Repository(url="http://s/debian-security/", suite="toy-security"),
    )


def test_the_archives_of_a_host_that_is_not_debian_are_not_debians(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, "http://m/ubuntu/\tjammy\nhttp://m/ubuntu/\tjammy-security\n")
    (tmp_path / "os").write_text("ID=ubuntu\nVERSION_CODENAME=jammy\n")
    monkeypatch.setattr(apt, "OS_RELEASE", tmp_path / "os")
    assert host_repositories(DEFINITION) == ()
    monkeypatch.setattr(apt, "OS_RELEASE", tmp_path / "none")
    assert host_repositories(DEFINITION) == ()


def test_without_apt_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingError, match="apt-get") as caught:
        host_repositories(DEFINITION)
    assert "apt" in caught.value.fix
    monkeypatch.setattr(apt, "HELPER", "/nonexistent/apt-helper")
    with pytest.raises(MissingError, match="apt-helper"):
        apt.download([])


def test_another_failure_of_apt_keeps_its_words() -> None:
    failed = CommandFailed("x", argv=[], status=100, tail="E: Malformed entry 1 in list file")
    assert apt._explain(failed) is failed


def test_a_packed_index_is_read(tmp_path: Path, signed: Path, mirror: Server, key: Signer) -> None:
    """An archive lists packed and plain indexes; apt takes the packed one and it is read unpacked."""
    place = signed / "dists" / SUITE / "main" / "binary-amd64" / "Packages"
    packed = gzip.compress(place.read_bytes(), mtime=0)
    place.with_name("Packages.gz").write_bytes(packed)
    release = signed / "dists" / SUITE / "Release"
    line = f" {hashlib.sha256(packed).hexdigest()} {len(packed)} main/binary-amd64/Packages.gz\n"
    release.write_text(release.read_text() + line)
    key.sign(signed, SUITE)
    ((_, index),) = read(tmp_path, mirror.url, key.keyring).indexes()
    assert index.read_bytes() == place.read_bytes()
    assert any(path.endswith("Packages.gz") for path in mirror.seen)
