"""The owner token of a job, and how two nodes prove to each other that they have it without sending it.

A challenge and an answer with HMAC-SHA256, both ways: each side mixes its own random number in, and says which side it
is, so that an answer can be neither replayed nor reflected.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from orbit.core.files import read_file
from orbit.errors import InputError, RefusedError
from orbit.launch.plan import OWNER_VARIABLE

TOKEN = re.compile(r"^[0-9a-f]{64}$")
MAX_BYTES = 1024


def load_token(env: Mapping[str, str], *, nodes: int) -> bytes:
    """The owner token: from the file that ``ORBIT_OWNER_FILE`` names, or made anew for a job of one node.

    Raises :class:`InputError` for a file that holds none, :class:`RefusedError` without one in a job of several nodes,
    or for a file that others may write (or, where it is ours, read).
    """
    name = env.get(OWNER_VARIABLE, "")
    if not name:
        if nodes > 1:
            raise RefusedError(
                f"{OWNER_VARIABLE} is not set, and nodes of a job prove by it that they belong together",
                fix="submit with `orbit launch submit`, or put 64 hexadecimal digits into a file of mode 0600 "
                f"on every node and name it in {OWNER_VARIABLE}",
            )
        return secrets.token_bytes(32)
    path = Path(name)
    try:
        text = read_file(path, MAX_BYTES).decode(errors="replace").strip()
        facts = os.stat(path)
    except FileNotFoundError:
        raise InputError(f"{OWNER_VARIABLE}={path}: no such file", fix="is the secret mounted on this node?") from None
    if not TOKEN.match(text):
        raise InputError(f"{path}: no owner token", fix="64 hexadecimal digits are needed, and nothing else")
    ours = facts.st_uid == os.geteuid() and not path.parent.is_mount()  # Kubernetes mounts secrets as it likes
    if facts.st_mode & stat.S_IWOTH or (ours and facts.st_mode & stat.S_IROTH):
        raise RefusedError(f"{path}: others may read or write it (mode {facts.st_mode & 0o777:04o})", fix="chmod 600")
    return bytes.fromhex(text)


def fresh_nonce() -> str:
    """32 random bytes in hexadecimal digits, never used again."""
    return secrets.token_hex(32)


def prove(token: bytes, *words: str) -> str:
    """HMAC-SHA256 over ``words`` (their lengths count, so no two lists are the same text)."""
    text = "".join(f"{len(word)}:{word}," for word in words)
    return hmac.new(token, text.encode(), hashlib.sha256).hexdigest()


def holds(token: bytes, proof: str, *words: str) -> bool:
    """Whether ``proof`` was made over ``words`` by who has ``token``."""
    return hmac.compare_digest(prove(token, *words).encode(), proof.encode(errors="replace"))


def public_name(token: bytes) -> str:
    """A name for the token that tells nothing of it: the same for all nodes of a job, another for every other job."""
    return prove(token, "name")[:16]


def ray_token(token: bytes, attempt: str) -> str:
    """What Ray's processes of this attempt know each other by; every node makes it for itself."""
    return prove(token, "ray", attempt)
