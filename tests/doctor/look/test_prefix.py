"""An environment read from made-up folders: links, hollow packages, interpreters, versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.doctor.look.prefix import default_prefix, read_prefix
from orbit.errors import InputError
from orbit.launch.preflight.mounts import Mounted
from orbit.launch.preflight.rules import load_rules

FILES = load_rules().files


def environment(folder: Path) -> Path:
    """A prefix with one package that is well."""
    site = folder / "lib/python3.12/site-packages"
    (site / "good").mkdir(parents=True)
    (site / "good/__init__.py").write_text("x = 1\n")
    (site / "good-1.0.dist-info").mkdir()
    (site / "good-1.0.dist-info/RECORD").write_text("good/__init__.py,sha256=x,6\ngood-1.0.dist-info/RECORD,,\n")
    (site / "single.py").write_text("")
    return site


def test_a_good_one_has_no_faults(tmp_path: Path) -> None:
    environment(tmp_path)
    found = read_prefix(tmp_path, (), FILES)
    assert (found.num_dangling, found.hollow, found.python_problem, found.remote) == (0, (), "", False)
    assert found.packages == {"good": "1.0"}
    assert found.modules == ("good", "single")


def test_links_into_a_cache_that_is_gone_are_counted(tmp_path: Path) -> None:
    site = environment(tmp_path)
    (site / "good/__init__.py").unlink()
    for name in ("__init__.py", "a.py", "b.py"):
        (site / "good" / name).symlink_to(tmp_path / "cache" / name)
    (site / "six.py").symlink_to(tmp_path / "cache/six.py")
    found = read_prefix(tmp_path, (), FILES)
    assert found.num_dangling == 4
    assert set(found.dangling) == {"good/__init__.py", "good/a.py", "good/b.py", "six.py"}
    assert found.hollow == ("good",)


def test_a_link_that_leads_somewhere_does_not_dangle(tmp_path: Path) -> None:
    site = environment(tmp_path)
    (site / "good/a.py").symlink_to(site / "single.py")
    assert read_prefix(tmp_path, (), FILES).num_dangling == 0


def test_files_whose_presence_says_something(tmp_path: Path) -> None:
    site = environment(tmp_path)
    for name in ("nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cudnn/lib/libcudnn.so.9.22", "nvidia/nccl/lib/libnccl.so.2",
                 "z3/lib/libz3.so.4.15", "megatron/core/datasets/helpers_cpp.cpython-312.so"):  # fmt: skip
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    (site / "megatron/post_training").mkdir()
    (tmp_path / "cuda").mkdir()
    found = read_prefix(tmp_path, (), FILES)
    assert (found.num_cudnn, found.z3_library, found.helpers, found.post_training, found.has_cuda) == (
        2, True, True, True, True,
    )  # fmt: skip
    assert found.nccl_files == ("nvidia/nccl/lib/libnccl.so.2",)


def test_an_interpreter_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    environment(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(tmp_path / "gone/python3.12")
    assert "not there" in read_prefix(tmp_path, (), FILES).python_problem


@pytest.mark.skipif(os.getuid() == 0, reason="root may enter every folder")
def test_an_interpreter_behind_a_private_folder_is_told(tmp_path: Path) -> None:
    environment(tmp_path / "env")
    private = tmp_path / "private"
    private.mkdir()
    (private / "python3.12").touch(mode=0o755)
    (tmp_path / "env/bin").mkdir()
    (tmp_path / "env/bin/python3").symlink_to(private / "python3.12")
    private.chmod(0)
    try:
        assert f"may not enter {private}" in read_prefix(tmp_path / "env", (), FILES).python_problem
    finally:
        private.chmod(0o700)


def test_the_file_system_is_that_of_site_packages(tmp_path: Path) -> None:
    environment(tmp_path)
    mounts = (Mounted(point="/", kind="ext4"), Mounted(point=str(tmp_path.resolve()), kind="lustre"))
    found = read_prefix(tmp_path, mounts, FILES)
    assert (found.file_system, found.remote) == ("lustre", True)


def test_what_is_no_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an installed environment"):
        read_prefix(tmp_path, (), FILES)


def test_the_active_environment_is_the_default(tmp_path: Path) -> None:
    env = {"ORBIT_PREFIX": str(tmp_path / "gone"), "VIRTUAL_ENV": str(tmp_path)}
    assert default_prefix(env, "/own") == tmp_path
    assert default_prefix({}, "/own") == Path("/own")
