"""Keys in files: never over another file, never readable for others, and a sentence for everything that is no key."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError, MissingError, OrbitError, RefusedError
from orbit.release.attest import keys
from orbit.release.attest.keys import (
    MAX_BYTES,
    VARIABLE,
    keyid_of,
    load_either,
    load_private,
    load_public,
    private_pem,
    public_pem,
    write_new,
)


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def put(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_a_new_key_comes_back_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = write_new(tmp_path / "keys" / "lab")
    finally:
        os.umask(old)
    assert (made.private.stat().st_mode & 0o777, made.public.stat().st_mode & 0o777) == (0o600, 0o644)
    assert made.public == tmp_path / "keys" / "lab.pub"
    assert not made.encrypted
    key = load_private(made.private)
    assert public_pem(key.public_key()) == made.public.read_bytes()
    assert keyid_of(load_public(made.public)) == keyid_of(load_either(made.private)) == made.keyid
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["lab", "lab.pub"]


def test_the_id_is_the_hash_of_the_public_key_as_der(tmp_path: Path) -> None:
    made = write_new(tmp_path / "lab")
    der = load_public(made.public).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert made.keyid == hashlib.sha256(der).hexdigest()
    if openssl := shutil.which("openssl"):
        words = [openssl, "pkey", "-pubin", "-in", str(made.public), "-outform", "DER"]
        assert hashlib.sha256(subprocess.check_output(words)).hexdigest() == made.keyid


@pytest.mark.parametrize("name", ["lab", "lab.pub"])
def test_nothing_is_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(RefusedError, match=f"{name}: exists already"):
        write_new(tmp_path / "lab")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_link_to_nowhere_is_not_written_over_either(tmp_path: Path) -> None:
    (tmp_path / "lab").symlink_to("nowhere")
    with pytest.raises(RefusedError):
        write_new(tmp_path / "lab")


@pytest.mark.parametrize("error", [0, errno.EPERM])
def test_a_file_that_appears_meanwhile_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    monkeypatch.setattr(keys, "require_new", lambda _path: None)
    if error:
        monkeypatch.setattr(os, "link", lambda *_paths: (_ for _ in ()).throw(OSError(error, "no links here")))
    (tmp_path / "lab").write_text("mine")
    with pytest.raises(RefusedError, match="exists already"):
        write_new(tmp_path / "lab")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("lab", "mine")]


def test_a_disk_without_hard_links_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", lambda *_paths: (_ for _ in ()).throw(OSError(errno.EPERM, "no links here")))
    made = write_new(tmp_path / "lab")
    assert keyid_of(load_private(made.private).public_key()) == made.keyid
    assert made.private.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_new(tmp_path / "lab")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_for_the_public_half_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(keys, "write_atomic", full)
    with pytest.raises(OSError, match="No space left"):
        write_new(tmp_path / "lab")
    assert list(tmp_path.iterdir()) == []


def test_with_a_passphrase_the_file_is_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "correct horse")
    made = write_new(tmp_path / "lab")
    assert made.encrypted
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in made.private.read_bytes()
    assert keyid_of(load_private(made.private).public_key()) == made.keyid
    monkeypatch.setenv(VARIABLE, "wrong horse")
    with pytest.raises(InputError, match=f"the passphrase in {VARIABLE} is wrong"):
        load_private(made.private)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(MissingError, match="is encrypted and no passphrase is given"):
        load_private(made.private)


def test_a_passphrase_that_is_not_needed_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write_new(tmp_path / "lab")
    monkeypatch.setenv(VARIABLE, "correct horse")
    assert keyid_of(load_private(made.private).public_key()) == made.keyid


def test_an_absent_key_is_missing_and_says_how_to_make_one(tmp_path: Path) -> None:
    for load in (load_private, load_either):
        with pytest.raises(MissingError) as absent:
            load(tmp_path / "lab")
        assert "orbit gate key new" in absent.value.fix
    with pytest.raises(InputError, match="no such file"):
        load_public(tmp_path / "lab.pub")


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o620, 0o666])
def test_a_key_that_others_can_read_or_replace_is_refused(tmp_path: Path, mode: int) -> None:
    path = put(tmp_path / "lab", private_pem(Ed25519PrivateKey.generate()), mode)
    with pytest.raises(RefusedError, match=f"mode {mode:04o}") as refused:
        load_private(path)
    assert f"chmod 600 {path}" in refused.value.fix


def test_a_key_mounted_for_a_group_serves(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    assert load_private(put(tmp_path / "lab", private_pem(key), 0o440)).public_key() == key.public_key()


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey, how: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, how, NoEncryption())


def test_every_other_kind_of_file_is_a_sentence(tmp_path: Path) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    mine = Ed25519PrivateKey.generate()
    cases = {
        "a key of another kind": pem(curve, PrivateFormat.PKCS8),
        "format of OpenSSH": pem(mine, PrivateFormat.OpenSSH),
        "the public half": public_pem(mine.public_key()),
        "no private key in PEM": b"hello",
        "no private key in PEM:": pem(mine, PrivateFormat.PKCS8)[:-60],
    }
    for says, data in cases.items():
        with pytest.raises(InputError, match=says):
            load_private(put(tmp_path / "lab", data))
    spki = curve.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(InputError, match="a key of another kind"):
        load_public(put(tmp_path / "lab.pub", spki))
    with pytest.raises(InputError, match="a private key, and its public half is needed"):
        load_public(put(tmp_path / "lab.pub", private_pem(mine)))


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"-----BEGIN PRIVATE KEY-----\n", b"-----BEGIN PUBLIC KEY-----\n"])
)
def test_any_file_is_a_key_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes) -> None:
    path = put(tmp_path_factory.getbasetemp() / "any", head + data)
    for load in (load_private, load_public, load_either):
        with pytest.raises(OrbitError) as refused:
            load(path)
        assert refused.value.fix


def test_a_huge_file_and_a_folder_are_no_keys(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_private(put(tmp_path / "huge", bytes(2 * MAX_BYTES)))
    with pytest.raises(InputError, match="more than"):
        load_public(tmp_path / "huge")
    with pytest.raises(OSError, match="directory"):
        load_private(tmp_path)
