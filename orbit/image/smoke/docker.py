"""Running the checks with docker: the image as users will run it, by the id it has once loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core.console import Progress
from orbit.image import docker
from orbit.image.smoke.devices import Devices
from orbit.image.smoke.engine import Choice

SHM_SIZE = "1g"
TMPFS = "/tmp:rw,exec,mode=1777,size=4g"  # noqa: S108 - a folder of the container, not of the host


@dataclass(frozen=True, slots=True)
class Docker:
    """A docker client whose engine answers, and one loaded image."""

    program: Path
    version: str
    image: str
    """Id of the loaded image."""
    name: str = "docker"
    real_ids: bool = True
    closed: None = None
    """docker unpacks by itself; modes are tested by running."""

    def argv(self, uid: int, command: Sequence[str], devices: Devices) -> list[str]:
        """See :class:`orbit.image.smoke.engine.Engine`. The temporary folder allows programs: compilers make some."""
        limits = ["--read-only", "--tmpfs", TMPFS, "--shm-size", SHM_SIZE, "--network", "none"]
        user = ["--user", f"{uid}:{uid}", "--security-opt", "no-new-privileges"]
        if uid != 0:
            user += ["--cap-drop", "ALL"]
        words = [str(self.program), "run", "--rm", "--interactive", "--init", *limits, *user, *devices.docker()]
        return [*words, self.image, *command]


def find_docker() -> Choice | str:
    """The docker engine that answers, else why none does."""
    engine = docker.find_engine()
    if isinstance(engine, str):
        return engine
    return Choice(name="docker", program=engine.client, version=engine.version, real_ids=True)


def open_docker(choice: Choice, layout: Path, tag: str, *, progress: Progress) -> Docker:
    """Load the layout's image (nothing to do when the engine has it) and run it by its id."""
    loaded = docker.load_image(layout, tag=tag, progress=progress)
    return Docker(program=choice.program, version=choice.version, image=loaded.id)
