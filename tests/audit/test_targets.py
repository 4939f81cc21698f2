"""What is taken for what: by name and first bytes alone."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from orbit.audit.targets import detect, profile_for
from orbit.errors import InputError
from orbit.profile.model import load_profile
from tests.writers.environment import write_sound_environment


def test_environments(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "e")
    venv = tmp_path / "v"
    venv.mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    for folder in (env.prefix, env.site, venv):
        target = detect(str(folder))
        assert (target.kind, target.spec, target.paths) == ("environment", str(folder), (folder,))


def test_wheels_alone_and_in_a_folder(tmp_path: Path) -> None:
    for name in ("b-1-py3-none-any.whl", "a-1-py3-none-any.whl", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert detect(str(tmp_path / "a-1-py3-none-any.whl")).paths == (tmp_path / "a-1-py3-none-any.whl",)
    folder = detect(str(tmp_path))
    assert (folder.kind, [path.name[0] for path in folder.paths]) == ("wheels", ["a", "b"])


def test_images(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    layout.mkdir()
    (layout / "oci-layout").write_text("{}")
    plain = tmp_path / "image"
    with tarfile.open(plain, "w") as archive:
        archive.add(layout / "oci-layout", "oci-layout")
    (tmp_path / "image.tar.gz").write_bytes(b"")
    for spec in (
        str(layout),
        str(plain),
        str(tmp_path / "image.tar.gz"),
        f"oci:{layout}",
        f"docker-archive:{plain}",
        "docker-daemon:orbit/cu130:latest",
        "podman:orbit",
    ):
        target = detect(spec)
        assert (target.kind, target.spec, target.paths) == ("image", spec, ())


@pytest.mark.parametrize(
    "name", ["uv.lock", "pylock.toml", "pylock.gpu.toml", "requirements.txt", "requirements-dev.txt"]
)
def test_locks(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    assert detect(str(tmp_path / name)).kind == "lock"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("/nowhere", "/nowhere: no such file or folder"),
        ("ubuntu:22.04", "docker-daemon:ubuntu:22.04"),
        ("docker-daemon:", "no image is named"),
        ("oci:/nowhere", "no such file or folder: /nowhere"),
        (os.devnull, "neither a file nor a folder"),
    ],
)
def test_what_is_none_of_them(spec: str, says: str) -> None:
    with pytest.raises(InputError) as raised:
        detect(spec)
    assert says in str(raised.value)


def test_folders_and_files_that_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("x")
    os.mkfifo(tmp_path / "uv.lock")
    for name in ("empty", "note.txt", "uv.lock"):
        with pytest.raises(InputError):
            detect(str(tmp_path / name))


def test_other_gpus_than_those_of_the_profile() -> None:
    profile = profile_for(load_profile("cu130"), ("8.0", "12.0", "8.0"))
    assert [(target.name, target.capability, target.feature) for target in profile.targets] == [
        ("sm_80", "8.0", "sm_80"),
        ("sm_120", "12.0", "sm_120a"),
    ]
    assert profile.expectations == ()
    with pytest.raises(InputError, match=r"--gpu 9: no such compute capability"):
        profile_for(load_profile("cu130"), ("9",))
