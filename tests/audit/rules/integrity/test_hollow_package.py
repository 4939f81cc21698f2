"""hollow-package: every way in which a package is there and is not."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.rules.integrity.images import HOME, judge_image, read_image
from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "hollow-package"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / HOME)


def test_sound_image_is_silent(env: EnvironmentWriter, tmp_path: Path) -> None:
    assert judge_image(tmp_path, RULE) == []
    assert len(read_image(tmp_path).dists) == 2


def test_init_emptied(env: EnvironmentWriter) -> None:
    (env.site / "good/__init__.py").write_bytes(b"")
    (finding,) = judge(env.prefix, RULE)
    assert "empty, RECORD says 12 bytes" in finding.message


def test_init_filled_with_zeros(env: EnvironmentWriter) -> None:
    (env.site / "good/__init__.py").write_bytes(bytes(12))
    (finding,) = judge(env.prefix, RULE)
    assert "zeros" in finding.message


def test_changed_content_and_an_init_that_is_empty_by_design_are_not_hollow(env: EnvironmentWriter) -> None:
    (env.site / "good/__init__.py").write_bytes(b"answer = 43\n")
    assert judge(env.prefix, RULE) == []


def test_package_folder_is_a_link_that_leads_nowhere(env: EnvironmentWriter) -> None:
    shutil.rmtree(env.site / "good")
    (env.site / "good").symlink_to("/home/ann/.cache/uv/archive-v0/x/good")
    (finding,) = judge(env.prefix, RULE)
    assert finding.subject == "good"
    assert "into a cache" in finding.message
    os.remove(env.site / "good")
    (env.site / "good").symlink_to("elsewhere")
    (env.site / "elsewhere").mkdir()
    (env.site / "elsewhere/__init__.py").write_bytes(b"answer = 42\n")
    assert judge(env.prefix, RULE) == []


def test_inner_packages_are_not_counted_apart(env: EnvironmentWriter) -> None:
    names = ["", "/a", "/a/b", "/c"]
    env.add("deep", {f"deep{name}/__init__.py": b"x" for name in names} | {"deep/data": b"", "deep/a/b/data": b""})
    for name in names:
        (env.site / f"deep{name}/__init__.py").unlink()
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.evidence["with those in them"]) == ("deep", "4")


def test_module_of_one_file_is_gone(env: EnvironmentWriter) -> None:
    env.add("six", {"six.py": b"x", "six-extra/data": b""})
    (env.site / "six.py").unlink()
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, "module of it is gone" in finding.message) == ("six.py", True)


def test_only_compiled_files_left(env: EnvironmentWriter) -> None:
    env.add("gone", {"gone/__init__.py": b"x"}, rows=["gone/__pycache__/__init__.cpython-312.pyc,,"])
    cache = env.site / "gone/__pycache__"
    cache.mkdir()
    (cache / "__init__.cpython-312.pyc").write_bytes(b"x")
    (env.site / "gone/__init__.py").unlink()
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, "files are gone" in finding.message) == ("gone", True)


def test_leftover_of_a_removed_package(env: EnvironmentWriter) -> None:
    cache = env.site / "removed/__pycache__"
    cache.mkdir(parents=True)
    (cache / "__init__.cpython-312.pyc").write_bytes(b"x")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("removed", Severity.WARNING)
    (env.site / "removed/notes.txt").write_bytes(b"x")
    assert judge(env.prefix, RULE) == []


def test_egg_info_whose_modules_are_gone(env: EnvironmentWriter) -> None:
    folder = env.site / "old_style-1.0-py3.12.egg-info"
    folder.mkdir()
    (folder / "top_level.txt").write_text("oldstyle\n_oldstyle\n")
    (finding,) = judge(env.prefix, RULE)
    assert finding.subject == "old-style"
    (env.site / "_oldstyle.cpython-312-x86_64-linux-gnu.so").write_bytes(b"")
    assert judge(env.prefix, RULE) == []


def test_folder_that_the_user_cannot_enter(env: EnvironmentWriter) -> None:
    (env.site / "good").chmod(0o700)
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, "uid 65534" in finding.message) == ("good", True)
    own = make_policy(uid=os.stat(env.site).st_uid)
    assert judge(env.prefix, RULE, own) == []


def test_links_into_a_closed_folder_of_the_image(env: EnvironmentWriter, tmp_path: Path) -> None:
    store = tmp_path / "home/ann/.cache/uv/archive-v0/x"
    for name in ("good", "native"):
        (store / name).mkdir(parents=True)
        shutil.move(env.site / name / "__init__.py", store / name / "__init__.py")
        (env.site / name / "__init__.py").symlink_to(f"/home/ann/.cache/uv/archive-v0/x/{name}/__init__.py")
    assert judge_image(tmp_path, RULE) == []
    (tmp_path / "home/ann").chmod(0o700)
    (finding,) = judge_image(tmp_path, RULE)
    assert (finding.subject, finding.evidence["packages"]) == ("home/ann", "good, native")
    (closed,) = judge_image(tmp_path, "unreadable")
    assert closed.subject == "home/ann"
    member = dataclasses.replace(make_policy(), gids=frozenset({os.stat(store).st_gid}))
    (tmp_path / "home/ann").chmod(0o750)
    assert judge_image(tmp_path, RULE, member) == []


def test_links_into_one_cache_are_one_finding(env: EnvironmentWriter) -> None:
    """What `uv --link-mode=symlink` leaves: folders, real RECORD files, and links for everything else."""
    for number in range(30):
        env.add(f"p{number}", {f"p{number}/__init__.py": b"x", f"p{number}/a.py": b"x"})
        for path in sorted((env.site / f"p{number}").iterdir())[: 1 + number % 2]:
            path.unlink()
            path.symlink_to(f"/data/uvcache/archive-v0/{number}/{path.name}")
    (finding,) = judge(env.prefix, RULE)
    assert finding.subject == "/data/uvcache/archive-v0"
    assert finding.message.startswith("30 packages of 30 distributions: links that lead into a cache")


def test_deleted_files_and_links_are_told_apart(env: EnvironmentWriter) -> None:
    env.add("mixed", {"mixed/__init__.py": b"x", "mixed/a.py": b"x"})
    (env.site / "mixed/__init__.py").unlink()
    (env.site / "mixed/a.py").unlink()
    (finding,) = judge(env.prefix, RULE)
    assert "files are gone" in finding.message
    (env.site / "mixed/a.py").symlink_to("/data/elsewhere/deep/a.py")
    (finding,) = judge(env.prefix, RULE)
    assert "out of the target" in finding.message
