"""Who we are for a registry: what ``docker login``, ``podman login`` and their helper programs have kept.

Formats: docker's ``config.json`` (auths, credHelpers, credsStore), containers-auth.json(5), and the protocol of
``docker-credential-NAME`` (docker-credential-helpers). Secrets are never part of a message, an error or a repr.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from orbit.core import proc
from orbit.core.files import read_file
from orbit.errors import CheckFailed, InputError
from orbit.image.registry.reference import DOCKER_HUB

CONFIG_BYTES_MAX = 16 << 20
HELPER_TIMEOUT_S = 60.0
DOCKER_HUB_KEY = "index.docker.io"
"""What docker calls its own registry in ``config.json``."""
TOKEN_USER = "<token>"  # noqa: S105 - the user name by which a helper says that its secret is an identity token
NOT_FOUND = ("credentials not found", "no credentials", "not logged in")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and password, or an identity token; neither shows in a repr."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


class _Auth(msgspec.Struct, frozen=True):
    auth: str = ""
    identitytoken: str = ""
    username: str = ""
    password: str = ""


class _Config(msgspec.Struct, frozen=True):
    auths: dict[str, _Auth] = {}
    credHelpers: dict[str, str] = {}  # noqa: N815 - docker's key
    credsStore: str = ""  # noqa: N815 - docker's key


class _Answer(msgspec.Struct, frozen=True):
    Username: str = ""
    Secret: str = ""


def config_files() -> tuple[Path, ...]:
    """Where credentials may lie, most important first.

    ``$REGISTRY_AUTH_FILE`` stands alone, as for podman and skopeo; otherwise podman's own file of this login and
    docker's ``config.json`` (in ``$DOCKER_CONFIG``, by default ``~/.docker``).
    """
    named = os.environ.get("REGISTRY_AUTH_FILE")
    if named:
        return (Path(named),)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    docker = os.environ.get("DOCKER_CONFIG")
    found = [Path(runtime) / "containers" / "auth.json"] if runtime else []
    with contextlib.suppress(RuntimeError):  # no home at all
        found.append((Path(docker) if docker else Path.home() / ".docker") / "config.json")
    return tuple(found)


def find_credentials(host: str, repository: str) -> Credentials | None:
    """The credentials for ``repository`` of ``host``; None when nobody logged in.

    Raises :class:`InputError` for a file that is not right, and :class:`CheckFailed` when a helper program fails.
    """
    for path in config_files():
        try:
            data = read_file(path, CONFIG_BYTES_MAX)
        except FileNotFoundError:
            continue
        try:
            config = msgspec.json.decode(data, type=_Config)
        except (msgspec.DecodeError, RecursionError):
            # not the decoder's words: they may quote the file
            raise InputError(f"{path}: not a file of registry credentials", fix="log in again, or repair it") from None
        found = _in_config(config, path, host, repository)
        if found is not None:
            return found
    return None


def _in_config(config: _Config, path: Path, host: str, repository: str) -> Credentials | None:
    places = _places(host, repository)
    for key, helper in config.credHelpers.items():
        if _plain(key) in places:
            return _ask_helper(helper, key)
    by_place = {_plain(key): item for key, item in config.auths.items()}
    for place in places:
        item = by_place.get(place)
        found = _decode(item, path, place) if item is not None else None
        if found is not None:
            return found
    if config.credsStore:
        hub = host == DOCKER_HUB
        return _ask_helper(config.credsStore, f"https://{DOCKER_HUB_KEY}/v1/" if hub else host)
    return None


def _places(host: str, repository: str) -> list[str]:
    """Keys that speak about a repository, the most special first."""
    parts = repository.split("/")
    hosts = [host, DOCKER_HUB_KEY] if host == DOCKER_HUB else [host]
    return [f"{name}/{'/'.join(parts[:count])}" for name in hosts for count in range(len(parts), 0, -1)] + hosts


def _plain(key: str) -> str:
    """A key without scheme and API version: older docker wrote ``https://HOST/v1/``."""
    bare = key.removeprefix("https://").removeprefix("http://").rstrip("/")
    return bare.removesuffix("/v1").removesuffix("/v2")


def _decode(item: _Auth, path: Path, place: str) -> Credentials | None:
    if item.identitytoken:
        return Credentials(identity_token=item.identitytoken)
    if item.username:
        return Credentials(item.username, item.password)
    if not item.auth:
        return None
    try:
        user, colon, password = base64.b64decode(item.auth, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        user = colon = password = ""
    if not colon:
        raise InputError(f"{path}: the entry of {place} is not base64 of USER:PASSWORD", fix=f"log in to {place} again")
    return Credentials(user, password.rstrip("\0"))


def _ask_helper(name: str, server: str) -> Credentials | None:
    program = f"docker-credential-{name}"
    if "/" in name:
        raise InputError(f"{name!r}: not the name of a credential helper", fix="correct credsStore or credHelpers")
    # the caller's own environment: a helper talks to the caller's key ring, agent or cloud login
    done = proc.run(
        [program, "get"],
        doing=f"asking for the credentials of {server}",
        env=dict(os.environ),
        stdin=server.encode(),
        timeout_s=HELPER_TIMEOUT_S,
        check=False,
        fix=f"install {program}, or take it out of docker's config.json",
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace").lower()
        if any(words in said for words in NOT_FOUND):
            return None
        # what it printed may hold a secret
        raise CheckFailed(
            f"{program} ended with status {done.returncode} for {server}",
            fix=f"run `echo {server} | {program} get` and see what it says",
        )
    try:
        answer = msgspec.json.decode(done.stdout, type=_Answer)
    except msgspec.DecodeError:
        raise CheckFailed(f"{program} gave no JSON for {server}", fix="another release of that helper") from None
    if answer.Username == TOKEN_USER:
        return Credentials(identity_token=answer.Secret)
    return Credentials(answer.Username, answer.Secret) if answer.Username else None
