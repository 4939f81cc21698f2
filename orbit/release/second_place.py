"""Where and as whom an environment is tried: another user, a read-only mount, nothing of the builder's in sight."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.files import from_os_error
from orbit.core.findings import Skipped
from orbit.core.store import cache_root
from orbit.errors import CommandFailed, ExitCode, OrbitError, RefusedError
from orbit.image.runtime import SYSTEM_PATH
from orbit.image.smoke.engine import MIB, Choice, find_bubblewrap, setpriv_argv
from orbit.smoke.model import Conditions
from orbit.smoke.report import IN_PLACE

NOBODY = 65534
COVERED = ("/root", "/home")
"""Builders keep caches and sources below these."""
TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108 - folders inside, not of the machine
PR_SET_PDEATHSIG = 1


def user(uid: int | None) -> int:
    """The user who unpacks and runs. Raises :class:`RefusedError` for one the caller cannot become."""
    own = os.geteuid()
    if own == 0:
        return NOBODY if uid is None else uid
    if uid not in (None, own):
        raise RefusedError(f"--uid {uid}: only root can become another user", fix="leave it out, or run this as root")
    return own


def make_parents(prefix: Path, uid: int) -> tuple[Path, ...]:
    """Make the folders above ``prefix`` that are missing, for that user; which they are, the deepest first."""
    missing = [folder for folder in prefix.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o755)
        os.chown(folder, uid, -1)
    return tuple(missing)


def as_user(uid: int, work: Callable[[], bytes]) -> bytes:
    """What ``work`` returns, done by a child of this process that has become ``uid`` for good.

    A fork, not a new program: what is imported is imported, and that user may not be allowed to read Orbit's own files.
    Raises the :class:`OrbitError` that ``work`` raised.
    """
    ours, theirs = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os._exit(_become(uid, work, theirs, parent))
    os.close(theirs)
    try:
        with open(ours, "rb") as pipe:
            said = pipe.read()
    except BaseException:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        return said
    told: dict[str, Any] = json.loads(said) if said else {}
    error = OrbitError(
        told.get("what", f"the process of user {uid} ended with status {status}"), fix=told.get("fix", "")
    )
    error.code = ExitCode(told.get("code", ExitCode.INTERNAL))
    raise error


def _become(uid: int, work: Callable[[], bytes], pipe: int, parent: int) -> int:
    """In the child: change the user, work, answer. The exit status."""
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return 1
        answer, status = work(), 0
    except (OrbitError, OSError) as error:
        known = error if isinstance(error, OrbitError) else from_os_error(error, f"unpacking as user {uid}")
        tail = f"\n{known.tail}" if isinstance(known, CommandFailed) else ""
        told = {"what": known.what + tail, "fix": known.fix, "code": int(known.code)}
        answer, status = json.dumps(told).encode(), 1
    except BaseException as error:  # noqa: BLE001 - nothing may leave the child but its answer
        answer, status = json.dumps({"what": f"internal error: {error!r}"}).encode(), 1
    with open(pipe, "wb") as file:
        file.write(answer)
    return status


@dataclass(frozen=True, slots=True)
class Place:
    """How a command is run in the environment."""

    prefix: Path
    uid: int
    choice: Choice | None
    """Bubblewrap; None where it does not work."""
    reason: str = ""
    """Why it does not."""

    @property
    def engine(self) -> str:
        """Name."""
        return self.choice.name if self.choice else IN_PLACE

    @property
    def version(self) -> str:
        """Of the engine."""
        return self.choice.version if self.choice else ""

    @property
    def real_ids(self) -> bool:
        """Whether the user inside is the kernel's own."""
        return self.choice.real_ids if self.choice else True

    def lacks(self) -> tuple[Skipped, ...]:
        """What could not be had."""
        if self.choice:
            return ()
        return (Skipped(what="read-only mount, no network, no caches in sight", reason=self.reason),)

    def argv(self, command: Sequence[str], conditions: Conditions) -> list[str]:
        """The command that runs ``command`` there."""
        drop = setpriv_argv(Path("/"), self.uid) if os.geteuid() == 0 and self.uid != 0 else []
        if self.choice is None:
            return [*drop, *command]
        words = [str(self.choice.program), "--die-with-parent", "--new-session", "--clearenv"]
        words += ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "second-prefix"]
        for name, value in {"PATH": SYSTEM_PATH, "HOME": "/", **conditions.variables}.items():
            words += ["--setenv", name, value]
        words += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
        for folder in covered(os.environ, self.prefix):
            words += ["--tmpfs", folder]
        for folder, size_mb in ((TMP, conditions.tmp_mb), (SHM, conditions.shm_mb)):
            if size_mb:
                words += ["--perms", "1777", "--size", str(size_mb * MIB), "--tmpfs", folder]
        for above in reversed(self.prefix.parents[:-1]):  # made anew where something empty lies over them
            words += ["--perms", "0755", "--dir", str(above)]
        words += ["--ro-bind", str(self.prefix), str(self.prefix), "--chdir", "/", "--cap-drop", "ALL"]
        if not self.choice.real_ids:
            words += ["--unshare-user", "--uid", str(self.uid), "--gid", str(self.uid)]
        elif self.uid != 0:
            words += [word for name in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
        return [*words, "--", *drop, *command]


def covered(variables: Mapping[str, str], prefix: Path) -> tuple[str, ...]:
    """Folders with caches and sources of this machine, to lay an empty file system over: homes, and Orbit's store."""
    named = {*COVERED, variables.get("HOME", ""), os.fspath(cache_root())}
    folders = sorted(os.path.realpath(path) for path in named if path.startswith("/") and path != "/")
    return tuple(
        folder
        for folder in dict.fromkeys(folders)
        if os.path.isdir(folder) and folder not in ("/", TMP) and os.fspath(prefix) != folder
    )


def choose_place(prefix: Path, uid: int) -> Place:
    """Bubblewrap when it works here, else the machine as it is."""
    found = find_bubblewrap()
    return Place(prefix, uid, found) if isinstance(found, Choice) else Place(prefix, uid, None, found)
