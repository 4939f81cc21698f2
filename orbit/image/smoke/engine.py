"""Starting a command in an image: docker or podman when one is there, else bubblewrap, else unshare as root.

All give the same conditions: the image's own environment and entrypoint and nothing of the host's, a root nobody can
write, a fresh /tmp and /dev/shm of the size asked for, no network, and the user that was asked for with no privilege
beyond it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orbit.core import proc
from orbit.errors import MissingError
from orbit.image.oci import Layout, RunConfig
from orbit.image.rootfs import RootTree
from orbit.image.runtime import SYSTEM_PATH
from orbit.image.smoke.devices import Devices
from orbit.smoke.model import Conditions

CONDITIONS = Conditions()
TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108 - folders of the container, not of the host
MIB = 1 << 20
SETPRIV = "usr/bin/setpriv"
HOST_NAME = "smoke"


class Engine(Protocol):
    """A way to run a command in one image."""

    @property
    def name(self) -> str:
        """``docker``, ``podman``, ``bubblewrap`` or ``unshare``."""

    @property
    def version(self) -> str:
        """Of the program."""

    @property
    def real_ids(self) -> bool:
        """Whether user ids inside are the kernel's own."""

    @property
    def closed(self) -> tuple[str, ...] | None:
        """Paths whose modes keep some user out; None when the engine did not unpack the image itself."""

    def argv(
        self, uid: int, command: Sequence[str], devices: Devices, conditions: Conditions = CONDITIONS
    ) -> list[str]:
        """The host command that runs ``command`` in the image as ``uid`` (group the same), stdin passed through."""


def home_of(root: Path, uid: int) -> str:
    """Home folder of ``uid`` by the image's passwd file; ``/`` for a user it does not know (what engines set)."""
    passwd = root / "etc" / "passwd"
    if passwd.is_file() and not passwd.is_symlink():
        for line in passwd.read_text(errors="replace").splitlines():
            fields = line.split(":")
            if len(fields) >= 6 and fields[2] == str(uid):
                return fields[5]
    return "/"


