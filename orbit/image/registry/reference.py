"""Names of images in registries: ``HOST/REPOSITORY[:TAG][@DIGEST]``.

Grammar: OCI distribution specification 1.1 ("Pulling manifests") for repository and tag; the rule what is a host (it
has a dot or a port, or is ``localhost``) is docker's.
"""

from __future__ import annotations

import ipaddress
import re

from orbit.core.records import Record
from orbit.errors import InputError

DOCKER_HUB = "docker.io"
DOCKER_HUB_API = "registry-1.docker.io"
DEFAULT_TAG = "latest"
NAME_MAX = 255
HOST = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::[0-9]{1,5})?")
COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
FORM = "write HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:..., for example registry.example.org/team/orbit:1"


class Reference(Record, frozen=True, kw_only=True):
    """Where an image is, or goes to."""

    host: str
    """With its port, if any."""
    repository: str
    tag: str = ""
    """Empty when the reference is by digest alone."""
    digest: str = ""
    """Empty when the reference is by tag alone."""

    @property
    def api(self) -> str:
        """The host that answers for it."""
        return DOCKER_HUB_API if self.host == DOCKER_HUB else self.host

    @property
    def wanted(self) -> str:
        """What to ask the registry for: the digest if there is one."""
        return self.digest or self.tag

    def __str__(self) -> str:
        tag, digest = self.tag and f":{self.tag}", self.digest and f"@{self.digest}"
        return f"{self.host}/{self.repository}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """Read a reference; without tag and digest the tag is ``latest``. Raises :class:`InputError` that says which part
    is wrong."""
    rest, _, digest = text.removeprefix("docker://").partition("@")
    host, slash, path = rest.partition("/")
    if not slash or not is_host(host):
        raise InputError(f"{text!r}: does not begin with the host of a registry", fix=FORM)
    if "@" in text and not DIGEST.fullmatch(digest):
        raise InputError(f"{text!r}: {digest!r} is not sha256: and 64 hex digits", fix=FORM)
    repository, colon, tag = path.partition(":")
    if colon and not TAG.fullmatch(tag):
        raise InputError(f"{text!r}: {tag!r} is no tag", fix="a tag has up to 128 letters, digits and _ . -")
    host = host.lower()
    if host == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    check_repository(repository, text)
    return Reference(host=host, repository=repository, tag=tag or ("" if digest else DEFAULT_TAG), digest=digest)


def check_repository(name: str, text: str) -> None:
    """Raise :class:`InputError` unless ``name`` can be a repository; ``text`` is what was given."""
    for part in name.split("/"):
        if not COMPONENT.fullmatch(part):
            raise InputError(
                f"{text!r}: {part!r} cannot be part of a repository's name",
                fix="lower-case letters and digits, with single . _ or - between them",
            )
    if len(name) > NAME_MAX:
        raise InputError(f"{text!r}: the repository's name is longer than {NAME_MAX} characters", fix=FORM)


def is_host(word: str) -> bool:
    """Whether the first word of a reference is a host."""
    if not HOST.fullmatch(word):
        return False
    return "." in word or ":" in word or word.lower() == "localhost"


def is_loopback(host: str) -> bool:
    """Whether ``host`` (with or without a port) is this machine, where plain HTTP tells nobody anything."""
    name = host.rpartition(":")[0] if re.search(r":[0-9]+$", host) and not host.endswith("]") else host
    name = name.strip("[]")
    if name.lower() == "localhost" or name.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
