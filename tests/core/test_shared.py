"""orbit.core.shared: a result travels whole or counts as absent, and no fault of the folder fails a build."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.core import shared as module
from orbit.core.records import Record, content_key
from orbit.core.shared import SEEN_NAME, Header, Shared, shared_root
from orbit.core.store import Store, cache_root
from orbit.errors import InputError


class Part(Record, frozen=True, kw_only=True):
    """Inputs hold records whose fields are not in the order of the alphabet."""

    zebra: int = 1
    apple: tuple[str, ...] = ("x",)


INPUTS: dict[str, Any] = {"of": "a", "part": Part()}
KEY = content_key(INPUTS)


def work(folder: Path) -> dict[str, Any]:
    (folder / "thing.whl").write_bytes(b"wheel" * 1000)
    (folder / "manifest.json").write_text("{}")
    return {"wheel": "thing.whl"}


def never(_folder: Path) -> dict[str, Any]:
    raise AssertionError("it was made again")


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "shared")


def test_what_one_machine_made_another_takes(tmp_path: Path, shared: Shared) -> None:
    here, there = Store(tmp_path / "here", shared), Store(tmp_path / "there", shared)
    made = here.obtain("wheel", INPUTS, work)
    taken = there.obtain("wheel", INPUTS, never)
    assert (made.reused, taken.reused) == (False, True)
    assert taken.record == made.record
    assert (taken.path / "thing.whl").read_bytes() == b"wheel" * 1000
    assert here.notes == there.notes == []
    assert not list((tmp_path / "there" / "tmp").iterdir())
    assert there.obtain("wheel", INPUTS, never).reused


def test_other_kinds_stay_at_home(tmp_path: Path, shared: Shared) -> None:
    Store(tmp_path / "here", shared).obtain("environment", INPUTS, work)
    assert not shared.root.exists()


def test_notes_of_one_machine_do_not_travel(tmp_path: Path, shared: Shared) -> None:
    store = Store(tmp_path / "here")
    store.obtain("wheel", INPUTS, work)
    found = store.find("wheel", INPUTS)
    assert found is not None
    assert (found.path / SEEN_NAME).is_file()
    assert shared.publish("wheel", KEY, found.path, tmp_path / "scratch") == ""
    folder = tmp_path / "out"
    folder.mkdir()
    assert shared.fetch("wheel", KEY, folder) == ""
    assert not (folder / SEEN_NAME).exists()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_damaged_file_is_absent_and_nothing_is_left(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    root = tmp_path_factory.mktemp("damage")
    shared = Shared(root / "shared")
    Store(root / "here", shared).obtain("wheel", INPUTS, work)
    path = shared.path("wheel", KEY)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:cut] + bytes([whole[cut] ^ 0xFF]) + whole[cut + 1 :]
    path.write_bytes(data.draw(st.sampled_from([whole[:cut], flipped])))
    there = Store(root / "there", shared)
    assert not there.obtain("wheel", INPUTS, work).reused
    assert there.notes
    assert not list((root / "there" / "tmp").iterdir())


def test_a_damaged_file_is_replaced_by_who_makes_the_result_anew(tmp_path: Path, shared: Shared) -> None:
    Store(tmp_path / "here", shared).obtain("wheel", INPUTS, work)
    path = shared.path("wheel", KEY)
    path.write_bytes(path.read_bytes()[:-100])  # a machine died while it wrote in place
    assert not Store(tmp_path / "there", shared).obtain("wheel", INPUTS, work).reused
    assert Store(tmp_path / "third", shared).obtain("wheel", INPUTS, never).reused


def test_a_whole_file_is_not_written_again(tmp_path: Path, shared: Shared) -> None:
    made = Store(tmp_path / "here", shared).obtain("wheel", INPUTS, work)
    before = shared.path("wheel", KEY).stat()
    assert shared.publish("wheel", KEY, made.path, tmp_path / "scratch") == ""
    after = shared.path("wheel", KEY).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("size", [-1, -7, 2**62])
def test_a_size_that_cannot_be_is_a_note(tmp_path: Path, shared: Shared, size: int) -> None:
    Store(tmp_path / "here", shared).obtain("wheel", INPUTS, work)
    path = shared.path("wheel", KEY)
    header, _, body = path.read_bytes().partition(b"\n")
    lie = msgspec.structs.replace(msgspec.json.decode(header, type=Header), size=size)
    path.write_bytes(msgspec.json.encode(lie) + b"\n" + body)
    there = Store(tmp_path / "there", shared)
    assert not there.obtain("wheel", INPUTS, work).reused
    assert there.notes


def test_a_member_name_that_no_file_can_have_is_a_note(tmp_path: Path, shared: Shared) -> None:
    packed = tmp_path / "evil.tar"
    with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("x")
        member.pax_headers = {"path": "a\0b"}
        tar.addfile(member)
    body = packed.read_bytes()
    header = Header(schema=1, kind="wheel", key=KEY, size=len(body), sha256=module.hashlib.sha256(body).hexdigest())
    path = shared.path("wheel", KEY)
    path.parent.mkdir(parents=True)
    path.write_bytes(msgspec.json.encode(header) + b"\n" + body)
    folder = tmp_path / "target"
    folder.mkdir()
    assert shared.fetch("wheel", KEY, folder)
    assert not list(folder.iterdir())


def test_a_result_under_another_s_name_is_refused(tmp_path: Path, shared: Shared) -> None:
    Store(tmp_path / "here", shared).obtain("wheel", {"of": "b"}, work)
    other = shared.path("wheel", content_key({"of": "b"}))
    header, _, body = other.read_bytes().partition(b"\n")
    lie = msgspec.structs.replace(msgspec.json.decode(header, type=Header), key=KEY)
    shared.path("wheel", KEY).parent.mkdir(parents=True)
    shared.path("wheel", KEY).write_bytes(msgspec.json.encode(lie) + b"\n" + body)
    there = Store(tmp_path / "there", shared)
    assert not there.obtain("wheel", INPUTS, work).reused
    assert "not what its name says" in there.notes[0]


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/b"])
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, shared: Shared, name: str) -> None:
    packed = tmp_path / "evil.tar"
    with tarfile.open(packed, "w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    body = packed.read_bytes()
    header = Header(schema=1, kind="wheel", key=KEY, size=len(body), sha256=module.hashlib.sha256(body).hexdigest())
    path = shared.path("wheel", KEY)
    path.parent.mkdir(parents=True)
    path.write_bytes(msgspec.json.encode(header) + b"\n" + body)
    folder = tmp_path / "target"
    folder.mkdir()
    assert "no plain file" in shared.fetch("wheel", KEY, folder)
    assert not list(folder.iterdir())
    assert not (tmp_path / "out").exists()


def test_a_mount_that_cannot_rename(tmp_path: Path, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    work(folder)

    def refuse(*_args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "rename", refuse)
    assert shared.publish("wheel", KEY, folder, tmp_path / "scratch") == ""
    assert [path.name for path in shared.path("wheel", KEY).parent.iterdir()] == [KEY]
    out = tmp_path / "out"
    out.mkdir()
    assert shared.fetch("wheel", KEY, out) == ""


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "here", Shared(tmp_path / "file" / "below"))
    assert not store.obtain("wheel", INPUTS, work).reused
    assert "cannot be" in store.notes[-1]


def test_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORBIT_SHARED", raising=False)
    assert shared_root() is None
    monkeypatch.setenv("ORBIT_SHARED", "/srv/orbit")
    assert shared_root() == Path("/srv/orbit")


def test_a_variable_that_names_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for value in (tmp_path / "file", tmp_path / "file" / "below"):
        for name, ask in (("ORBIT_SHARED", shared_root), ("ORBIT_CACHE", cache_root)):
            monkeypatch.setenv(name, str(value))
            with pytest.raises(InputError, match=f"{name}: .*/file is not a folder"):
                ask()