def container_env(run: RunConfig, home: str) -> dict[str, str]:
    """The environment an engine gives a process of an image: the image's own, PATH and HOME when it sets none."""
    return {"PATH": SYSTEM_PATH, "HOME": home, **run.variables}


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """bubblewrap over an unpacked root.

    Started by root, the user inside is the kernel's: bubblewrap keeps three capabilities and the image's ``setpriv``
    gives them up with the user id. Started by anyone else, a user namespace maps the id to the caller's.
    """

    run: RunConfig
    root: RootTree
    program: Path
    version: str
    real_ids: bool
    name: str = "bubblewrap"

    @property
    def closed(self) -> tuple[str, ...]:
        """See :class:`Engine`."""
        return self.root.closed

    def argv(
        self, uid: int, command: Sequence[str], devices: Devices, conditions: Conditions = CONDITIONS
    ) -> list[str]:
        """See :class:`Engine`."""
        env = container_env(self.run, home_of(self.root.path, uid)) | dict(conditions.variables)
        words = [str(self.program), "--die-with-parent", "--new-session", "--clearenv"]
        words += ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", HOST_NAME]
        for name, value in env.items():
            words += ["--setenv", name, value]
        words += ["--ro-bind", str(self.root.path), "/", "--proc", "/proc", "--dev", "/dev"]
        for place, size_mb in ((TMP, conditions.tmp_mb), (SHM, conditions.shm_mb)):
            if size_mb:
                words += ["--perms", "1777", "--size", str(size_mb * MIB), "--tmpfs", place]
        words += devices.bubblewrap()
        words += ["--chdir", self.run.working_dir or "/", "--cap-drop", "ALL"]
        drop: list[str] = []
        if not self.real_ids:
            words += ["--unshare-user", "--uid", str(uid), "--gid", str(uid)]
        elif uid != 0:
            words += [word for name in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
            drop = setpriv_argv(self.root.path, uid)
        return [*words, "--", *drop, *self.run.entrypoint, *command]


def setpriv_argv(root: Path, uid: int) -> list[str]:
    """The image's own ``setpriv`` (util-linux) turning root into ``uid`` for good."""
    if not (root / SETPRIV).is_file():
        raise MissingError(
            f"the image has no /{SETPRIV}, so it cannot be run as uid {uid}",
            fix="add util-linux to containers/base.toml, or use docker",
        )
    user = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [f"/{SETPRIV}", *user, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]


UNSHARE_SCRIPT = """
set -eu
root=$1 tmp=$2 shm=$3
shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
[ "$tmp" = 0 ] || mount -t tmpfs -o "mode=1777,size=${tmp}m" tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    : > "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/shm"
mount -t tmpfs -o "mode=1777,nosuid,nodev,size=${shm}m" tmpfs "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
cd "$root"
exec chroot . "$@"
"""
"""Runs in new namespaces as root: the image read-only, with the few file systems every container has."""


@dataclass(frozen=True, slots=True)
class Unshare:
    """Namespaces made with util-linux alone, for root on a machine without bubblewrap."""

    run: RunConfig
    root: RootTree
    program: Path
    version: str
    real_ids: bool = True
    name: str = "unshare"

    @property
    def closed(self) -> tuple[str, ...]:
        """See :class:`Engine`."""
        return self.root.closed

    def argv(
        self, uid: int, command: Sequence[str], devices: Devices, conditions: Conditions = CONDITIONS
    ) -> list[str]:
        """See :class:`Engine`."""
        if devices.nodes:
            raise MissingError("unshare cannot pass a GPU on", fix="install bubblewrap or docker")
        start = ["/usr/bin/env", "-i", "-C", self.run.working_dir or "/"]
        env = container_env(self.run, home_of(self.root.path, uid)) | dict(conditions.variables)
        start += [f"{name}={value}" for name, value in env.items()]
        spaces = ["--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        sizes = [str(conditions.tmp_mb), str(conditions.shm_mb)]
        script = ["sh", "-c", UNSHARE_SCRIPT, "smoke", str(self.root.path), *sizes]
        start = [*setpriv_argv(self.root.path, uid), *start]
        return [str(self.program), *spaces, *script, *start, *self.run.entrypoint, *command]


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine that works on this machine, before any image is opened with it."""

    name: str
    program: Path
    version: str
    real_ids: bool
    words: tuple[str, ...] = ()
    """Options that stand before the engine's command."""


def open_engine(choice: Choice, image: Layout, root: RootTree) -> Engine:
    """The chosen engine over an unpacked image (docker has its own way, see :mod:`orbit.image.smoke.docker`)."""
    run = image.config.config
    if choice.name == "unshare":
        return Unshare(run=run, root=root, program=choice.program, version=choice.version)
    return Bubblewrap(run=run, root=root, program=choice.program, version=choice.version, real_ids=choice.real_ids)


def find_bubblewrap() -> Choice | str:
    """Bubblewrap if it is installed and really starts something here; else why not."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed"
    real = os.geteuid() == 0
    user = [] if real else ["--unshare-user"]
    probe = [program, "--ro-bind", "/", "/", "--unshare-net", "--unshare-pid", "--proc", "/proc", *user, "/bin/true"]
    done = proc.run(probe, doing="trying bubblewrap", check=False, timeout_s=20)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return f"bubblewrap cannot start here ({said[-1] if said else f'status {done.returncode}'})"
    version = proc.run([program, "--version"], doing="asking bubblewrap").stdout.decode().split()[-1]
    return Choice(name="bubblewrap", program=Path(program), version=version, real_ids=real)


def find_unshare() -> Choice | str:
    """util-linux's unshare, which needs root; else why not."""
    if os.geteuid() != 0:
        return "unshare needs root"
    program = shutil.which("unshare")
    if program is None:
        return "unshare is not installed"
    spaces = [program, "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "/bin/true"]
    done = proc.run(spaces, doing="trying unshare", check=False, timeout_s=20)
    if done.returncode != 0:
        return f"unshare cannot make namespaces here (status {done.returncode})"
    version = proc.run([program, "--version"], doing="asking unshare").stdout.decode().split()[-1]
    return Choice(name="unshare", program=Path(program), version=version, real_ids=True)
