"""The whole audit: names that are not text, and that nothing inspected runs or changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from orbit.audit.reports.report import TargetReport
from orbit.audit.reports.text import render_text
from orbit.audit.rules import RULES
from orbit.audit.run import audit_environment
from orbit.core.paths import data_root
from orbit.profile.model import load_profile
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, record_digest, write_sound_environment
from tests.writers.fatbin import write_container, write_section


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def test_file_names_that_are_not_utf8(env: EnvironmentWriter, tmp_path: Path) -> None:
    hopper = write_elf(needed=["libx.so"], sections=[(".nv_fatbin", write_section(write_container("sm_90a")))])
    with open(os.fsencode(env.site) + b"/native/\xff\xe9.so", "wb") as file:
        file.write(hopper)
    os.symlink(b"nowhere\xff", os.fsencode(env.site) + b"/link\xfe")
    with open(env.site / "native-1.0.dist-info/RECORD", "ab") as file:
        file.write(b"native/\xff\xe9.so,sha256=" + record_digest(hopper).encode() + b",%d\n" % len(hopper))
    for _ in range(2):
        report = audit_environment(env.prefix, load_profile("probe"), cache=tmp_path / "facts")
        assert {"arch-coverage", "needs-library", "dangling-link"} == {f.rule for f in report.findings if f.fatal}
        assert msgspec.json.decode(msgspec.json.encode(report), type=TargetReport) == report
        assert render_text(report).encode()


def test_nothing_inspected_runs_or_changes(env: EnvironmentWriter, tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n".encode()
    env.add("trap", {"trap/__init__.py": trap, "sitecustomize.py": trap, "trap.pth": b"import trap\n"})

    def state() -> dict[str, tuple[int, int, str]]:
        found = {}
        for path in sorted(env.prefix.rglob("*")):
            info = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (info.st_mtime_ns, info.st_mode, hashlib.sha256(data).hexdigest())
        return found

    before = state()
    audit_environment(env.prefix, load_profile("probe"))
    assert state() == before
    assert not (tmp_path / "ran").exists()


def test_every_rule_has_its_page_and_a_test() -> None:
    tested = "".join(path.read_text() for path in Path(__file__).parent.joinpath("rules").rglob("test_*.py"))
    for rule in RULES:
        assert (data_root() / "docs" / "rules" / f"{rule}.md").read_text().startswith(f"# {rule}\n"), rule
        assert f'"{rule}"' in tested, rule
