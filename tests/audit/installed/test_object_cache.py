"""Remembered facts of ELF files: the same facts, only while nothing changed, and never from a damaged file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orbit.audit.facts import Environment
from orbit.audit.installed import environment, fact_cache, object_cache
from orbit.audit.installed.environment import read_environment
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

PROFILE = load_profile("probe")


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentWriter:
    for module in (fact_cache, object_cache):
        monkeypatch.setattr(module, "SETTLE_NS", 0)
    env = EnvironmentWriter(tmp_path / "e")
    device = write_section(write_container("sm_90a", "compute_90"))
    wants = [Import("f", "V1", "libp.so.1"), Import("_ZN3c104funcE")]
    env.add("user", {"user/_c.so": write_elf(sections=[(".nv_fatbin", device)], needed=["libp.so.1"], imports=wants)})
    env.add("lib", {"lib/libp.so.1": write_elf(soname="libp.so.1", exports=[Export("f", "V1"), Export("g")])})
    env.add("bad", {"bad/libbad.so": b"\x7fELF\x02\x01" + b"\xff" * 90})
    time.sleep(0.02)  # longer than a tick of the file system's clock
    return env


def read(env: EnvironmentWriter, cache: Path) -> Environment:
    return read_environment(env.prefix, PROFILE, Silent(), cache)


def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def trap(*_arguments: object) -> None:
        raise AssertionError("an ELF file was read")

    monkeypatch.setattr(environment, "read_objects", trap)


def facts(env: Environment) -> tuple[object, ...]:
    return env.objects, env.exports, env.damaged


def test_remembered_facts_are_the_facts(
    env: EnvironmentWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read(env, tmp_path / "c")
    assert [item.path.rpartition("/")[2] for item in first.objects] == ["libp.so.1", "_c.so"]
    assert len(first.damaged) == 1
    nothing_is_read(monkeypatch)
    assert facts(read(env, tmp_path / "c")) == facts(first)


@pytest.mark.parametrize("change", ["content", "mode", "new", "gone", "readers"])
def test_any_change_reads_everything_again(
    env: EnvironmentWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    read(env, tmp_path / "c")
    path = env.site / "lib/libp.so.1"
    match change:
        case "content":
            before = path.stat()
            path.write_bytes(path.read_bytes()[:-1] + b"\1")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "mode":
            path.chmod(0o600)
        case "new":
            env.add("more", {"more/_m.so": write_elf()})
        case "gone":
            path.unlink()
        case _:
            monkeypatch.setattr(object_cache, "readers_hash", lambda: "another version of the readers")
    nothing_is_read(monkeypatch)
    with pytest.raises(AssertionError, match="an ELF file was read"):
        read(env, tmp_path / "c")


@pytest.mark.parametrize("keep", [0, 33, 200])
def test_damaged_cache_is_no_cache(env: EnvironmentWriter, tmp_path: Path, keep: int) -> None:
    first = read(env, tmp_path / "c")
    (path,) = (tmp_path / "c").glob("*.objects")
    path.write_bytes(path.read_bytes()[:keep] + b"\xff" * 40)
    assert facts(read(env, tmp_path / "c")) == facts(first)


def test_files_that_just_changed_are_not_remembered(
    env: EnvironmentWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_cache, "SETTLE_NS", 10**12)
    read(env, tmp_path / "c")
    assert list((tmp_path / "c").glob("*.objects")) == []


def test_names_that_are_not_utf8_are_read_each_time(env: EnvironmentWriter, tmp_path: Path) -> None:
    with open(os.fsencode(env.site) + b"/lib\xff.so", "wb") as file:
        file.write(write_elf())
    time.sleep(0.02)
    assert facts(read(env, tmp_path / "c")) == facts(read(env, tmp_path / "c"))
