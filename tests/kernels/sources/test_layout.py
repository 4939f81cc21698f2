"""orbit.kernels.sources.layout: links stay inside, modes and times are fixed, hollow sources are seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.kernels.sources.layout import EPOCH_S, check_files, settle


def test_modes_and_times_do_not_depend_on_where_files_came_from(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    (folder / "d").mkdir(parents=True, mode=0o700)
    for name, mode in (("a", 0o600), ("d/run", 0o700), ("d/odd", 0o4777)):
        (folder / name).write_bytes(b"")
        (folder / name).chmod(mode)
    (folder / "link").symlink_to("d/run")
    settle(folder, "x")
    modes = {str(p.relative_to(folder)): p.lstat().st_mode & 0o7777 for p in folder.rglob("*") if not p.is_symlink()}
    assert modes == {"a": 0o644, "d": 0o755, "d/run": 0o755, "d/odd": 0o755}
    assert {path.lstat().st_mtime for path in (folder, *folder.rglob("*"))} == {EPOCH_S}


def test_the_time_is_that_of_builds() -> None:
    from orbit.kernels.workspace import SOURCE_DATE_EPOCH

    assert str(EPOCH_S) == SOURCE_DATE_EPOCH


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "d/../../outside", "up/..", "chain"])
def test_links_out_of_the_source_are_refused(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "src"
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "up").symlink_to(".")  # harmless by itself; `up/..` as text is inside, as a path it is not
    if target == "chain":
        (folder / "chain").symlink_to("d/e/../../..")
    (folder / "link").symlink_to(target)
    with pytest.raises(InputError, match="outside of the source"):
        settle(folder, "x")


def test_links_inside_are_fine_also_broken_and_circular_ones(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    (folder / "d").mkdir(parents=True)
    for name, target in (("d/a", "../b"), ("b", "nowhere"), ("c", "c"), ("root", "."), ("d/up", "..")):
        (folder / name).symlink_to(target)
    settle(folder, "x")
    assert (folder / "root").is_dir()


def test_a_fifo_is_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(InputError, match="neither file nor folder"):
        settle(tmp_path, "x")


def test_a_hollow_source_is_seen(tmp_path: Path) -> None:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "a.cpp").write_bytes(b"")
    check_files(tmp_path, [], "x")
    check_files(tmp_path, ["csrc/*.cpp"], "x")
    with pytest.raises(InputError, match=r"hollow, no file matches csrc/\*\.cu, b") as caught:
        check_files(tmp_path, ["csrc/*.cu", "csrc/*.cpp", "b"], "kernel 1")
    assert "git" in caught.value.fix
