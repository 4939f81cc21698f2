"""dangling-link: one finding per cause; links that stay inside are silent, in environments and in images."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.rules.integrity.images import HOME, judge_image
from tests.audit.support import judge
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "dangling-link"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / HOME)


@pytest.mark.parametrize(
    ("target", "subject", "words"),
    [
        ("nowhere", "nowhere", "not there"),
        ("../../x", "../../x", "out of the target"),
        ("/etc", "/etc", "out of the target"),
        ("/home/ann/src/megatron/core", "/home/ann/src", "out of the target"),
        ("/home/ann/.cache/uv/archive-v0/abc/torch", "/home/ann/.cache/uv", "cache"),
        ("/opt/conda/pkgs/python-3.12/lib/x", "/opt/conda/pkgs", "cache"),
        ("link", "link", "circle"),
    ],
)
def test_links_that_lead_nowhere_or_out(env: EnvironmentWriter, target: str, subject: str, words: str) -> None:
    (env.prefix / "link").symlink_to(target)
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, words in finding.message, finding.fatal) == (subject, True, True)
    assert finding.evidence["target"] == target


def test_links_into_one_cache_are_one_finding(env: EnvironmentWriter) -> None:
    folder = env.site / "linked"
    folder.mkdir()
    for number in range(500):
        (folder / f"m{number}.py").symlink_to(f"/home/ann/.cache/uv/archive-v0/h{number % 7}/m{number}.py")
    (finding,) = judge(env.prefix, RULE)
    assert finding.message.startswith("500 links lead into a cache")
    assert "and 495 more" in finding.evidence["links"]
    assert "copy" in finding.fix


def test_links_through_one_missing_folder_are_one_finding(env: EnvironmentWriter) -> None:
    (env.prefix / "cuda").symlink_to("toolkit")
    for name in ("include", "lib64"):
        (env.prefix / name).symlink_to(f"cuda/{name}")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.message) == ("toolkit", "3 links lead to something that is not there")


def test_chains_up_to_what_the_kernel_follows(env: EnvironmentWriter) -> None:
    for number in range(39):
        (env.prefix / f"l{number}").symlink_to(f"l{number + 1}" if number < 38 else "lib")
    assert judge(env.prefix, RULE) == []
    (env.prefix / "before").symlink_to("l0")
    (finding,) = judge(env.prefix, RULE)
    assert "circle" in finding.message


def test_absolute_links_into_the_target_are_a_warning(env: EnvironmentWriter) -> None:
    (env.prefix / "lib64").symlink_to(env.prefix / "lib")
    (env.prefix / "more").symlink_to(env.prefix / "lib64")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.severity, finding.message[:12]) == (Severity.WARNING, "2 links lead")
    assert finding.subject == str(env.prefix)


def test_absolute_links_inside_an_image_are_fine(env: EnvironmentWriter, tmp_path: Path) -> None:
    (env.prefix / "cuda").symlink_to(f"/{HOME}/lib")
    (env.prefix / "up").symlink_to("../../../../../opt/orbit/lib")
    (env.prefix / "log").symlink_to("/proc/self/fd/1")
    assert judge_image(tmp_path, RULE) == []


def test_links_that_leave_what_was_copied_into_an_image(env: EnvironmentWriter, tmp_path: Path) -> None:
    (env.site / "torch").symlink_to("/home/ann/.cache/uv/archive-v0/x/torch")
    (finding,) = judge_image(tmp_path, RULE)
    assert (finding.subject, "cache" in finding.message) == ("/home/ann/.cache/uv", True)


def test_of_the_rest_of_an_image_only_libraries_count(env: EnvironmentWriter, tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/mtab.1.gz").symlink_to("/usr/share/man/mtab.1.gz")
    assert judge_image(tmp_path, RULE) == []
    (tmp_path / "usr/lib/libx.so").symlink_to("libx.so.1")
    (finding,) = judge_image(tmp_path, RULE)
    assert finding.subject == "usr/lib/libx.so.1"
