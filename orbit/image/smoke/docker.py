"""Running the checks with docker or podman: the image as users will run it, by the id it has once loaded.

The two take the same words. podman needs no daemon; it copies the layers of a layout into its own store.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core import proc
from orbit.core.console import Progress
from orbit.errors import CommandFailed, MissingError
from orbit.image import docker
from orbit.image.load import load_podman
from orbit.image.oci import read_layout
from orbit.image.smoke.devices import Devices
from orbit.image.smoke.engine import CONDITIONS, Choice
from orbit.smoke.model import Conditions

RUNTIMES = ("runc", "crun")
MOST_FILES = 1 << 20
PROCESSES = ("--pids-limit", "-1")
"""podman lets a container have 2048 processes and threads; no launched job has to live with that."""
NOT_FOUND = 127
"""Status of podman for a command that is not in the container (podman-run(1), "Exit Status")."""


@dataclass(frozen=True, slots=True)
class Docker:
    """A client whose engine answers, and one loaded image."""

    program: Path
    version: str
    image: str
    """Id of the loaded image."""
    name: str = "docker"
    real_ids: bool = True
    words: tuple[str, ...] = ()
    """What stands before the command."""
    closed: None = None
    """The engine unpacks by itself; modes are tested by running."""

    def argv(
        self, uid: int, command: Sequence[str], devices: Devices, conditions: Conditions = CONDITIONS
    ) -> list[str]:
        """See :class:`orbit.image.smoke.engine.Engine`. The temporary folder allows programs: compilers make some."""
        limits = ["--read-only", *self._places(conditions), "--network", "none"]
        user = ["--user", f"{uid}:{uid}", "--security-opt", "no-new-privileges"]
        if uid != 0:
            user += ["--cap-drop", "ALL"]
        for name, value in conditions.variables.items():
            user += ["--env", f"{name}={value}"]
        gpus = devices.docker() if self.name == "docker" else devices.podman()
        # podman's init is a package of its own, and the program that runs the checks reaps orphans, too
        init = ["--init"] if self.name == "docker" else [*PROCESSES, *own_limits()]
        words = [str(self.program), *self.words, "run", "--rm", "--interactive", *init, *limits, *user, *gpus]
        return [*words, self.image, *command]

    def _places(self, conditions: Conditions) -> list[str]:
        # podman makes a read-only root's /tmp, /run and /var/tmp writable unless told not to
        words = ["--read-only-tmpfs=false"] if self.name == "podman" else []
        if conditions.tmp_mb:
            words += ["--tmpfs", f"/tmp:rw,exec,mode=1777,size={conditions.tmp_mb}m"]  # noqa: S108 - of the container
        return [*words, "--shm-size", f"{conditions.shm_mb}m"]


def find_docker() -> Choice | str:
    """The docker engine that answers, else why none does."""
    engine = docker.find_engine()
    if isinstance(engine, str):
        return engine
    return Choice(name="docker", program=engine.client, version=engine.version, real_ids=True)


def find_podman() -> Choice | str:
    """podman, if it can start a container here; else why not. Run by root, so that ids inside are the kernel's own.

    The runtime it prefers may not know this machine's cgroups where another one does, so each is tried: on an empty
    root, with a program that is not there, which only a runtime that works can say.
    """
    program = shutil.which("podman")
    if program is None:
        return "podman is not installed"
    reason = ""
    with tempfile.TemporaryDirectory() as empty:
        for words in ((), *(("--runtime", name) for name in RUNTIMES if shutil.which(name))):
            probe = [
                program,
                *words,
                "run",
                "--rm",
                *PROCESSES,
                *own_limits(),
                "--network",
                "none",
                "--rootfs",
                empty,
                "/absent",
            ]
            done = proc.run(probe, doing="trying podman", check=False, timeout_s=60)
            if done.returncode == NOT_FOUND:
                version = proc.run([program, "--version"], doing="asking podman").stdout.decode().split()[-1]
                real = os.geteuid() == 0
                return Choice(name="podman", program=Path(program), version=version, real_ids=real, words=words)
            said = done.stderr.decode(errors="replace").strip().splitlines()
            reason = reason or (said[-1] if said else f"status {done.returncode}")
    return f"podman cannot start here ({reason})"


def own_limits() -> list[str]:
    """podman's words for limits this process may give: what it sets otherwise may be more than it is allowed to.

    podman lowers its own number of processes to ``kernel.pid_max`` before it starts anything.
    """
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    words = []
    for name, number, cap in (("nofile", resource.RLIMIT_NOFILE, MOST_FILES), ("nproc", resource.RLIMIT_NPROC, most)):
        hard = resource.getrlimit(number)[1]
        value = cap if hard == resource.RLIM_INFINITY else min(hard, cap)
        words += ["--ulimit", f"{name}={value}:{value}"]
    return words


def open_docker(choice: Choice, layout: Path, tag: str, *, progress: Progress) -> Docker:
    """Load the layout's image (nothing to do when the engine has it) and run it by its id."""
    loaded = docker.load_image(layout, tag=tag, progress=progress)
    return Docker(program=choice.program, version=choice.version, image=loaded.id)


def open_podman(choice: Choice, layout: Path, tag: str, *, progress: Progress) -> Docker:
    """Have podman take the layout's image (nothing to do when it has it), and run it by its id."""
    try:
        loaded = load_podman([str(choice.program)], choice.version, read_layout(layout), tag, progress)
    except CommandFailed as error:
        raise MissingError(f"podman does not take the image: {error.tail}", fix="use another engine") from None
    return Docker(
        program=choice.program,
        version=choice.version,
        image=loaded.id,
        name="podman",
        real_ids=choice.real_ids,
        words=choice.words,
    )
