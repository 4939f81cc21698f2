"""Who runs, and what: user, home, image, namespaces."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import names, text
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.say import failed, passed, skipped, warned

IMAGE_VARIABLE = "ORBIT_IMAGE_DIGEST"
ENTRY = "start the container through orbit-entrypoint (Kubernetes: args instead of command)"
NAMESPACES = ("ipc", "pid", "net")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Facts of this process."""

    uid: int
    named: bool
    """Whether the uid has an entry in the user database."""
    home: str | None
    """None: the variable is not set."""
    home_writable: bool
    namespaces: dict[str, str]
    """``ipc`` to ``ipc:[4026531839]``."""
    first: dict[str, str]
    """The same of the first process here, as far as it may be read."""


def read_identity(root: Path, env: Mapping[str, str], uid: int | None = None) -> Identity:
    """Facts below ``root``. A home on a network file system is not touched here: that is asked for with a limit."""
    own = os.getuid() if uid is None else uid
    home = env.get("HOME")
    return Identity(
        uid=own,
        named=_in_passwd(root, own),
        home=home,
        home_writable=bool(home) and home != "/" and os.access(root / str(home).lstrip("/"), os.W_OK | os.X_OK),
        namespaces=_spaces(root, "self"),
        first=_spaces(root, "1"),
    )


def judge_identity(here: Identity, demand: Demand, env: Mapping[str, str]) -> Iterator[Check]:
    """``user``, ``home``, ``image`` and ``namespaces``."""
    yield _user(here, env)
    yield _home(here, env)
    yield _image(demand, env)
    yield _namespaces(here)


def _user(here: Identity, env: Mapping[str, str]) -> Check:
    # getpass.getuser() looks at these in this order and then at the user database
    name = next((env[key] for key in ("LOGNAME", "USER", "LNAME", "USERNAME") if env.get(key)), "")
    if not here.named and not name:
        text = f"user {here.uid} has no entry in /etc/passwd, and neither USER nor LOGNAME is set, which torch needs"
        return failed("user", text, f"{ENTRY}, or set USER and LOGNAME", uid=here.uid)
    how = "has an entry in /etc/passwd" if here.named else f"has no entry in /etc/passwd, and is called {name}"
    return passed("user", f"user {here.uid} {how}", uid=here.uid)


def _home(here: Identity, env: Mapping[str, str]) -> Check:
    if here.home_writable:
        return passed("home", f"HOME={here.home}", home=here.home)
    told = "HOME is not set" if here.home is None else f"HOME={here.home} cannot be written"
    if env.get("XDG_CACHE_HOME"):
        return warned("home", f"{told}; caches go to {env['XDG_CACHE_HOME']}", ENTRY)
    return failed("home", f"{told}, and what has no variable of its own caches there", f"{ENTRY}, or set HOME")


def _image(demand: Demand, env: Mapping[str, str]) -> Check:
    told = env.get(IMAGE_VARIABLE, "")
    if not demand.image:
        return skipped("image", "no image is demanded", told=told)
    if not told:
        text = f"{demand.image[:19]} is demanded, and nothing says which image runs here ({IMAGE_VARIABLE} is not set)"
        return warned("image", text, f"let the launcher set {IMAGE_VARIABLE}; the fingerprint is compared in any case")
    if told != demand.image:
        text = f"this is image {told[:19]}, demanded is {demand.image[:19]}"
        return failed("image", text, "pull the image by its digest on this node; a tag may be another image", told=told)
    return passed("image", f"image {told[:19]}", told=told)


def _namespaces(here: Identity) -> Check:
    apart = [kind for kind in NAMESPACES[:2] if here.first.get(kind) not in (None, here.namespaces.get(kind))]
    if apart:
        text = f"this process has another {' and '.join(apart)} namespace than the first one here"
        fix = "start trainer and engines in one container: GPU memory cannot be handed from one namespace to another"
        return warned("namespaces", text, fix, **here.namespaces)
    return passed("namespaces", "one namespace of processes and of IPC, as far as it can be seen", **here.namespaces)


def _in_passwd(root: Path, uid: int) -> bool:
    if root == Path("/"):  # also what is not in the file: sssd, LDAP
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return False
        return True
    return any(line.split(":")[2:3] == [str(uid)] for line in text(root, "etc/passwd").splitlines())


def _spaces(root: Path, process: str) -> dict[str, str]:
    found = {}
    for kind in NAMESPACES:
        try:
            if kind in names(root, f"proc/{process}/ns"):
                found[kind] = os.readlink(root / f"proc/{process}/ns/{kind}")
        except OSError:
            continue
    return found
