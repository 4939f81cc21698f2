"""Ed25519 keys in files: the private one in PKCS8 PEM (mode 0600), the public one beside it in SPKI PEM.

The id of a key is the sha256 of its public half as DER (SubjectPublicKeyInfo): ``openssl pkey -pubin -in FILE.pub
-outform DER | sha256sum`` gives the same. A private key never leaves its file, is never printed, and is encrypted when
:data:`VARIABLE` is set while it is made.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from orbit.core.files import open_regular, read_file, sync_folder, write_atomic
from orbit.errors import InputError, MissingError, RefusedError

VARIABLE = "ORBIT_KEY_PASSPHRASE"
"""Environment variable with the passphrase of a private key."""
MAX_BYTES = 64 << 10
PRIVATE_MODE = 0o600
OPEN_TO_OTHERS = stat.S_IRWXO | stat.S_IWGRP
"""Mode bits a private key must not have. That a group may read it is fine: Kubernetes mounts secrets so."""
PUBLIC_SUFFIX = ".pub"
MAKE_ONE = "make one: orbit gate key new FILE"


@dataclass(frozen=True, slots=True)
class NewKey:
    """What :func:`write_new` wrote."""

    private: Path
    public: Path
    keyid: str
    encrypted: bool


def keyid_of(key: Ed25519PublicKey) -> str:
    """sha256 hex of the key as DER SubjectPublicKeyInfo."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def public_pem(key: Ed25519PublicKey) -> bytes:
    """The public key as PEM SubjectPublicKeyInfo."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def private_pem(key: Ed25519PrivateKey, passphrase: str = "") -> bytes:
    """The private key as PKCS8 PEM, encrypted when there is a passphrase."""
    how: KeySerializationEncryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def public_path(private: Path) -> Path:
    """Where the public half of the key in ``private`` lies: beside it, ``FILE.pub``."""
    return private.with_name(private.name + PUBLIC_SUFFIX)


def write_new(path: Path) -> NewKey:
    """Make a key: private in ``path``, public in ``path``.pub; encrypted when :data:`VARIABLE` is set.

    A file that is there is never written over: raises :class:`RefusedError`. A crash leaves no half of a private key.
    """
    require_new(path)
    public = public_path(path)
    passphrase = os.environ.get(VARIABLE, "")
    key = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True)
    _create(path, private_pem(key, passphrase))
    try:
        write_atomic(public, public_pem(key.public_key()))
    except BaseException:
        path.unlink()  # nobody has used it yet, and without its other half nobody would
        raise
    return NewKey(private=path, public=public, keyid=keyid_of(key.public_key()), encrypted=bool(passphrase))


def require_new(path: Path) -> None:
    """Raises :class:`RefusedError` when ``path`` or its public half is there."""
    for place in (path, public_path(path)):
        if os.path.lexists(place):
            raise RefusedError(
                f"{place}: exists already, and a key that is overwritten is lost", fix="name another file"
            )


def load_private(path: Path) -> Ed25519PrivateKey:
    """The private key in ``path``.

    Raises :class:`MissingError` when it is not there or its passphrase is not given, :class:`RefusedError` when other
    users of the machine can read it, :class:`InputError` for anything that is no Ed25519 key in PEM.
    """
    data = _read_private(path)
    passphrase = os.environ.get(VARIABLE, "")
    try:
        key = load_pem_private_key(data, passphrase.encode() or None)
    except TypeError:
        if not passphrase:
            raise MissingError(
                f"{path}: is encrypted and no passphrase is given", fix=f"set the variable {VARIABLE}"
            ) from None
        return _plain(data, path)  # a passphrase is given and not needed
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _not_a_key(path, data, error, passphrase) from None
    return _ed25519(key, path)


def load_public(path: Path) -> Ed25519PublicKey:
    """The public key in ``path``. Raises :class:`InputError` for anything that is no Ed25519 key in PEM."""
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix="the public key lies beside the private one, FILE.pub") from None
    if b"PRIVATE KEY" in data:
        raise InputError(
            f"{path}: a private key, and its public half is needed",
            fix="name FILE.pub; where a private key lies among public ones, make a new key and trust that instead",
        )
    return parse_public(data, str(path))


def parse_public(data: bytes, where: str) -> Ed25519PublicKey:
    """The public key in ``data``; ``where`` names it in errors. Raises :class:`InputError` for anything else."""
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{where}: no public key in PEM: {_line(error)}", fix="name FILE.pub") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{where}: a key of another kind ({type(key).__name__})", fix=f"Ed25519 is used; {MAKE_ONE}")
    return key


def load_either(path: Path) -> Ed25519PublicKey:
    """The public key of a file with either half."""
    try:
        private = b"PRIVATE KEY" in read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise MissingError(f"{path}: no such key", fix=MAKE_ONE) from None
    return load_private(path).public_key() if private else load_public(path)


def _create(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, readable for its owner alone from the first byte on; never over another file."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)  # unlike a rename it fails when something is there
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            os.rename(partial, path)
    except FileExistsError:
        raise RefusedError(
            f"{path}: exists already, and a key that is overwritten is lost", fix="name another file"
        ) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
    sync_folder(path.parent)


def _read_private(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(MAX_BYTES)
    except FileNotFoundError:
        raise MissingError(f"{path}: there is no signing key", fix=MAKE_ONE) from None
    if mode & OPEN_TO_OTHERS:
        raise RefusedError(
            f"{path}: other users of this machine can read or replace it (mode {mode:04o})",
            fix=f"chmod 600 {path}; if it was so for long, make a new key",
        )
    return data or b""


def _plain(data: bytes, path: Path) -> Ed25519PrivateKey:
    """A key that is not encrypted."""
    try:
        return _ed25519(load_pem_private_key(data, None), path)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _not_a_key(path, data, error, "") from None


def _ed25519(key: object, path: Path) -> Ed25519PrivateKey:
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: a key of another kind ({type(key).__name__})", fix=f"Ed25519 is used; {MAKE_ONE}")
    return key


def _not_a_key(path: Path, data: bytes, error: Exception, passphrase: str) -> InputError:
    """Why ``data`` is no private key that can be used."""
    if b"BEGIN OPENSSH PRIVATE KEY" in data:
        return InputError(f"{path}: a key in the format of OpenSSH", fix=f"PKCS8 PEM is read; {MAKE_ONE}")
    if b"BEGIN PUBLIC KEY" in data:
        return InputError(f"{path}: the public half of a key", fix="signing needs the private one")
    if b"BEGIN ENCRYPTED PRIVATE KEY" in data and passphrase:
        return InputError(f"{path}: the passphrase in {VARIABLE} is wrong, or the file is damaged", fix="correct it")
    return InputError(f"{path}: no private key in PEM: {_line(error)}", fix=MAKE_ONE)


def _line(error: Exception) -> str:
    """The first line of what the library says, without its codes."""
    return (str(error).splitlines() or [type(error).__name__])[0].partition(" (")[0][:200]
