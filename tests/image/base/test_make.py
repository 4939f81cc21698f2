"""Making the root file system: the command, what it must end with, and what is left when it does not."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from orbit.core.store import Store
from orbit.errors import CheckFailed, CommandFailed, InputError, MissingError
from orbit.image.base import make
from orbit.image.base.make import make_root, mmdebstrap_argv, own_namespaces
from tests.image.base.archive import CHOSEN, DEFINITION, SUITE, lock_of

LOCK = lock_of(*CHOSEN)
STATUS = "".join(
    f"Package: {package.name}\nStatus: install ok installed\nArchitecture: {package.architecture}\n"
    f"Version: {package.version}\n\n"
    for package in LOCK.packages
)


def debs(folder: Path) -> dict[str, Path]:
    return {package.name: folder / package.deb for package in LOCK.packages}


def raw(path: Path, status: str) -> None:
    with tarfile.open(path, "w") as archive:
        for name, data in (("./var/lib/dpkg/status", status.encode()), ("./etc/apt/sources.list", b"deb copy:/x")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called mmdebstrap, and one called unshare that only goes on, on PATH."""
    for name, text in (("mmdebstrap", script), ("unshare", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def make_one(store: Store, folder: Path, target: Path) -> make.Contents:
    return make_root(DEFINITION, LOCK, debs(folder), target, store)


def leftovers(store: Store) -> list[Path]:
    return list((store.root / "base").iterdir())


def test_what_is_installed_must_be_what_is_locked(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw(tmp_path / "ready.tar", STATUS)
    script = f'for target; do case $target in *raw.tar) cp {tmp_path}/ready.tar "$target";; esac; done; echo "$TMPDIR"'
    program(tmp_path, monkeypatch, script)
    made = make_one(store, folder, tmp_path / "root.tar")
    assert [package.name for package in made.packages] == [package.name for package in LOCK.packages]
    with tarfile.open(tmp_path / "root.tar") as archive:
        assert "etc/apt/sources.list" not in archive.getnames()
    assert leftovers(store) == []
    raw(tmp_path / "ready.tar", STATUS.replace("2.10-3", "2.10-4"))
    with pytest.raises(
        CheckFailed, match=r"installed and not locked: hello 1:2\.10-4; locked and not installed: hello"
    ):
        make_one(store, folder, tmp_path / "other.tar")
    assert not (tmp_path / "other.tar").exists()


def test_a_failure_shows_what_mmdebstrap_said_and_leaves_nothing(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, 'mkdir "$TMPDIR/mmdebstrap.x"; echo "E: dpkg: dependency problems" >&2; exit 25')
    with pytest.raises(CommandFailed, match="mmdebstrap ended with status 25") as caught:
        make_one(store, folder, tmp_path / "root.tar")
    assert "dependency problems" in str(caught.value)
    assert leftovers(store) == []


def test_its_folder_is_where_it_can_be_swept(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, 'echo "E: $TMPDIR $SOURCE_DATE_EPOCH" >&2; exit 1')
    with pytest.raises(CommandFailed) as caught:
        make_one(store, folder, tmp_path / "root.tar")
    where, epoch = caught.value.tail.removeprefix("E: ").split()
    assert Path(where).parent.parent == store.root / "base"
    assert epoch == "315532800"


def test_without_root_and_namespaces_the_error_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make.os, "geteuid", lambda: 1000)
    assert own_namespaces() == []
    failed = CommandFailed("making: mmdebstrap ended", argv=[], status=1, tail="E: invalid entry in /etc/subuid")
    explained = make._explain(failed)
    assert isinstance(explained, MissingError)
    assert "/etc/subuid" in explained.fix
    other = CommandFailed("making: mmdebstrap ended", argv=[], status=1, tail="E: dpkg failed")
    assert make._explain(other) is other


def test_without_mmdebstrap_the_error_says_how_to_get_it(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingError, match="mmdebstrap") as caught:
        make_one(store, folder, tmp_path / "root.tar")
    assert "apt-get install mmdebstrap" in caught.value.fix


def test_a_package_that_changed_in_the_store_is_not_installed(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "exit 99")
    (folder / CHOSEN[0].deb).write_bytes(b"other")
    with pytest.raises(InputError, match="it was not used"):
        make_one(store, folder, tmp_path / "root.tar")
    assert leftovers(store) == []


def test_the_command_names_every_package_and_no_network() -> None:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    argv = mmdebstrap_argv(DEFINITION, LOCK, Path("/r"), Path("out.tar"))
    assert argv[-3:] == [SUITE, "out.tar", f"deb [trusted=yes] copy:/r {SUITE} main"]
    assert "--include=base-thing,hello,libhello1" in argv
    assert not any("://" in word for word in argv)


def test_as_root_the_mounts_of_a_killed_run_end_with_it_and_there_is_no_network() -> None:
    """A mount made behind ``own_namespaces`` is not seen outside, whatever happens to the program."""
    if os.geteuid() != 0:
        assert own_namespaces() == []
        return
    mark = f"orbit-test-{os.getpid()}"
    script = (
        f"mkdir -p /tmp/{mark} && mount -t tmpfs {mark} /tmp/{mark} && grep -c {mark} /proc/self/mounts; "
        "grep -c : /proc/net/dev"
    )
    done = subprocess.run([*own_namespaces(), "sh", "-c", script], capture_output=True, text=True, check=False)
    os.rmdir(f"/tmp/{mark}")
    if "Operation not permitted" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    assert done.stdout.split() == ["1", "1"], done.stderr
    assert mark not in Path("/proc/self/mounts").read_text()
