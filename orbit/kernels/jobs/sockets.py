"""A Unix socket that only this user reaches, and who is at its other end."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import tempfile
import time
from pathlib import Path

from orbit.errors import InputError

PREFIX = "orbit-jobs-"
SOCKET = "jobs"
"""Name of the socket in the folder."""
ASK_S = 1.0
FRESH_S = 60.0
"""A folder without a socket that is younger may be about to get one."""
LONGEST_PATH = 100
"""Of a socket: sun_path holds 108 bytes (unix(7)), the final zero among them."""


def peer(sock: socket.socket) -> int:
    """The process at the other end, as this process sees it; 0 when it cannot."""
    try:
        pid, _uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except OSError:
        return 0
    return int(pid)


def private_folder() -> Path:
    """A fresh folder that only this user can enter, its name short enough for a socket; ones of dead processes go."""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp is private
        if base and os.access(base, os.W_OK | os.X_OK) and len(base) + len(PREFIX) + 24 < LONGEST_PATH:
            break
    else:
        raise InputError("no folder for a socket", fix="point TMPDIR at a folder you may write to, with a short path")
    for old in Path(base).glob(f"{PREFIX}*"):
        pid = old.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):  # another run removes it, too
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}") and _is_ours_and_unused(old):
                shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))


def _is_ours_and_unused(folder: Path) -> bool:
    """Whether nobody answers at a folder's socket: a process of another container may well live, unseen in /proc."""
    if folder.lstat().st_uid != os.getuid():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ASK_S)
        try:
            line.connect(str(folder / SOCKET))
        except ConnectionRefusedError:
            return True
        except FileNotFoundError:
            return time.time() - folder.lstat().st_mtime > FRESH_S
        except OSError:
            return False
    return False
