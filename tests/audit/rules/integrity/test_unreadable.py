"""unreadable and not-executable: mode bits for one user, grouped by cause; groups, setgid, root."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from orbit.audit.rules.integrity.access import Access, listed_groups
from orbit.core.findings import Severity
from tests.audit.rules.integrity.images import HOME, judge_image, read_image
from tests.audit.support import judge, make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "unreadable"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / HOME)


def fatal(env: EnvironmentWriter, rule: str = RULE, uid: int = 65534) -> dict[str, str]:
    return {f.subject: f.message for f in judge(env.prefix, rule, make_policy(uid=uid)) if f.fatal}


def test_one_closed_folder_explains_everything_in_it(env: EnvironmentWriter) -> None:
    env.add("big", {f"big/s{number % 9}/f{number}.py": b"" for number in range(90)})
    for path in (env.site / "big").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (env.site / "big").chmod(0o700)
    assert fatal(env) == {"big": "a folder closed to uid 65534: 90 files out of reach"}


def test_a_umask_is_one_finding_for_folders_and_one_for_files(env: EnvironmentWriter) -> None:
    for number in range(20):
        env.add(f"p{number}", {f"p{number}/__init__.py": b"", f"m{number}.py": b""})
        (env.site / f"p{number}").chmod(0o700)
        (env.site / f"m{number}.py").chmod(0o600)
    found = fatal(env)
    assert len(found) == 2
    assert sorted(found.values()) == [
        "20 files not readable by uid 65534",
        "20 folders in it are closed to uid 65534: 20 files out of reach",
    ]


def test_folders_need_both_bits_and_files_need_none_to_execute(env: EnvironmentWriter) -> None:
    (env.site / "good").chmod(0o754)
    (env.site / "native/_c.cpython-312-x86_64-linux-gnu.so").chmod(0o444)
    assert list(fatal(env)) == ["good"]


def test_setgid_and_sticky_bits_do_not_matter(env: EnvironmentWriter) -> None:
    (env.site / "good").chmod(0o2755)
    (env.site / "native").chmod(0o1777)
    assert fatal(env) == {}


def test_own_files_are_judged_by_the_owner_bits_alone(env: EnvironmentWriter) -> None:
    (env.site / "good/data.txt").chmod(0o077)
    assert list(fatal(env, uid=os.stat(env.site).st_uid or 65534)) == (
        [] if os.stat(env.site).st_uid == 0 else ["good"]
    )
    assert fatal(env) == {}


def test_root_is_not_judged_and_the_report_says_so(env: EnvironmentWriter) -> None:
    (env.site / "good").chmod(0o700)
    (finding,) = judge(env.prefix, RULE, make_policy(uid=0))
    assert (finding.severity, finding.subject) == (Severity.NOTE, "uid 0")


def test_groups_that_are_asked_for_and_those_of_the_image(env: EnvironmentWriter, tmp_path: Path) -> None:
    gid = os.stat(env.site).st_gid
    (env.site / "good/data.txt").chmod(0o640)
    assert len(judge_image(tmp_path, RULE)) == 1
    member = dataclasses.replace(make_policy(), gids=frozenset({gid}))
    assert judge_image(tmp_path, RULE, member) == []
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:\nann:x:65534:100::/home/ann:\nbroken\n:::\n")
    (tmp_path / "etc/group").write_text(f"users:x:100:\nshared:x:{gid}:bob,ann\nother:x:7:bob\nx:y\n")
    assert listed_groups(read_image(tmp_path), 65534) == {100, gid}
    assert judge_image(tmp_path, RULE) == []


def test_of_the_rest_of_an_image_only_what_is_needed_counts(env: EnvironmentWriter, tmp_path: Path) -> None:
    for folder in ("root", "var/lib/private", "usr/lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "root").chmod(0o700)
    (tmp_path / "var/lib/private").chmod(0o700)
    (tmp_path / "usr/lib/helper").write_bytes(write_elf())
    (tmp_path / "usr/lib/helper").chmod(0o640)
    assert judge_image(tmp_path, RULE) == []
    (tmp_path / "usr/lib/libx.so.1").write_bytes(write_elf())
    (tmp_path / "usr/lib/libx.so.1").chmod(0o640)
    (finding,) = judge_image(tmp_path, RULE)
    assert finding.evidence["paths"] == "usr/lib/libx.so.1"


def test_closed_parent_of_the_environment_in_an_image(env: EnvironmentWriter, tmp_path: Path) -> None:
    (tmp_path / "opt").chmod(0o700)
    (finding,) = judge_image(tmp_path, RULE)
    assert finding.subject == "opt"
    assert finding.fatal


def test_scripts_and_compilers_need_the_execute_bit(env: EnvironmentWriter) -> None:
    (env.prefix / "bin").mkdir()
    (env.prefix / "bin/tool").write_text("#!/bin/sh\n")
    (env.prefix / "bin/activate").write_text("# sourced\n")
    env.add("nvcc", {"nvidia/cu13/bin/ptxas": write_elf(), "nvidia/cu13/bin/nvcc.profile": b""})
    for path in ("bin/tool", "lib/python3.12/site-packages/nvidia/cu13/bin/ptxas"):
        (env.prefix / path).chmod(0o644)
    (finding,) = judge(env.prefix, "not-executable")
    assert finding.evidence["programs"] == "bin/tool, nvidia/cu13/bin/ptxas"
    assert finding.fatal
    for path in ("bin/tool", "lib/python3.12/site-packages/nvidia/cu13/bin/ptxas"):
        (env.prefix / path).chmod(0o755)
    assert judge(env.prefix, "not-executable") == []


def test_program_that_only_its_owner_may_execute(env: EnvironmentWriter) -> None:
    env.add("tools", {"tools/bin/helper": write_elf(), "tools/libx.so": write_elf()})
    (env.site / "tools/bin/helper").chmod(0o744)
    (env.site / "tools/libx.so").chmod(0o744)
    (finding,) = judge(env.prefix, "not-executable")
    assert finding.subject == "tools/bin/helper"
    assert judge(env.prefix, "not-executable", make_policy(uid=0)) == []


def test_access_to_a_folder_stops_at_the_outermost_closed_one(env: EnvironmentWriter) -> None:
    (env.prefix / "lib").chmod(0o700)
    (env.site / "good").chmod(0o700)
    access = Access(read_image(env.prefix.parent.parent), make_policy())
    assert access.closed("opt/orbit/lib/python3.12/site-packages/good") == "opt/orbit/lib"
    assert access.closed("opt/orbit") is None
