"""Opening a bundle that anybody may have made: folders and archives with things in them that are no files."""

from __future__ import annotations

import gzip
import io
import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.release.bundle import read
from orbit.release.bundle.model import MAX_BYTES, MAX_FILES
from orbit.release.bundle.read import read_contents
from orbit.release.bundle.write import write_archive, write_bundle
from tests.release.bundle.world import World


def archive(place: Path, *members: tuple[tarfile.TarInfo, bytes], base: bytes = b"") -> Path:
    """A tar file by the standard library."""
    with tarfile.open(place, "w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return place


def member(name: str, data: bytes = b"x", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


MARKS = [member("b/bundle.json"), member("b/release.intoto.json"), member("b/SHA256SUMS")]


def test_folder_and_archive_hold_the_same(world: World, tmp_path: Path) -> None:
    bundle = world.place / "bundle"
    inside = read_contents(bundle)
    assert inside.problems == ()
    assert set(inside.files) == {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()}
    plain = tmp_path / "plain.tar"
    with tarfile.open(plain, "w") as tar:  # as people pack it: with a leading ./, with folders
        tar.add(bundle, "./anything")
    top = tmp_path / "top.tar"
    with tarfile.open(top, "w") as tar:  # and without a folder around it
        for path in sorted(bundle.iterdir()):
            tar.add(path, path.name)
    assert read_contents(plain).files == inside.files
    assert read_contents(top).files == inside.files


def test_a_link_to_a_bundle_is_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "newest").symlink_to(folder)
    assert read_contents(tmp_path / "newest").problems == ()


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as place:
        place.bind(str(path))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.symlink_to("/etc/passwd"), "is a symbolic link, not a file"),
        (lambda path: path.symlink_to("bundle.json"), "is a symbolic link, not a file"),
        (make_fifo, "is a pipe, not a file"),
        (make_socket, "is a socket, not a file"),
        (lambda path: path.mkdir(), "is an empty folder"),
    ],
)
def test_what_is_no_file_is_told_and_not_followed(folder: Path, make: Callable[[Path], None], said: str) -> None:
    make(folder / "run" / "z")
    contents = read_contents(folder)
    assert [(problem.path, problem.why) for problem in contents.problems] == [("run/z", said)]
    assert "run/z" not in contents.files


@pytest.mark.parametrize("name", [".hidden", "a b", "\u00e4", "new\nline", "-rf", "x" * 250])
def test_names_that_no_bundle_has_are_told(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"x")
    (problem,) = read_contents(folder).problems
    assert problem.path.isprintable()
    assert problem.path.isascii()
    assert "name" in problem.why


def test_a_folder_in_a_folder_in_a_folder_ends_somewhere(folder: Path) -> None:
    (folder / "/".join("abcdefghij")).mkdir(parents=True)
    assert any("deeper" in problem.why for problem in read_contents(folder).problems)


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (folder / "uv.lock").chmod(0)
    assert [problem.path for problem in read_contents(folder).problems] == ["uv.lock"]


@pytest.mark.parametrize("kept", [(), ("bundle.json",), ("uv.lock", "RELEASE.md")])
def test_what_is_no_bundle_is_bad_input(folder: Path, kept: tuple[str, ...]) -> None:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.name not in kept:
            path.unlink()
    with pytest.raises(InputError, match="not a release bundle"):
        read_contents(folder)


def test_nothing_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_contents(tmp_path / "x")
    (tmp_path / "gone").symlink_to("nowhere")
    with pytest.raises(InputError, match="gone"):
        read_contents(tmp_path / "gone")
    make_fifo(tmp_path / "pipe")  # opening it must not wait
    with pytest.raises(InputError, match="pipe"):
        read_contents(tmp_path / "pipe")


# --- archives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (member("../../etc/cron.d/x"), "leads out"),
        (member("b/../../x"), "leads out"),
        (member("b/link", b"", type=tarfile.SYMTYPE, linkname="/etc"), "symbolic link"),
        (member("b/hard", b"", type=tarfile.LNKTYPE, linkname="b/bundle.json"), "a link"),
        (member("b/pipe", b"", type=tarfile.FIFOTYPE), "a pipe"),
        (member("b/device", b"", type=tarfile.CHRTYPE), "a device"),
        (member("b/bundle.json", b"again"), "twice"),
        (member("b/.x"), "name"),
    ],
)
def test_hostile_members_are_told_and_not_used(tmp_path: Path, info: tuple[tarfile.TarInfo, bytes], said: str) -> None:
    contents = read_contents(archive(tmp_path / "x.tar", *MARKS, info))
    assert [said in problem.why for problem in contents.problems] == [True], contents.problems
    assert contents.files["bundle.json"] == b"x"
    assert {path.name for path in tmp_path.iterdir()} == {"x.tar"}


def test_an_absolute_name_is_no_other_place(tmp_path: Path) -> None:
    marks = [member(info.name.removeprefix("b/")) for info, _ in MARKS]
    contents = read_contents(archive(tmp_path / "x.tar", *marks, member("/etc/passwd")))
    assert contents.files["etc/passwd"] == b"x"  # a file too many, which is told later
    assert {path.name for path in tmp_path.iterdir()} == {"x.tar"}


def test_a_claim_of_size_is_not_believed(tmp_path: Path) -> None:
    info, _data = member("b/run/huge.json")
    info.size = MAX_BYTES * 1000
    place = archive(tmp_path / "x.tar", *MARKS)
    data = place.read_bytes()[: 512 * 6] + info.tobuf(tarfile.GNU_FORMAT)
    place.write_bytes(data)
    with pytest.raises(InputError, match="too large"):
        read_contents(place)


def test_a_sparse_file_of_a_terabyte_is_refused_by_its_size(tmp_path: Path) -> None:
    place = archive(tmp_path / "x.tar", *MARKS)
    os.truncate(place, 1 << 40)
    with pytest.raises(InputError, match="larger than any bundle"):
        read_contents(place)


def test_many_small_files_end_somewhere(tmp_path: Path) -> None:
    place = archive(tmp_path / "x.tar", *MARKS, *(member(f"b/run/{n}.json", b"") for n in range(MAX_FILES)))
    with pytest.raises(InputError, match=f"more than {MAX_FILES} files"):
        read_contents(place)


def test_all_files_together_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(read, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="too large"):
        read_contents(folder)
    with pytest.raises(InputError, match="larg"):
        read_contents(archive(tmp_path / "x.tar", *MARKS, member("b/uv.lock", b"x" * 2000)))


@pytest.mark.parametrize("cut", [0, 1, 511, 513, 2000])
def test_an_archive_that_is_cut_short_is_bad_input(world: World, tmp_path: Path, cut: int) -> None:
    place = tmp_path / "x.tar"
    place.write_bytes(archive(tmp_path / "whole.tar", *MARKS, member("b/uv.lock", b"y" * 3000)).read_bytes()[:cut])
    with pytest.raises(InputError):
        read_contents(place)


def test_a_compressed_archive_is_named_as_one(tmp_path: Path) -> None:
    place = tmp_path / "x.tar.gz"
    place.write_bytes(gzip.compress(archive(tmp_path / "x.tar", *MARKS).read_bytes()))
    with pytest.raises(InputError, match="gzip"):
        read_contents(place)


def test_the_archive_that_is_written_is_read(world: World, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "b", world.parts(), world.signer)
    contents = read_contents(write_archive(bundle, tmp_path / "x.tar"))
    assert contents.problems == ()
    assert dict(contents.files) == dict(bundle.files)
