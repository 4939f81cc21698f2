"""Files that survive a kill, trees that can be deleted, the lock that dies with its holder."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbit.core import files
from orbit.core.files import (
    exclusive,
    from_os_error,
    link_or_copy,
    naming,
    read_file,
    remove_tree,
    require_free,
    sha256_file,
    tree_hash,
    write_atomic,
)
from orbit.errors import InputError, MissingError, OrbitError, RefusedError

NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder any uid may use (pytest's own are private to their owner)."""
    folder = Path(tempfile.mkdtemp(prefix="orbit-test-"))
    folder.chmod(0o777)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)
    shutil.rmtree(folder)


def as_nobody(work: Callable[[], None]) -> int:
    """Exit status of ``work`` in a forked process without root's power over modes: 0 done, 1 raised."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# --- write_atomic -----------------------------------------------------------------------------------------------------


def test_write_atomic_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    write_atomic(path, b"one")
    write_atomic(path, b"two", mode=0o755)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_write_atomic_names_the_folder_that_is_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        write_atomic(tmp_path, b"one")
    assert str(from_os_error(caught.value, "writing")).startswith(f"{tmp_path}: is a folder")
    assert list(tmp_path.iterdir()) == []


def test_write_atomic_keeps_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    versions = [bytes([number]) * 200_000 for number in range(2)]
    write_atomic(path, versions[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for version in versions:
                write_atomic(path, version)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {path.read_bytes() for _ in range(200)}
    finally:
        stop.set()
        writer.join()
    assert seen <= set(versions)


# --- hashes -----------------------------------------------------------------------------------------------------------


def make_tree(root: Path) -> Path:
    (root / "a" / "__pycache__").mkdir(parents=True)
    (root / "a" / "one.py").write_text("1")
    (root / "a" / "__pycache__" / "one.pyc").write_text("x")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("a/one.py")
    return root


def test_sha256_file_of_the_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert sha256_file(tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_tree_hash_is_the_same_for_the_same_tree(tmp_path: Path) -> None:
    first, second = make_tree(tmp_path / "x"), make_tree(tmp_path / "y")
    os.utime(second / "run", (1, 1))
    (second / "a" / "one.py").chmod(0o600)
    (second / "a" / "__pycache__" / "two.pyc").write_text("y")
    assert tree_hash(first) == tree_hash(second)
    # Pinned: entries in stores of other machines are found by it.
    assert tree_hash(first) == "0541358badf72dd1d7c2366cfdafae28d559e8f23945ee55e39729931fab23c7"


def change_content(root: Path) -> None:
    (root / "a" / "one.py").write_text("2")


def change_name(root: Path) -> None:
    (root / "a" / "one.py").rename(root / "a" / "two.py")


def change_mode(root: Path) -> None:
    (root / "run").chmod(0o644)


def change_link(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("run")


def change_kind(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").write_text("a/one.py")


@pytest.mark.parametrize("change", [change_content, change_name, change_mode, change_link, change_kind])
def test_tree_hash_sees_every_change(tmp_path: Path, change: Callable[[Path], None]) -> None:
    root = make_tree(tmp_path / "x")
    before = tree_hash(root)
    change(root)
    assert tree_hash(root) != before


def test_tree_hash_takes_any_file_name_and_follows_no_link(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "x")
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT))
    (root / "outside").symlink_to(tmp_path)
    assert len(tree_hash(root)) == 64


# --- remove_tree ------------------------------------------------------------------------------------------------------


def test_remove_tree_of_nothing_a_file_a_link_and_a_pipe(tmp_path: Path) -> None:
    remove_tree(tmp_path / "absent")
    (tmp_path / "kept").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "link", "dangling", "pipe"):
        remove_tree(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_remove_tree_of_a_read_only_tree(open_folder: Path) -> None:
    def work() -> None:
        root = open_folder / "tree"
        inner = root / "a" / "b"
        inner.mkdir(parents=True)
        (inner / "file").touch()
        (root / "closed").mkdir()
        (root / "closed" / "file").touch()
        (root / "closed").chmod(0)
        for folder in (inner, root / "a", root):
            folder.chmod(0o555)
        remove_tree(root)

    assert as_nobody(work) == 0
    assert list(open_folder.iterdir()) == []


def test_remove_tree_touches_nothing_outside(open_folder: Path) -> None:
    """A read-only parent stays as it is, and the refusal comes out as the error it is."""
    parent = open_folder / "parent"

    def prepare() -> None:
        (parent / "tree").mkdir(parents=True)
        parent.chmod(0o555)

    def work() -> None:
        with pytest.raises(PermissionError):
            remove_tree(parent / "tree")

    assert as_nobody(prepare) == 0
    assert as_nobody(work) == 0
    assert stat.S_IMODE(parent.stat().st_mode) == 0o555


def test_remove_tree_while_somebody_still_writes(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    handle = os.open(root, os.O_DIRECTORY)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.0002) and number < 3000:
            number += 1
            try:
                os.close(os.open(f"file{number}", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
            except FileNotFoundError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        remove_tree(root)
    finally:
        stop.set()
        writer.join()
        os.close(handle)
    assert not root.exists()


# --- require_free, exclusive ------------------------------------------------------------------------------------------


def test_require_free_refuses_with_both_numbers(tmp_path: Path) -> None:
    require_free(tmp_path / "new", 1, "a test")
    assert (tmp_path / "new").is_dir()
    with pytest.raises(RefusedError, match=r"a test needs 1,000,000,000\.00 GB") as caught:
        require_free(tmp_path, 10**18, "a test")
    assert "GB are left" in caught.value.what


def test_exclusive_refuses_a_second_holder_and_names_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "deep" / "lock"
    with exclusive(lock, "ship"), pytest.raises(RefusedError) as caught, exclusive(lock, "image build"):
        pass
    assert f"image build: ship is running (process {os.getpid()}" in caught.value.what
    assert str(lock) in caught.value.what
    with exclusive(lock, "ship"):
        assert lock.read_text() == f"{os.getpid()} ship"


def test_exclusive_is_freed_by_an_exception(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path / "lock", "ship"):
        raise ZeroDivisionError
    with exclusive(tmp_path / "lock", "ship"):
        assert (tmp_path / "lock").is_file()


def test_exclusive_is_freed_when_the_holder_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    program = (
        "import sys, time; from pathlib import Path; from orbit.core.files import exclusive\n"
        f"with exclusive(Path({str(lock)!r}), 'ship'): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RefusedError, match=f"process {holder.pid}"), exclusive(lock, "ship"):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with exclusive(lock, "ship"):
            assert lock.read_text() == f"{os.getpid()} ship"


# --- a copied tree --------------------------------------------------------------------------------------------------


def test_of_a_tree_that_could_not_be_copied_the_first_error_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / "from" / name).mkdir(parents=True)
        (tmp_path / "from" / name / "file").write_bytes(b"x" * 5000)

    def full(*_numbers: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "sendfile", full)
    with pytest.raises(shutil.Error) as caught:
        shutil.copytree(tmp_path / "from", tmp_path / "to")
    found = from_os_error(caught.value, "copying")
    assert isinstance(found, RefusedError)
    assert re.fullmatch(rf"no room left on disk while copying: {tmp_path}/to/[ab]/file", found.what)


# --- naming -----------------------------------------------------------------------------------------------------------


def test_a_full_disk_gets_a_name_and_any_other_error_keeps_its_own(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught, naming(tmp_path / "out"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "out")
    with pytest.raises(OSError, match="Input/output") as read, naming(tmp_path / "out"):
        raise OSError(errno.EIO, "Input/output error")
    assert read.value.filename is None  # of what was read, perhaps
    with pytest.raises(FileNotFoundError) as missing, naming(tmp_path / "out"):
        (tmp_path / "absent").read_bytes()
    assert missing.value.filename == str(tmp_path / "absent")


def test_a_copy_that_finds_no_room_names_where_it_was_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "store", tmp_path / "out"
    source.write_bytes(b"x" * 5000)

    def other_disk(*_names: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    def full(*_numbers: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", other_disk)
    monkeypatch.setattr(os, "sendfile", full)
    with pytest.raises(OSError, match="No space left") as caught:
        link_or_copy(source, target)
    assert str(target) in str(from_os_error(caught.value, "testing"))
    assert str(source) not in str(from_os_error(caught.value, "testing"))
    assert not target.exists()


# --- from_os_error ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            RefusedError,
            "no room left on disk while testing: /x",
        ),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/x"), RefusedError, "no room left on disk"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/from", None, "/to"),
            RefusedError,
            "no room left on disk while testing: /to",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp', '/here']"),
            RefusedError,
            "No usable temporary directory found in ['/tmp', '/here'], while testing",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), RefusedError, "not allowed to read or write"),
        (OSError(errno.EROFS, "Read-only file system", "/x"), RefusedError, "Read-only file system"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), InputError, "No such file or directory"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/x"), InputError, "/x: is a folder"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), MissingError, "Connection reset by peer"),
        (urllib.error.URLError("no route"), MissingError, "no route"),
        (OSError(errno.EIO, "Input/output error", "/x"), RefusedError, "Input/output error while testing: /x"),
        (OSError("bare"), RefusedError, "bare while testing"),
    ],
)
def test_from_os_error_says_what_where_and_what_next(error: OSError, kind: type[OrbitError], said: str) -> None:
    wrapped = from_os_error(error, "testing")
    assert type(wrapped) is kind
    assert said in wrapped.what
    assert wrapped.fix
    assert "None" not in str(wrapped)


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_takes_the_place_of_another_in_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(files, "_exchange", lambda *_names: False)
    for round_ in range(2):
        new = tmp_path / "new"
        new.mkdir()
        (new / "value").write_text(str(round_))
        files.replace_folder(new, tmp_path / "final")
        assert (tmp_path / "final" / "value").read_text() == str(round_)
        assert [path.name for path in tmp_path.iterdir()] == ["final"]


@pytest.mark.parametrize(
    ("reason", "copies"), [(errno.EXDEV, True), (errno.EMLINK, True), (errno.ENOSPC, False), (errno.EACCES, False)]
)
def test_a_copy_where_links_cannot_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int, copies: bool
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"data")
    files.link_or_copy(source, tmp_path / "link")
    assert source.stat().st_ino == (tmp_path / "link").stat().st_ino

    def refuse(*_names: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "link", refuse)
    files.link_or_copy(source, tmp_path / "link")  # there already
    if not copies:
        with pytest.raises(OSError, match=os.strerror(reason)):
            files.link_or_copy(source, target)
        return
    files.link_or_copy(source, target)
    assert target.read_bytes() == b"data"
    assert source.stat().st_ino != target.stat().st_ino


def test_read_file_takes_regular_files_only_and_never_waits(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"abc")
    assert read_file(tmp_path / "small", 3) == b"abc"
    with pytest.raises(InputError, match="more than 0 MB"):
        read_file(tmp_path / "small", 2)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        read_file(tmp_path / "pipe", 3)
    with pytest.raises(InputError, match="directory"):
        read_file(tmp_path, 3)
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError, match="symbolic links"):
        read_file(tmp_path / "circle", 3)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "absent", 3)
