"""What is said of anybody's lock: each finding once, each with a sound lock that looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.locks.lock_formats import Listed
from orbit.audit.locks.lock_rules import generic_findings, sdist_findings
from orbit.audit.locks.sdist import SdistFacts
from orbit.core.findings import Finding, Severity
from orbit.profile.lock import Artifact, Lock, Package, Source
from orbit.profile.model import load_profile

SHA = "ab" * 32
COMMIT = "e7706faf8d1c3b9f241e36860640ad1dac644ede"
INDEX = "https://index.invalid/simple"


def artifact(filename: str, sha256: str = SHA, scheme: str = "https") -> Artifact:
    return Artifact(url=f"{scheme}://files.invalid/{filename}", filename=filename, sha256=sha256, size=1)


def package(name: str, *wheels: Artifact, index: str = INDEX, sdist: bool = False) -> Package:
    return Package(
        name=name,
        version="1.0",
        source=Source(kind="registry", url=index),
        wheels=wheels or (artifact(f"{name}-1.0-py3-none-any.whl"),),
        sdist=artifact(f"{name}-1.0.tar.gz") if sdist else None,
    )


def judge(*packages: Package, **fields: object) -> list[Finding]:
    kind = fields.pop("format", "uv")
    listed = Listed(Path("uv.lock"), kind, "x", packages, **fields)  # type: ignore[arg-type]
    return list(generic_findings(listed, load_profile("probe")))


def told(findings: list[Finding]) -> list[tuple[str, Severity, str]]:
    return [(finding.rule, finding.severity, finding.subject) for finding in findings]


def test_a_sound_lock_is_silent() -> None:
    git = Package(
        name="g", version="1.0", source=Source(kind="git", url=f"https://example.invalid/g?rev=main#{COMMIT}")
    )
    lock = Lock(path=Path("uv.lock"), sha256="x", requires_python=">=3.10", packages=())
    assert judge(package("a"), package("b"), git, lock=lock) == []


def test_without_sha256() -> None:
    bare = artifact("a-1.0-py3-none-any.whl", sha256="")
    assert told(judge(package("a", bare))) == [("lock-hash", Severity.WARNING, "uv.lock")]


@pytest.mark.parametrize("revision", ["", "main", "v1.0", COMMIT[:12]])
def test_repository_without_a_commit(revision: str) -> None:
    url = f"https://ann:secret@example.invalid/g#{revision}"
    (finding,) = judge(Package(name="g", version="", source=Source(kind="git", url=url)))
    assert (finding.rule, finding.fatal, finding.subject) == ("lock-hash", True, "g")
    assert "secret" not in str(finding)


def test_requirements_that_are_requests() -> None:
    findings = judge(format="requirements", unpinned=("a>=1",), unhashed=("b==1",))
    assert told(findings) == 2 * [("lock-hash", Severity.WARNING, "uv.lock")]


def test_several_places_for_one_name() -> None:
    options = ("--index-url https://ann:secret@a.invalid", "--extra-index-url https://b.invalid")
    (finding,) = judge(package("a"), format="requirements", options=options)
    assert (finding.rule, finding.severity) == ("lock-source", Severity.WARNING)
    assert "secret" not in str(finding)
    assert judge(package("a"), format="requirements", options=("--index-url https://a.invalid", "--no-binary x")) == []


def test_two_indexes_and_plain_http() -> None:
    plain = artifact("b-1.0-py3-none-any.whl", scheme="http")
    findings = judge(package("a"), package("b", plain, index="https://more.invalid"))
    assert told(findings) == 2 * [("lock-source", Severity.NOTE, "uv.lock")]


def test_no_wheel_here() -> None:
    other = artifact("a-1.0-cp312-cp312-win_amd64.whl")
    newer = artifact("b-1.0-cp312-cp312-manylinux_2_39_x86_64.whl")
    findings = judge(package("a", other, sdist=True), package("b", newer), package("c", sdist=True))
    assert told(findings) == [("lock-wheel", Severity.NOTE, "a"), ("lock-wheel", Severity.ERROR, "b")]
    assert "manylinux_2_39" in findings[1].evidence["wheels"]


@pytest.mark.parametrize(("requires", "count"), [("==3.11.*", 1), (">=3.13", 1), (">=3.12.4", 0), ("<4", 0), ("", 0)])
def test_a_lock_for_another_python(requires: str, count: int) -> None:
    lock = Lock(path=Path("uv.lock"), sha256="x", requires_python=requires, packages=())
    assert [finding.rule for finding in judge(package("a"), lock=lock)] == count * ["lock-python"]


def test_hollow_source_archives() -> None:
    hollow = SdistFacts(named=("csrc/x.cu",), absent=("csrc/x.cu",), members=3)
    whole = SdistFacts(named=("csrc/x.cu",), absent=(), members=3)
    win = artifact("a-1.0-cp312-cp312-win_amd64.whl")
    built = package("a", win, sdist=True)
    assert [f.subject for f in sdist_findings([built], {"a-1.0.tar.gz": hollow})] == ["a"]
    assert list(sdist_findings([built], {"a-1.0.tar.gz": whole})) == []
    assert list(sdist_findings([package("a", sdist=True)], {"a-1.0.tar.gz": hollow})) == []
