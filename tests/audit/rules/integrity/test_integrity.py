"""record-hash, hollow-package, dangling-link, file-conflict, unreadable: each broken once, each with a near miss."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

INTEGRITY = (
    "record-hash", "hollow-package", "dangling-link", "file-conflict", "unreadable", "damaged-binary", "unowned-file",
    "shadowed-module", "interpreter-link", "not-executable", "required-artifact",
)  # fmt: skip


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


def test_two_owners_with_different_bytes(env: EnvironmentWriter) -> None:
    env.add("first", {"shared.py": b"one", "same.py": b"="})
    env.add("second", {"shared.py": b"two", "same.py": b"="})
    (finding,) = judge(env.prefix, "file-conflict")
    assert finding.subject == "first + second"
    assert finding.evidence["on disk"] == "1 from second"
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


def test_compiled_files_may_go(env: EnvironmentWriter) -> None:
    env.add("more", {"more/a.py": b""}, rows=["more/__pycache__/a.cpython-312.pyc,,", "more/b.py,,"])
    (finding,) = judge(env.prefix, "record-hash")
    assert finding.evidence["paths"] == "more/b.py"


def test_files_behind_a_link_that_leads_nowhere_are_the_links_matter(env: EnvironmentWriter) -> None:
    shutil.rmtree(env.site / "good")
    (env.site / "good").symlink_to("/home/ann/.cache/uv/archive-v0/x/good")
    assert judge(env.prefix, "record-hash") == []


def test_weak_algorithms_are_noted_once(env: EnvironmentWriter) -> None:
    for name in ("one", "two"):
        env.add(name, {f"{name}/__init__.py": b""}, rows=[f"{name}/x.py,md5=abc,0"])
        (env.site / name / "x.py").write_bytes(b"")
    (finding,) = judge(env.prefix, "record-hash")
    assert (finding.subject, finding.severity.value) == ("md5", "note")
    assert finding.message.startswith("2 files")


def test_paths_out_of_the_environment(env: EnvironmentWriter) -> None:
    env.add("evil", {"evil/__init__.py": b""}, rows=["../../../../../etc/cron.d/x,,", "/etc/passwd,,"])
    (finding,) = judge(env.prefix, "record-hash")
    assert finding.message.startswith("RECORD lists 2 paths outside")


def test_scripts_beside_a_bare_site_packages_folder_are_fine(env: EnvironmentWriter) -> None:
    (env.prefix / "bin").mkdir()
    (env.prefix / "bin/tool").write_text("#!/bin/sh\n")
    env.add("tool", {"tool/__init__.py": b""}, rows=["../../../bin/tool,,"])
    assert judge(env.site, "record-hash") == []
    env.add("evil", {"evil/__init__.py": b""}, rows=["../../../../../etc/x,,"])
    assert len(judge(env.site, "record-hash")) == 1


@pytest.mark.parametrize(("installer", "silent"), [("debian", True), ("rpm", True), ("pip", False), ("", False)])
def test_packages_of_the_system_have_no_record(env: EnvironmentWriter, installer: str, silent: bool) -> None:
    (env.site / "good-1.0.dist-info/RECORD").unlink()
    (env.site / "good-1.0.dist-info/INSTALLER").write_text(f"{installer}\n")
    assert (judge(env.prefix, "record-hash") == []) is silent


def test_digests_in_hexadecimal(env: EnvironmentWriter) -> None:
    data = b"content"
    right, wrong = hashlib.sha256(data).hexdigest(), hashlib.sha256(b"other").hexdigest()
    env.add("hex", {"hex/__init__.py": b""}, rows=[f"hex/a.py,sha256={right},7", f"hex/b.py,sha256={wrong},7"])
    for name in ("a", "b"):
        (env.site / f"hex/{name}.py").write_bytes(data)
    (finding,) = judge(env.prefix, "record-hash")
    assert finding.evidence["paths"] == "hex/b.py"


def test_what_dpkg_owns_is_its_matter(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "usr")
    (env.site / "good/data.txt").write_bytes(b"tExt\n")
    (env.site / "apt_pkg.so").write_bytes(b"x")
    system = tmp_path / "usr/lib/python3/dist-packages"
    system.parent.mkdir()
    os.rename(env.site, system)
    for rule in ("record-hash", "unowned-file"):
        assert judge(system, rule) == []
    local = tmp_path / "usr/local/lib/python3.12/dist-packages"
    local.parent.mkdir(parents=True)
    os.rename(system, local)
    for rule in ("record-hash", "unowned-file"):
        assert len(judge(local, rule)) == 1
