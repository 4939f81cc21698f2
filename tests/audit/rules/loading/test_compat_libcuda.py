"""compat-libcuda: in front of the driver's by variable, configuration, cache or run path; not by being there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.rooted import SITE, judge_root, write_root
from tests.writers.elf import write_elf
from tests.writers.ld_cache import write_cache

RULE = "compat-libcuda"
COMPAT = "usr/local/cuda-13.0/compat"
FILES = {f"{COMPAT}/libcuda.so.580.95": write_elf(soname="libcuda.so.1")}
LINKS = {f"{COMPAT}/libcuda.so.1": "libcuda.so.580.95", "usr/local/cuda": "cuda-13.0"}
SYSTEM = b"/usr/local/lib\n/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n"


def judged(root: Path, files: dict[str, bytes], **variables: str) -> list[tuple[str, Severity]]:
    write_root(root, FILES | files, LINKS)
    return [(finding.subject, finding.severity) for finding in judge_root(root, RULE, **variables)]


def test_folder_that_nothing_names(tmp_path: Path) -> None:
    assert judged(tmp_path, {}, LD_LIBRARY_PATH="/usr/local/nvidia/lib:/usr/local/cuda/lib64") == []


@pytest.mark.parametrize("folder", ["/usr/local/cuda/compat", f"/{COMPAT}", f"/{COMPAT}/"])
def test_variable(tmp_path: Path, folder: str) -> None:
    found = judged(tmp_path, {}, LD_LIBRARY_PATH=f"/usr/local/nvidia/lib:{folder}")
    assert found == [(f"LD_LIBRARY_PATH: {folder}", Severity.ERROR)]


def test_variable_that_names_a_folder_without_libcuda(tmp_path: Path) -> None:
    write_root(tmp_path, {"opt/compat/liba.so": write_elf()})
    assert judge_root(tmp_path, RULE, LD_LIBRARY_PATH="/opt/compat:/usr/local/cuda/compat") == []


@pytest.mark.parametrize(
    ("name", "severity"), [("00-cuda-compat.conf", Severity.ERROR), ("zzz-cuda-compat.conf", Severity.WARNING)]
)
def test_configuration_in_its_order(tmp_path: Path, name: str, severity: Severity) -> None:
    conf = {
        "etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/x86_64-linux-gnu.conf": SYSTEM,
        f"etc/ld.so.conf.d/{name}": f"/{COMPAT}\n".encode(),
    }
    assert judged(tmp_path, conf) == [(f"etc/ld.so.conf.d/{name}: /{COMPAT}", severity)]


def test_file_that_is_not_included(tmp_path: Path) -> None:
    conf = {
        "etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/compat.conf.disabled": f"/{COMPAT}\n".encode(),
    }
    assert judged(tmp_path, conf) == []


@pytest.mark.parametrize(
    ("path", "count"), [(f"/{COMPAT}/libcuda.so.1", 1), ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", 0)]
)
def test_cache(tmp_path: Path, path: str, count: int) -> None:
    found = judged(tmp_path, {"etc/ld.so.cache": write_cache([("libcuda.so.1", path, "")])})
    assert found == [(f"etc/ld.so.cache: {path}", Severity.ERROR)] * count


def test_cache_that_cannot_be_read_is_another_rules(tmp_path: Path) -> None:
    assert judged(tmp_path, {"etc/ld.so.cache": b"damage"}) == []


def test_run_path(tmp_path: Path) -> None:
    user = write_elf(needed=["libcuda.so.1"], runpath=f"/{COMPAT}")
    assert judged(tmp_path, {f"{SITE}/user/_c.so": user}) == [("user/_c.so", Severity.ERROR)]
