"""record-hash, hollow-package, dangling-link, file-conflict, unreadable: each broken once, each with a near miss."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

INTEGRITY = ("record-hash", "hollow-package", "dangling-link", "file-conflict", "unreadable", "damaged-binary")


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


@pytest.mark.parametrize("rule", INTEGRITY)
def test_sound_environment_is_clean(env: EnvironmentWriter, rule: str) -> None:
    assert [f for f in judge(env.prefix, rule) if f.fatal] == []


def test_changed_content_of_equal_size(env: EnvironmentWriter) -> None:
    (env.site / "good/data.txt").write_bytes(b"tExt\n")
    (finding,) = judge(env.prefix, "record-hash")
    assert (finding.subject, "other content" in finding.message) == ("good", True)
    assert finding.evidence["recorded"] != finding.evidence["found"]


def test_changed_size_and_missing_file(env: EnvironmentWriter) -> None:
    (env.site / "good/data.txt").unlink()
    (env.site / "native/__init__.py").write_bytes(b"x")
    messages = {finding.subject: finding.message for finding in judge(env.prefix, "record-hash")}
    assert "not on disk" in messages["good"]
    assert "another size" in messages["native"]


def test_folder_in_place_of_a_file(env: EnvironmentWriter) -> None:
    (env.site / "good/data.txt").unlink()
    (env.site / "good/data.txt").mkdir()
    (finding,) = judge(env.prefix, "record-hash")
    assert "not a regular file" in finding.message


def test_fifo_in_place_of_a_file_does_not_hang(env: EnvironmentWriter) -> None:
    (env.site / "good/data.txt").unlink()
    os.mkfifo(env.site / "good/data.txt")
    (finding,) = judge(env.prefix, "record-hash")
    assert "not a regular file" in finding.message


def test_unrecorded_files_and_rows_without_hash_are_fine(env: EnvironmentWriter) -> None:
    env.add("more", {"more/a.py": b""}, rows=["more/__pycache__/a.cpython-312.pyc,,"])
    (env.site / "more/__pycache__").mkdir()
    (env.site / "more/__pycache__/a.cpython-312.pyc").write_bytes(b"x")
    (env.site / "extra.pth").write_text("")
    assert judge(env.prefix, "record-hash") == []


def test_metadata_without_record(env: EnvironmentWriter) -> None:
    (env.site / "good-1.0.dist-info/RECORD").unlink()
    (finding,) = judge(env.prefix, "record-hash")
    assert "RECORD" in finding.message


def test_missing_init_makes_a_hollow_package(env: EnvironmentWriter) -> None:
    (env.site / "good/__init__.py").unlink()
    (finding,) = judge(env.prefix, "hollow-package")
    assert (finding.subject, finding.fatal) == ("good", True)
    assert "missing" in finding.message


def test_init_that_is_a_dangling_link(env: EnvironmentWriter) -> None:
    (env.site / "good/__init__.py").unlink()
    (env.site / "good/__init__.py").symlink_to("/home/ann/.cache/uv/archive/good/__init__.py")
    (finding,) = judge(env.prefix, "hollow-package")
    assert "link" in finding.message
    (link,) = judge(env.prefix, "dangling-link")
    assert link.evidence["target"].startswith("/home/ann/.cache")


def test_distribution_whose_files_are_all_gone(env: EnvironmentWriter) -> None:
    for path in (env.site / "good").iterdir():
        path.unlink()
    (finding,) = judge(env.prefix, "hollow-package")
    assert (finding.subject, "all" in finding.message) == ("good", True)
    assert judge(env.prefix, "record-hash") == []


def test_real_namespace_package_is_not_hollow(env: EnvironmentWriter) -> None:
    env.add("part-one", {"space/one/__init__.py": b""})
    env.add("part-two", {"space/two/__init__.py": b""})
    assert judge(env.prefix, "hollow-package") == []


def test_links_inside_the_prefix_are_fine(env: EnvironmentWriter) -> None:
    (env.prefix / "cuda").mkdir()
    (env.prefix / "cuda/include").symlink_to("../lib/python3.12/site-packages/good")
    (env.prefix / "lib64").symlink_to("lib")
    assert judge(env.prefix, "dangling-link") == []


@pytest.mark.parametrize(("target", "words"), [("nowhere", "leads nowhere"), ("../../x", "leaves"), ("/etc", "leaves")])
def test_links_that_lead_nowhere_or_out(env: EnvironmentWriter, target: str, words: str) -> None:
    (env.prefix / "link").symlink_to(target)
    (finding,) = judge(env.prefix, "dangling-link")
    assert words in finding.message
    assert finding.fatal


def test_borrowed_interpreter_is_a_warning(env: EnvironmentWriter) -> None:
    (env.prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (env.prefix / "bin").mkdir()
    (env.prefix / "bin/python").symlink_to("/usr/bin/python3.12")
    (env.prefix / "bin/python3").symlink_to("python")
    findings = judge(env.prefix, "dangling-link")
    assert [finding.fatal for finding in findings] == [False, False]


def test_two_owners_with_different_bytes(env: EnvironmentWriter) -> None:
    env.add("first", {"shared.py": b"one", "same.py": b"="})
    env.add("second", {"shared.py": b"two", "same.py": b"="})
    (finding,) = judge(env.prefix, "file-conflict")
    assert finding.subject == "first + second"
    assert finding.evidence["on disk"] == "0 from first, 1 from second"
    assert judge(env.prefix, "record-hash") == []


def test_closed_files_folders_and_the_owner(env: EnvironmentWriter) -> None:
    (env.site / "good/data.txt").chmod(0o640)
    (env.site / "native").chmod(0o700)
    findings = [finding for finding in judge(env.prefix, "unreadable") if finding.fatal]
    assert {finding.subject for finding in findings} == {"good", "native"}
    own = make_policy(uid=os.stat(env.site).st_uid)
    assert [finding for finding in judge(env.prefix, "unreadable", own) if finding.fatal] == []


def test_truncated_library_is_a_finding(env: EnvironmentWriter) -> None:
    library = env.site / "native/_c.cpython-312-x86_64-linux-gnu.so"
    library.write_bytes(library.read_bytes()[:200])
    subjects = [finding.subject for finding in judge(env.prefix, "damaged-binary")]
    assert subjects[0] == "native/_c.cpython-312-x86_64-linux-gnu.so"


def test_empty_environment_is_a_finding(tmp_path: Path) -> None:
    findings = judge(EnvironmentWriter(tmp_path / "none").prefix, "damaged-binary")
    assert [finding.message.split(" in it")[0] for finding in findings] == [
        "no installed distributions",
        "no shared objects",
    ]
