"""A scheduler in memory for the tests of the commands: what it was asked, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File
from orbit.launch.submit import model
from orbit.launch.submit.model import JobRef, JobStatus, Phase

RECIPE = f"""
schema = 1
[launch]
name = "demo"
image = "registry.example.org/team/orbit@sha256:{"ab" * 32}"
command = ["python3.12", "/data/train.py"]
"""
SITE = """
schema = 1
name = "here"
scheduler = "docker"
nodes = { gpus = 0, cpus = 2, memory_gib = 32 }
image = { runtime = "docker" }
"""


class Memory:
    """Keeps what was submitted; ``answer`` is the status of every job."""

    def __init__(self) -> None:
        self.answer = JobStatus(phase=Phase.RUNNING, state="RUN", nodes=("n1",))
        self.error: Exception | None = None
        self.secrets: list[Mapping[str, str]] = []
        self.cancelled: list[bool] = []
        self.asked = 0

    def submit(
        self, plan: LaunchPlan, form: str, files: tuple[File, ...], folder: Path, secrets: Mapping[str, str]
    ) -> JobRef:
        """Remember."""
        assert [file.text for file in files] == [(folder / file.name).read_text() for file in files]
        self.secrets.append(secrets)
        return JobRef(
            name=plan.name, scheduler="docker", form=form, id="id-7", identity=plan.identity, site=plan.site.name,
            nodes=1, submitted=model.now(), grace_seconds=60,
        )  # fmt: skip

    def status(self, ref: JobRef) -> JobStatus:
        """The answer; the third time the job has succeeded."""
        self.asked += 1
        if self.error:
            raise self.error
        assert ref.id == "id-7"
        return self.answer if self.asked < 3 else JobStatus(phase=Phase.SUCCEEDED, state="DONE", exit_code=0)

    def logs(self, ref: JobRef, *, follow: bool) -> Iterator[bytes]:
        """A line in two pieces."""
        yield b"first \xff"
        yield b"line\nsecond" + (b" followed" if follow else b"")

    def cancel(self, ref: JobRef, *, now: bool) -> str:
        """Remember."""
        self.cancelled.append(now)
        return "ended"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The scheduler, in the place of every other one, with a store of the test's own."""
    made = Memory()
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    monkeypatch.setattr(model, "open_scheduler", lambda _name: made)
    return made


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Recipe and site."""
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "site.toml").write_text(SITE)
    return [str(tmp_path / "recipe.toml"), "--site", str(tmp_path / "site.toml")]
