"""wheel-archive: each contradiction of a wheel becomes one finding with what to do; a sound wheel has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.archives.zip_source import PROBLEMS
from orbit.audit.rules.integrity import wheel_archive
from orbit.core.findings import Severity
from tests.audit.support import judge_wheels
from tests.source import ROOT
from tests.writers.elf import write_elf
from tests.writers.wheels import Entry, write_wheel


def test_a_sound_wheel(tmp_path: Path) -> None:
    files = {"x/__init__.py": b"", "x/_c.so": write_elf(), "x-1.0.data/scripts/tool": b"#!python\n"}
    assert judge_wheels(write_wheel(tmp_path, "x", files, tags=("py3-none-linux_x86_64",)), "wheel-archive") == []


@pytest.mark.parametrize(
    ("extra", "severity", "says"),
    [
        (Entry("../../etc/cron.d/x", b"x"), Severity.ERROR, "leads out of the folder"),
        (Entry("x/link", b"/etc/passwd", mode=0o120777), Severity.ERROR, "symbolic link"),
        (Entry("x/big", bytes(1 << 20), deflate=True, size=300 << 20), Severity.ERROR, "unpack to more"),
        (Entry("x/late.py", b"x"), Severity.WARNING, "not in RECORD"),
        (Entry("x/__init__.py", b"x"), Severity.ERROR, "in it twice"),
        (Entry("x/__INIT__.py", b"x"), Severity.WARNING, "differ in case only"),
    ],
)
def test_members(tmp_path: Path, extra: Entry, severity: Severity, says: str) -> None:
    path = write_wheel(tmp_path, "x", {"x/__init__.py": b""}, extra=[extra])
    (finding,) = [item for item in judge_wheels(path, "wheel-archive") if says in item.message]
    assert (finding.severity, finding.subject) == (severity, path.name)
    assert finding.fix
    assert str(extra.name) in next(iter(finding.evidence.values()))


def test_tags_changed_by_renaming_the_file(tmp_path: Path) -> None:
    """As found in ray 2.55.1: WHEEL says linux_x86_64, the file name manylinux2014."""
    path = write_wheel(
        tmp_path,
        "x",
        {"x.so": write_elf()},
        tags=("py3-none-linux_x86_64",),
        file="x-1.0-py3-none-manylinux2014_x86_64.whl",
    )
    (finding,) = judge_wheels(path, "wheel-archive")
    assert finding.evidence["tags"] == "py3-none-manylinux2014_x86_64, py3-none-linux_x86_64"


def test_many_names_are_counted_and_some_are_shown(tmp_path: Path) -> None:
    extra = [Entry(f"x/late{number}.py", b"x") for number in range(9)]
    (finding,) = judge_wheels(write_wheel(tmp_path, "x", {}, extra=extra), "wheel-archive")
    assert finding.evidence["unlisted"].endswith("and 4 more")


def test_other_versions_in_the_folder_are_named(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path, "x", {"x.py": b""}, version=version)
    (finding,) = judge_wheels(tmp_path, "wheel-archive")
    assert (finding.severity, finding.subject) == (Severity.NOTE, "x-2.0-py3-none-any.whl")
    assert finding.evidence["beside"] == "x-1.0-py3-none-any.whl"


def test_two_wheels_with_one_path_are_a_conflict_before_anything_is_installed(tmp_path: Path) -> None:
    write_wheel(tmp_path, "alpha", {"shared/x.py": b"one", "shared/same.py": b"same"})
    write_wheel(tmp_path, "beta", {"shared/x.py": b"two", "shared/same.py": b"same"})
    (finding,) = judge_wheels(tmp_path, "file-conflict")
    assert (finding.severity, finding.evidence["paths"]) == (Severity.ERROR, "shared/x.py")
    assert "alpha" in finding.subject
    assert "beta" in finding.subject
    assert judge_wheels(tmp_path, "record-hash") == []
    (tmp_path / "beta-1.0-py3-none-any.whl").unlink()
    assert judge_wheels(tmp_path, "file-conflict") == []


def test_what_record_says_is_compared_with_the_members(tmp_path: Path) -> None:
    rows = ["x/gone.py,sha256=AAAA,3", "x/a.py,sha256=AAAA,1"]
    path = write_wheel(tmp_path, "x", {"x/a.py": b"a", "x/b.py": b"b"}, unlisted=["x/a.py"], rows=rows)
    found = {finding.evidence["paths"] for finding in judge_wheels(path, "record-hash")}
    assert found == {"x/gone.py", "x/a.py"}


def test_plain_python_is_something_to_audit_and_a_broken_archive_is_damage(tmp_path: Path) -> None:
    write_wheel(tmp_path, "x", {"x.py": b""})
    assert judge_wheels(tmp_path, "damaged-binary") == []
    (tmp_path / "y-1.0-py3-none-any.whl").write_bytes(b"PK, but no archive: nothing can be read of this file")
    (finding,) = judge_wheels(tmp_path, "damaged-binary")
    assert finding.subject == "y-1.0-py3-none-any.whl"
    assert "not readable as a wheel" in finding.message


def test_every_kind_that_the_reader_tells_has_a_sentence() -> None:
    source = (ROOT / "orbit" / "audit" / "archives" / "wheel_disorder.py").read_text() + (
        ROOT / "orbit" / "audit" / "archives" / "wheels.py"
    ).read_text()
    for kind in wheel_archive.DIFFERENCES:
        assert f'"{kind}"' in source, kind
    assert not set(wheel_archive.DIFFERENCES) & set(PROBLEMS)
