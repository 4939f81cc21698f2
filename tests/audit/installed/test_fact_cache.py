"""Remembered digests: used for unchanged files only, never for fresh or edited ones, and damage is harmless."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orbit.audit.installed import fact_cache
from orbit.audit.installed.fact_cache import FactCache
from orbit.audit.installed.tree import find_layout
from orbit.audit.reports.report import TargetReport
from orbit.audit.run import audit_environment
from orbit.profile.model import load_profile
from tests.writers.environment import EnvironmentWriter, write_sound_environment


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentWriter:
    monkeypatch.setattr(fact_cache, "SETTLE_NS", 0)
    env = write_sound_environment(tmp_path / "e")
    time.sleep(0.02)  # longer than a tick of the file system's clock
    return env


def audit(env: EnvironmentWriter) -> TargetReport:
    return audit_environment(env.prefix, load_profile("probe"), cache=env.prefix.parent / "facts")


def remembered(report: TargetReport) -> int:
    return report.facts["remembered_digests"]


def test_second_audit_hashes_nothing(env: EnvironmentWriter) -> None:
    first, second = audit(env), audit(env)
    assert remembered(first) == 0
    assert remembered(second) == second.facts["verified_files"] == first.facts["verified_files"] > 0
    assert second.findings == first.findings


def test_edit_that_restores_size_and_times_is_seen(env: EnvironmentWriter) -> None:
    audit(env)
    path = env.site / "good/data.txt"
    info = path.stat()
    path.write_bytes(b"tExt\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    report = audit(env)
    assert [finding.rule for finding in report.findings if finding.fatal] == ["record-hash"]
    assert remembered(report) == report.facts["verified_files"] - 1


def test_fresh_files_are_not_remembered(env: EnvironmentWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_cache, "SETTLE_NS", 3_600_000_000_000)
    audit(env)
    assert remembered(audit(env)) == 0


def cache_file(env: EnvironmentWriter) -> Path:
    (path,) = (env.prefix.parent / "facts").glob("*.digests")
    return path


def signed(content: object) -> bytes:
    """A cache file whose checksum is right, whatever is in it."""
    data = content if isinstance(content, bytes) else msgspec.msgpack.encode(content)
    return hashlib.sha256(data).digest() + data


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:20],
        lambda data: data[:-3],
        lambda data: data + b"\0",
        lambda data: b"\xc1" + data,
        lambda data: bytes(len(data)),
        lambda data: data.replace(b"good/data.txt", b"good/data.t\xff\xfe"),
        lambda data: data[32:],  # as it was before there was a checksum
        lambda data: signed(b""),
        lambda data: signed(data[32:-1]),
        lambda data: signed({"format": fact_cache.FORMAT, "prefix": 1, "known": {}}),
        lambda data: signed(msgspec.msgpack.decode(data[32:]) | {"format": fact_cache.FORMAT + 1}),
        lambda data: signed(msgspec.msgpack.decode(data[32:]) | {"prefix": "/elsewhere"}),
    ],
)
def test_damaged_cache_is_an_empty_one_and_is_written_anew(
    env: EnvironmentWriter, damage: Callable[[bytes], bytes]
) -> None:
    audit(env)
    path = cache_file(env)
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    report = audit(env)
    assert [finding for finding in report.findings if finding.fatal] == []
    assert remembered(report) == 0
    assert path.read_bytes() == before
    assert remembered(audit(env)) == report.facts["verified_files"]


def test_one_wrong_bit_anywhere_is_seen(env: EnvironmentWriter) -> None:
    """A digest with a wrong bit would make a sound file look edited."""
    audit(env)
    layout, path = find_layout(env.prefix, "3.12"), cache_file(env)
    before = path.read_bytes()
    assert FactCache(path.parent, layout)
    for position in range(len(before)):
        path.write_bytes(before[:position] + bytes([before[position] ^ 4]) + before[position + 1 :])
        assert not FactCache(path.parent, layout), position


def test_cache_file_replaced_by_a_folder(env: EnvironmentWriter) -> None:
    audit(env)
    path = cache_file(env)
    path.unlink()
    path.mkdir()
    report = audit(env)
    assert [finding for finding in report.findings if finding.fatal] == []
    assert remembered(report) == 0


def test_cache_that_cannot_be_written_costs_nothing_but_time(env: EnvironmentWriter) -> None:
    (env.prefix.parent / "facts").write_text("a file is in the way")
    assert [finding for finding in audit(env).findings if finding.fatal] == []
