"""tests/nix/needs.py sees what Nix would not know; held against a real environment where one is named."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.nix.needs import Installed, Known, main, read_installed, unknown
from tests.nix.nixtools import ROOT

KNOWN = Known(
    libraries={"kernel": ("torch",)},
    collisions=frozenset({"build_backend.py"}),
    system=frozenset({"libc.so.6"}),
    missing=("libcuda.so.1", "libav*.so.*"),
)


def installed(
    needs: dict[str, set[str]], owners: dict[str, set[str]], twice: dict[str, set[str]] | None = None
) -> Installed:
    return Installed(
        needs={dist: frozenset(wanted) for dist, wanted in needs.items()},
        owners={name: frozenset(dists) for name, dists in owners.items()},
        twice={path: frozenset(dists) for path, dists in (twice or {}).items()},
    )


def test_nothing_is_said_of_what_is_known() -> None:
    needs = {"kernel": {"libtorch.so", "libc.so.6", "libcuda.so.1", "libavutil.so.60", "libpython3.12.so.1.0"}}
    found = installed(needs, {"libtorch.so": {"torch"}}, {"build_backend.py": {"a", "b"}})
    assert list(unknown(found, KNOWN)) == []


def test_a_library_of_a_wheel_that_is_not_listed_is_named_with_its_owner() -> None:
    lines = list(unknown(installed({"vision": {"libtorch.so"}}, {"libtorch.so": {"torch"}}), KNOWN))
    assert len(lines) == 1
    assert lines[0].startswith("vision: libtorch.so is in none of its libraries")
    assert lines[0].endswith("; torch has it")


def test_a_library_that_nobody_has_is_named() -> None:
    assert len(list(unknown(installed({"kernel": {"libssl.so.1.1"}}, {}), KNOWN))) == 1


def test_a_file_of_two_distributions_is_named() -> None:
    lines = list(unknown(installed({}, {}, {"nvidia/__init__.py": {"a", "b"}}), KNOWN))
    assert lines == ["nvidia/__init__.py: different in a, b (nix/wheels.toml, [[collisions]])"]


def test_records_are_read_by_distribution(tmp_path: Path) -> None:
    for name, digest in (("One_Dist", "sha256=a"), ("two", "sha256=b")):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "RECORD").write_text(f"same.py,{digest},1\nequal.py,sha256=c,1\n{info.name}/RECORD,,\n")
    found = read_installed(tmp_path)
    assert found.twice == {"same.py": {"one-dist", "two"}}


def test_a_folder_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([]) == 2


@pytest.fixture
def prefix() -> Path:
    named = os.environ.get("ORBIT_NIX_PREFIX")
    if not named:
        pytest.skip("ORBIT_NIX_PREFIX is not set (an environment of cu130 made by `orbit env create`; docs/nix.md)")
    return Path(named)


@pytest.mark.integration
def test_nix_knows_all_that_the_real_wheels_need(prefix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(prefix)]) == 0, capsys.readouterr().out


@pytest.mark.integration
def test_the_newest_compiler_is_what_the_toolkit_says(prefix: Path) -> None:
    headers = list(prefix.glob("lib/python3.*/site-packages/nvidia/cu*/include/crt/host_config.h"))
    assert headers
    accepted = re.search(r"^#if __GNUC__ > (\d+)$", headers[0].read_text(), re.MULTILINE)
    assert accepted is not None
    compilers = tomllib.loads((ROOT / "nix" / "tools.toml").read_text())["compilers"]
    assert {entry["newest"] for entry in compilers if entry["cuda"] == "13.0"} == {int(accepted[1])}
