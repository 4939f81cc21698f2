"""A lock as a target: judged before installing, honest about what was not read; Orbit's own by its own policy."""

from __future__ import annotations

import datetime as dt
import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from orbit.audit.locks.lock import METADATA_RULES, audit_lock
from orbit.audit.reports.report import TargetReport
from orbit.audit.rules import RULES
from orbit.core.findings import Severity
from orbit.core.paths import checkout_root
from orbit.profile.model import load_profile
from tests.writers.web import WebServer, serving
from tests.writers.wheels import write_wheel

TODAY = dt.date(2027, 1, 1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        yield running


class LockWriter:
    """A foreign uv.lock whose wheels a server has."""

    def __init__(self, folder: Path, server: WebServer) -> None:
        self.path = folder / "uv.lock"
        self.folder = folder
        self.server = server
        self.tables: list[str] = []

    def add(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        version: str = "1.0",
        requires: Sequence[str] = (),
        tags: Sequence[str] = ("py3-none-any",),
        pure: bool | None = None,
    ) -> None:
        path = write_wheel(self.folder / "w", name, files, version=version, requires=requires, tags=tags, pure=pure)
        data = path.read_bytes()
        self.server.files[f"/{path.name}"] = data
        digest = hashlib.sha256(data).hexdigest()
        self.tables.append(
            f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
            f'source = {{ registry = "{self.server.url}/simple" }}\n'
            f'wheels = [{{ url = "{self.server.url}/{path.name}", hash = "sha256:{digest}", size = {len(data)} }}]\n'
        )

    def audit(self, head: str = "", **options: object) -> TargetReport:
        self.path.write_text(f'version = 1\nrequires-python = ">=3.10"\n{head}' + "".join(self.tables))
        return audit_lock(self.path, load_profile("probe"), today=TODAY, **options)  # type: ignore[arg-type]


@pytest.fixture
def lock(tmp_path: Path, server: WebServer) -> LockWriter:
    return LockWriter(tmp_path, server)


def told(report: TargetReport, *ignored: str) -> list[tuple[str, str, Severity]]:
    return [(f.rule, f.subject, f.severity) for f in report.findings if f.rule not in ("lock-source", *ignored)]


def test_a_sound_lock(lock: LockWriter) -> None:
    lock.add("a", {"a.py": b"a"}, requires=["b>=1"])
    lock.add("b", {"b.py": b"b"})
    report = lock.audit()
    assert told(report) == []
    assert (report.kind, report.facts["wheels"], report.facts["requests"]) == ("lock", 2, 2)
    assert report.distributions == {"a": "1.0", "b": "1.0"}
    assert set(report.rules) == {name for name in METADATA_RULES if name in RULES}


def test_conflicts_are_seen_before_anything_is_installed(lock: LockWriter) -> None:
    lock.add("one", {"shared/x.py": b"1", "same.py": b"="})
    lock.add("two", {"shared/x.py": b"2", "same.py": b"="})
    assert ("file-conflict", "one + two", Severity.ERROR) in told(lock.audit())


def test_the_callers_own_waivers_hold_for_locks_too(lock: LockWriter, tmp_path: Path) -> None:
    lock.add("one", {"x.py": b"1"})
    lock.add("two", {"x.py": b"2"})
    own = tmp_path / "own.toml"
    own.write_text(
        'schema = 1\n[[waivers]]\nrule = "file-conflict"\nsubject = "one + two"\n'
        'reason = "both write the same thing in other words"\nexpires = 2027-12-31\n'
    )
    waived = [finding.rule for finding in lock.audit(expectations=(own,)).findings if finding.waiver]
    assert "file-conflict" in waived


def test_where_orbit_settles_who_wins_a_conflict_is_a_note(lock: LockWriter, tmp_path: Path) -> None:
    root = checkout_root()
    shutil.copytree(root / "env", tmp_path / "env")
    shutil.copytree(root / "kernels/recipes", tmp_path / "kernels/recipes")
    shutil.copy(root / "pyproject.toml", tmp_path)
    for name in ("one", "two"):
        lock.add(name, {"build_backend.py": name.encode()})
    needs = 'dependencies = [{ name = "one" }, { name = "two" }]'
    lock.tables.append(f'[[package]]\nname = "orbit"\nversion = "1"\nsource = {{ editable = "." }}\n{needs}\n')
    report = lock.audit(offline=True, wheels=[tmp_path / "w"])
    (finding,) = (finding for finding in report.findings if finding.rule == "file-conflict")
    assert finding.severity is Severity.NOTE
    assert "the last owner by name" in finding.evidence["settled by"]


def test_extension_for_another_interpreter_in_a_wheel_that_promises_all(lock: LockWriter) -> None:
    files = {"k/ops.cpython-310-x86_64-linux-gnu.so": b"", "k/good.abi3.so": b""}
    lock.add("k", files, tags=("cp310-abi3-manylinux_2_28_x86_64",))
    subjects = [(rule, subject) for rule, subject, severity in told(lock.audit()) if severity is Severity.ERROR]
    assert ("foreign-extension", "k/ops.cpython-310-x86_64-linux-gnu.so") in subjects


def test_versions_that_do_not_fit_and_those_that_an_override_forces(lock: LockWriter) -> None:
    lock.add("a", {"a.py": b"a"}, requires=["b>=2"])
    lock.add("b", {"b.py": b"b"})
    assert told(lock.audit()) == [("requirement", "b", Severity.ERROR)]
    forced = '[manifest]\noverrides = [{ name = "b", specifier = "==1.0" }]\n'
    (finding,) = [finding for finding in lock.audit(forced).findings if finding.rule == "requirement"]
    assert finding.severity is Severity.NOTE
    assert "forced by the lock's override b==1.0" in finding.message


def test_code_that_would_run_at_every_start(lock: LockWriter) -> None:
    lock.add("evil", {"evil.pth": b"import os; os.system('x')\n", "evil.py": b""})
    assert ("path-file", "evil.pth", Severity.ERROR) in told(lock.audit())


def test_what_is_not_read_is_skipped_and_never_silent(lock: LockWriter) -> None:
    lock.add("a", {"a.py": b"a"})
    report = lock.audit(offline=True)
    reasons = {skip.what: skip.reason for skip in report.skipped}
    assert "--offline" in reasons["1 of 1 files: a-1.0-py3-none-any.whl"]
    assert reasons["arch-coverage"].startswith("needs the content")
    assert set(reasons) >= set(RULES) - set(METADATA_RULES)
    assert (report.facts["wheels"], report.facts["unread_files"]) == (0, 1)


def test_a_file_of_another_content_is_an_error(lock: LockWriter) -> None:
    lock.add("a", {"a.py": b"a"})
    lock.server.files["/a-1.0-py3-none-any.whl"] += b"more"
    assert told(lock.audit()) == [("wheel-archive", "a-1.0-py3-none-any.whl", Severity.ERROR)]


def test_remembered_wheels_need_no_server(lock: LockWriter, tmp_path: Path) -> None:
    lock.add("one", {"x.py": b"1"})
    lock.add("two", {"x.py": b"2"})
    first = lock.audit(cache=tmp_path / "cache")
    second = lock.audit(cache=tmp_path / "cache", offline=True)
    assert second.findings == first.findings
    assert second.facts["remembered_wheels"] == 2
    assert [skip.what for skip in second.skipped if "files" in skip.what] == []


def test_only_the_rules_that_were_asked_for(lock: LockWriter) -> None:
    lock.add("a", {"x.py": b"a"}, requires=["gone"])
    lock.add("b", {"x.py": b"b"})
    report = lock.audit(rules={"requirement"})
    assert (report.rules, told(report)) == (("requirement",), [("requirement", "gone", Severity.ERROR)])
    assert {skip.what: skip.reason for skip in report.skipped}["file-conflict"].startswith("not selected")


def test_two_versions_of_one_package_are_not_one_environment(lock: LockWriter) -> None:
    lock.add("a", {"a.py": b"1"})
    lock.add("a", {"a.py": b"2"}, version="2.0")
    report = lock.audit()
    assert told(report) == []
    assert ("a 1.0", "the lock has several versions; one was judged") in [(s.what, s.reason) for s in report.skipped]


def test_half_a_family_is_seen_in_a_resolution_and_not_asked_of_a_list(lock: LockWriter, tmp_path: Path) -> None:
    lock.add("flashinfer-cubin", {"flashinfer_cubin.py": b""})
    assert told(lock.audit()) == [("family", "flashinfer-cubin", Severity.ERROR)]
    path = tmp_path / "requirements.txt"
    path.write_text(f"flashinfer-cubin==1.0 --hash=sha256:{'ab' * 32}\n")
    assert told(audit_lock(path, load_profile("probe"), today=TODAY)) == []


def test_requirements_file(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("opencv-python==4.12\nopencv-python-headless==4.12\ndeep-ep==1.0.0\n")
    report = audit_lock(path, load_profile("probe"), today=TODAY)
    assert told(report) == [
        ("lock-hash", "requirements.txt", Severity.WARNING),
        ("family", "opencv-python + opencv-python-headless", Severity.ERROR),
        ("look-alike", "deep-ep", Severity.ERROR),
    ]
    assert any("names no files" in skip.reason for skip in report.skipped)


def test_orbits_own_lock_by_its_own_policy(tmp_path: Path) -> None:
    root = checkout_root()
    shutil.copytree(root / "env", tmp_path / "env")
    shutil.copytree(root / "kernels/recipes", tmp_path / "kernels/recipes")
    shutil.copy(root / "pyproject.toml", tmp_path)
    text = (root / "uv.lock").read_text(encoding="utf-8")
    (tmp_path / "uv.lock").write_text(text, encoding="utf-8")
    report = audit_lock(tmp_path / "uv.lock", load_profile("cu130"), offline=True, today=TODAY)
    assert told(report) == []
    assert report.facts["packages"] > 200
    assert "--offline" in {skip.what: skip.reason for skip in report.skipped}["lock-stale"]
    cut = text.replace("hash = ", "hush = ", 1)
    (tmp_path / "uv.lock").write_text(cut, encoding="utf-8")
    report = audit_lock(tmp_path / "uv.lock", load_profile("cu130"), offline=True, today=TODAY)
    assert [finding.rule for finding in report.findings] == ["lock-hash"]
