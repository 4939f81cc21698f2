"""orbit.env.hydrate: another path, another user, a read-only mount; kills, full disks, hostile archives."""

from __future__ import annotations

import errno
import functools
import io
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.core.console import Silent
from orbit.core.files import exclusive, from_os_error
from orbit.core.store import RECORD_NAME
from orbit.env.archive_list import LIST, MANIFEST, Line, order
from orbit.env.archive_read import Archive
from orbit.env.hydrate import Options, check_prefix, hydrate, is_intact, look
from orbit.env.record import RECORD_PATH, read_environment
from orbit.errors import ExitCode, InputError, OrbitError, RefusedError
from orbit.release.second_place import as_user
from tests.image.test_faults import Disk, refused

from .archives import everything, forged, make_archive, make_environment, unpack
from .kills import killing

SITE = "lib/python3.12/site-packages"
KILLED = killing(
    ["from tests.env.archives import unpack"],
    ("open", "write", "mkdir", "rename", "symlink", "unlink", "utime", "fchmod", "rmdir", "chmod"),
    "unpack(Path(sys.argv[2]), Path(sys.argv[3]), elsewhere=True)",
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_archive(tmp_path_factory.mktemp("archive"))


def done_or_full(work: Callable[[], object]) -> bool:
    """Whether it came to its end; a full disk is told as one, anything else is raised."""
    try:
        work()
    except (OSError, OrbitError) as error:
        if not refused(error):
            raise
        return False
    return True


def files_of(tree: dict[str, tuple[int, int, object]]) -> dict[str, tuple[int, object]]:
    """Without the times of folders, which are set last."""
    return {path: (mode, what) for path, (mode, _, what) in tree.items()}


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_tree_is_the_one_that_was_archived(archive: Path, tmp_path: Path) -> None:
    done = unpack(archive, tmp_path / "second")
    first, second = everything(archive.parent / "made"), everything(tmp_path / "second")
    own = {MANIFEST, LIST}
    assert {path: (mode, what) for path, (mode, _, what) in first.items()} == {
        path: (mode, what) for path, (mode, _, what) in second.items() if path not in own
    }
    assert (done.environment, done.reused, done.replaced) == ("e" * 64, False, "")
    assert len(done.archive_sha256) == 64
    assert done.archive_bytes == archive.stat().st_size
    assert leftovers(tmp_path) == ["second"]


def test_two_places_get_equal_trees_to_the_time(archive: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        unpack(archive, tmp_path / name)
    assert everything(tmp_path / "one") == everything(tmp_path / "two")


def test_what_is_there_already_is_left_alone(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path / "x")
    before = os.stat(tmp_path / "x").st_ino
    assert unpack(archive, tmp_path / "x").reused
    assert os.stat(tmp_path / "x").st_ino == before
    (tmp_path / "x" / SITE / "nobody.txt").write_text("touched")
    done = unpack(archive, tmp_path / "x")
    assert not done.reused
    assert done.replaced == "e" * 64
    assert (tmp_path / "x" / SITE / "nobody.txt").read_text() == "no RECORD lists this\n"
    assert leftovers(tmp_path) == ["x"]


def test_another_environment_is_replaced_in_one_step(archive: Path, tmp_path: Path) -> None:
    make_environment(tmp_path / "x", identity="f" * 64)
    assert unpack(archive, tmp_path / "x").replaced == "f" * 64
    assert read_environment(tmp_path / "x").identity == "e" * 64


def test_an_empty_folder_is_filled(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    unpack(archive, tmp_path / "x")
    assert read_environment(tmp_path / "x").identity == "e" * 64


@pytest.mark.parametrize("kind", ["folder", "file", "link", "store"])
def test_anything_else_in_the_place_is_refused_and_left_alone(archive: Path, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "x"
    if kind == "folder":
        place.mkdir()
        (place / "thesis.tex").write_text("mine")
    elif kind == "file":
        place.write_text("mine")
    elif kind == "link":
        (tmp_path / "real").mkdir()
        place.symlink_to(tmp_path / "real")
    else:
        make_environment(place)
        (tmp_path / RECORD_NAME).write_text("{}")
    before = everything(tmp_path)
    with pytest.raises(RefusedError):
        unpack(archive, place)
    assert everything(tmp_path) == before


def test_a_mount_point_is_refused(archive: Path) -> None:
    with pytest.raises(RefusedError, match="a file system is mounted right there"):
        unpack(archive, Path("/proc"))


@pytest.mark.parametrize(
    ("name", "says"),
    [("a:b", "a colon"), ("a\nb", "cannot be printed"), ("n" * 120, "every Linux only up to 110"), ("..", "name")],
)
def test_a_path_in_which_nothing_works_is_refused(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_prefix(tmp_path / name)


def test_the_longest_prefix_is_the_one_whose_scripts_start() -> None:
    longest = Path("/" + "p" * 109)
    assert check_prefix(longest) == longest
    assert len(f"#!{longest}/bin/python3.12") == 127
    with pytest.raises(InputError, match="111 bytes"):
        check_prefix(Path("/" + "p" * 110))


def test_a_machine_that_could_not_run_it_is_refused(archive: Path, tmp_path: Path) -> None:
    with Archive(io.BytesIO(archive.read_bytes()), "x") as opened:
        manifest, lines = opened.manifest, list(opened.lines)
    contents = {line.path: (archive.parent / "made" / line.path).read_bytes() for line in lines if line.is_file}
    for change, says in (({"glibc": "2.999"}, "need glibc 2.999"), ({"platform": "linux-vax"}, "made for linux-vax")):
        stream = forged(msgspec.structs.replace(manifest, **change), lines, contents)
        with pytest.raises(RefusedError, match=says):
            hydrate(stream, "x", tmp_path / "y", Options(), progress=Silent())
        assert leftovers(tmp_path) == []
    stream = forged(msgspec.structs.replace(manifest, platform="linux-vax"), lines, contents)
    done = hydrate(stream, "x", tmp_path / "y", Options(elsewhere=True), progress=Silent())
    assert [skip.what for skip in done.skipped] == ["starting the interpreter"]
    assert manifest.platform == f"linux-{platform.machine()}"


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1000))
    with pytest.raises(RefusedError, match=r"needs .* of free disk, 1\.0 kB are left"):
        unpack(archive, tmp_path / "x")
    assert leftovers(tmp_path) == []


def test_an_interpreter_that_says_another_prefix_is_no_environment(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a", {"bin/python3.12": b"#!/bin/sh\necho 3.12.1 /elsewhere\n"})
    with pytest.raises(OrbitError, match=r"'3\.12\.1 /elsewhere' instead of") as caught:
        unpack(archive, tmp_path / "x")
    assert caught.value.code == ExitCode.FINDINGS
    assert leftovers(tmp_path) == ["a"]


def test_the_first_look_says_what_would_be_done(archive: Path, tmp_path: Path) -> None:
    with open(archive, "rb") as source:
        planned = look(source, "x", tmp_path / "y", Options())
    assert planned.manifest.environment == "e" * 64
    assert planned.disk_bytes >= planned.manifest.bytes
    assert leftovers(tmp_path) == []


def test_two_at_once_do_not_meet(archive: Path, tmp_path: Path) -> None:
    partial = tmp_path / ".x.orbit-partial"
    with exclusive(partial / "lock", "orbit env hydrate"), pytest.raises(RefusedError, match="is running"):
        unpack(archive, tmp_path / "x")
    assert partial.is_dir()
    unpack(archive, tmp_path / "x")
    assert leftovers(tmp_path) == ["x"]


def test_killed_at_any_moment_there_is_nothing_or_all_of_it(archive: Path, tmp_path: Path) -> None:

    def run(point: int, prefix: Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", KILLED, str(point), str(archive), str(prefix)]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    whole = run(0, tmp_path / "whole")
    calls = int(whole.stdout)
    expected = everything(tmp_path / "whole")
    assert calls > 60
    killed = 0
    for point in sorted(random.Random(5).sample(range(1, calls), 12)):
        prefix = tmp_path / f"at{point}"
        assert run(point, prefix).returncode == -signal.SIGKILL
        if prefix.exists():
            assert everything(prefix) == expected, point  # killed while it cleaned up
        else:
            killed += 1
            partial = tmp_path / f".{prefix.name}.orbit-partial" / "tree"
            assert not (partial / RECORD_PATH).exists() or files_of(everything(partial)) == files_of(expected), point
        unpack(archive, prefix, elsewhere=True)
        assert everything(prefix) == expected, point
        assert not (tmp_path / f".{prefix.name}.orbit-partial").exists()
    assert killed >= 6


def test_a_disk_that_fills_up_at_any_point_leaves_nothing(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.count()
    unpack(archive, tmp_path / "whole", elsewhere=True)
    calls, failed = disk.calls, 0
    for point in sorted(random.Random(7).sample(range(calls), 20)):
        disk.count(full_at=point)
        failed += not done_or_full(functools.partial(unpack, archive, tmp_path / "x", elsewhere=True))
        disk.count()
        assert leftovers(tmp_path) in (["whole"], ["whole", "x"]), point
        if (tmp_path / "x").exists():
            assert everything(tmp_path / "x") == everything(tmp_path / "whole")
            shutil.rmtree(tmp_path / "x")
    assert failed >= 15


def test_an_old_environment_outlives_a_full_disk(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_environment(tmp_path / "x", identity="f" * 64)
    before = everything(tmp_path / "x")
    real = os.write
    count = 0

    def full(handle: int, data: bytes) -> int:
        nonlocal count
        count += 1
        if count > 9:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space") as caught:
        unpack(archive, tmp_path / "x")
    monkeypatch.undo()
    assert from_os_error(caught.value, "x").code == ExitCode.REFUSED
    assert everything(tmp_path / "x") == before
    assert leftovers(tmp_path) == ["x"]


# --- hostile archives -------------------------------------------------------------------------------------------------

PARTS = st.sampled_from(["a", "..", ".", "bin", "lib", "share", "etc", "x y", "", "victim"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
TARGETS = st.one_of(PATHS, st.sampled_from(["/victim", "../victim", "../../victim", "bin/..", "bin/../../victim"]))
MORE = st.builds(
    Line, PATHS, st.sampled_from([0o40755, 0o100644, 0o100755, 0o120777, 0o104755, 0o20666, 0o60660]),
    st.just(0), st.one_of(st.sampled_from(["", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"]), TARGETS),
)  # fmt: skip


@given(more=st.lists(MORE, min_size=1, max_size=4), sort=st.booleans())
def test_no_archive_writes_anywhere_else(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, more: list[Line], sort: bool
) -> None:
    """Property: with any lines put into a whole archive, either it is refused and nothing is kept, or it is a tree."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "victim").write_text("mine")
    with Archive(io.BytesIO(archive.read_bytes()), "x") as opened:
        manifest, lines = opened.manifest, [*opened.lines, *more]
    contents = {
        line.path: (archive.parent / "made" / line.path).read_bytes() for line in lines[: -len(more)] if line.is_file
    }
    if sort:
        lines.sort(key=lambda line: order(line.path))
    try:
        stream = forged(manifest, lines, contents)
        hydrate(stream, "x", folder / "place" / "env", Options(elsewhere=True), progress=Silent())
    except (InputError, UnicodeEncodeError):
        assert not (folder / "place" / "env").exists()
    assert (folder / "victim").read_text() == "mine"
    assert set(leftovers(folder)) <= {"victim", "place"}
    for path in (folder / "place").rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(folder / "place")
    shutil.rmtree(folder)


def test_a_damaged_archive_leaves_nothing_and_names_the_file(archive: Path, tmp_path: Path) -> None:
    import zstandard

    tar = zstandard.ZstdDecompressor().decompressobj().decompress(archive.read_bytes())
    broken = tmp_path / "broken"
    broken.write_bytes(zstandard.compress(tar.replace(b"answer = 42", b"answer = 41")))
    with pytest.raises(InputError, match=r"torch/__init__\.py"):
        unpack(broken, tmp_path / "x")
    assert leftovers(tmp_path) == ["broken"]


def test_a_record_of_another_environment_is_refused(archive: Path, tmp_path: Path) -> None:
    with Archive(io.BytesIO(archive.read_bytes()), "x") as opened:
        manifest, lines = opened.manifest, list(opened.lines)
    contents = {line.path: (archive.parent / "made" / line.path).read_bytes() for line in lines if line.is_file}
    stream = forged(msgspec.structs.replace(manifest, environment="f" * 64), lines, contents)
    with pytest.raises(InputError, match="identity is not what the manifest says"):
        hydrate(stream, "x", tmp_path / "y", Options(), progress=Silent())
    assert leftovers(tmp_path) == []


def test_only_what_was_unpacked_counts_as_intact(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path / "x")
    with Archive(io.BytesIO(archive.read_bytes()), "x") as opened:
        manifest, lines = opened.manifest, opened.lines
    assert is_intact(tmp_path / "x", manifest, lines)
    assert not is_intact(tmp_path / "x", manifest, [*lines[:-1], replace(lines[-1], size=lines[-1].size + 1)])
    changes: list[Callable[[Path], object]] = [
        lambda place: (place / "new").write_text(""),
        lambda place: (place / "new").unlink() or (place / "cuda" / "lib64").unlink(),
    ]
    for change in changes:
        change(tmp_path / "x")
        assert not is_intact(tmp_path / "x", manifest, lines)


# --- another user ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_anybody_can_unpack_and_use_it(archive: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copy(archive, folder / "a")
        as_user(65534, lambda: unpack(folder / "a", folder / "env").prefix.encode())
        assert os.stat(folder / "env" / "bin" / "python3.12").st_uid == 65534
        assert {os.lstat(path).st_uid for path in (folder / "env").rglob("*")} == {65534}
