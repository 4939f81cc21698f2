"""What is kept of a submission."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.launch.render import File
from orbit.launch.submit.model import (
    JobRef,
    Phase,
    all_refs,
    job_folder,
    load_ref,
    open_scheduler,
    read_secrets,
    save_files,
    save_ref,
)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of the test's own."""
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))


def ref(name: str = "demo", submitted: str = "2026-12-01T00:00:00Z") -> JobRef:
    """A submission."""
    return JobRef(
        name=name, scheduler="slurm", form="pyxis", id="7", identity="ab", site="here", nodes=2,
        submitted=submitted, grace_seconds=60, details={"output": "/x"},
    )  # fmt: skip


def test_a_job_is_found_again_by_its_name() -> None:
    save_ref(ref())
    assert load_ref("demo") == ref()
    save_ref(ref("later", "2026-12-02T00:00:00Z"))
    assert [one.name for one in all_refs()] == ["later", "demo"]


def test_a_job_nobody_submitted_is_named_beside_those_that_were() -> None:
    with pytest.raises(InputError, match="demo: no job of that name") as none:
        load_ref("demo")
    assert "none was submitted" in none.value.fix
    save_ref(ref("other"))
    with pytest.raises(InputError) as one:
        load_ref("demo")
    assert one.value.fix == "known: other"


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 41])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(InputError, match="is no name of a job"):
        job_folder(name)


def test_files_of_the_last_submission_alone_lie_there() -> None:
    folder = job_folder("demo")
    save_files(folder, (File(name="old.sh", text="1\n"), File(name="run.sh", text="1\n")))
    save_ref(ref())
    save_files(folder, (File(name="run.sh", text="2\n", mode=0o755),))
    assert sorted(path.name for path in folder.iterdir()) == ["job.json", "run.sh"]
    assert (folder / "run.sh").read_text() == "2\n"
    assert stat.S_IMODE((folder / "run.sh").stat().st_mode) == 0o755


def test_secrets_come_from_the_shell_and_only_names_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "value-of-a")
    assert read_secrets(("A_KEY",)) == {"A_KEY": "value-of-a"}
    monkeypatch.delenv("B_KEY", raising=False)
    with pytest.raises(InputError, match="B_KEY") as caught:
        read_secrets(("A_KEY", "B_KEY"))
    assert "value-of-a" not in str(caught.value)


@pytest.mark.parametrize("name", ["docker", "slurm"])
def test_each_scheduler_is_opened_by_its_name(name: str) -> None:
    found = open_scheduler(name)
    assert all(callable(getattr(found, method)) for method in ("submit", "status", "logs", "cancel"))


def test_only_ends_have_ended() -> None:
    assert [phase.value for phase in Phase if not phase.ended] == ["waiting", "running", "stopping"]
