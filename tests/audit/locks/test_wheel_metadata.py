"""Metadata without content: the same distributions and members as a whole reading, remembered by sha256."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard

from orbit.audit.archives.wheel_names import read_name
from orbit.audit.archives.wheels import read_wheels
from orbit.audit.archives.zip_source import ZipSource
from orbit.audit.facts import Layout
from orbit.audit.locks.wheel_metadata import Remembered, WheelMetadata, machine_of, metadata_facts, read_metadata
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from tests.writers.elf import write_elf
from tests.writers.wheels import Entry, write_wheel

LAYOUT = Layout(Path("/"), "lib/python3.12/site-packages", (3, 12), "")
NATIVE = ("cp312-cp312-manylinux_2_28_x86_64",)


def metadata(path: Path) -> WheelMetadata:
    with ZipSource(path) as source:
        return read_metadata(source)


def demo(folder: Path) -> Path:
    files = {
        "demo/__init__.py": b"",
        "demo/_c.abi3.so": write_elf(needed=["libc.so.6"]),
        "demo-1.0.data/scripts/tool": b"#!python\n",
        "demo.pth": b"import demo\n",
    }
    return write_wheel(folder, "demo", files, tags=NATIVE, requires=["numpy>=2"], unlisted=["demo/__init__.py"])


def test_as_a_whole_reading_but_for_content(tmp_path: Path) -> None:
    path = demo(tmp_path)
    whole = read_wheels([path], load_profile("probe"), Silent())
    facts = metadata_facts(path.name, metadata(path), LAYOUT)
    assert facts.dist == whole.dists[0]
    assert facts.dist.requires == ("numpy>=2",)
    assert [disorder.kind for disorder in facts.dist.disorders] == ["unlisted"]
    assert facts.files == {key: fact for key, fact in whole.tree.entries.items() if fact.is_file}
    assert facts.texts["lib/python3.12/site-packages/demo.pth"] == b"import demo\n"
    assert [(item.path, item.machine, item.dynamic) for item in facts.objects] == [
        ("lib/python3.12/site-packages/demo/_c.abi3.so", 62, None)
    ]
    assert (facts.digests, facts.exports) == ({}, {})


def test_members_that_installers_refuse_are_no_files(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "demo", {}, extra=[Entry("../evil.py"), Entry(b"caf\xe9.py", flags=0x800)])
    found = metadata(path)
    facts = metadata_facts(path.name, found, LAYOUT)
    assert all("evil" not in key for key in facts.files)
    assert "unsafe" in [disorder.kind for disorder in facts.dist.disorders]
    assert Remembered(None).find("a") is None


@pytest.mark.parametrize(
    ("file", "machine"),
    [
        ("a-1-cp312-cp312-manylinux_2_28_x86_64.whl", 62),
        ("a-1-py3-none-manylinux2014_aarch64.whl", 183),
        ("a-1-py3-none-any.whl", 0),
        ("not a wheel", 0),
    ],
)
def test_machine_of_a_tag(file: str, machine: int) -> None:
    assert machine_of(read_name(file)) == machine


def test_remembered_and_read_again(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "demo", {}, extra=[Entry(b"\xff.py", flags=0x800)])
    memory, key, found = Remembered(tmp_path / "memory"), "a" * 64, metadata(path)
    assert memory.find(key) is None
    memory.keep(key, found)
    assert memory.find(key) == found
    assert [entry.name for entry in (tmp_path / "memory").iterdir()] == [key]


def signed(content: object) -> bytes:
    data = zstandard.ZstdCompressor().compress(msgspec.msgpack.encode(content))
    return hashlib.sha256(data).digest() + data


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:40] + b"x" + data[41:],
        lambda data: hashlib.sha256(b"no zstd").digest() + b"no zstd",
        lambda data: signed({"members": []}),
        lambda data: signed({"format": 0, "members": [], "texts": {}}),
        lambda data: signed([1]),
    ],
)
def test_damage_counts_as_absent(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    memory, key = Remembered(tmp_path / "memory"), "a" * 64
    memory.keep(key, metadata(demo(tmp_path)))
    file = tmp_path / "memory" / key
    file.write_bytes(damage(file.read_bytes()))
    assert memory.find(key) is None


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file is in the way")
    memory = Remembered(tmp_path / "memory")
    memory.keep("a" * 64, metadata(demo(tmp_path)))
    assert memory.find("a" * 64) is None


def test_keys_that_are_no_digests_name_no_file(tmp_path: Path) -> None:
    memory = Remembered(tmp_path / "memory")
    for key in ("../../evil", "", "a/b"):
        memory.keep(key, metadata(demo(tmp_path)))
        assert memory.find(key) is None
    assert not (tmp_path / "memory").exists()
