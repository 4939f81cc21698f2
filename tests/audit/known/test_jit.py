"""The data about run-time compilers, and the release that a CUDA tool states in its bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.elf import open_elf
from orbit.audit.installed.environment import read_environment
from orbit.audit.known import jit
from orbit.audit.known.jit import find_release, installed, is_tool, load_jit, release_of, tool_release
from orbit.core.console import Silent
from orbit.env.activate import load_contract
from orbit.errors import InputError
from orbit.profile.model import load_profile
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter

LINE = b"Cuda compilation tools, release %d.%d,\0Cuda compilation tools, release 12.9, V12.9.86\0"


def released(release: str) -> bytes:
    """An ELF file that states a release as NVIDIA's tools do."""
    line = f"Cuda compilation tools, release {release.rpartition('.')[0]}, V{release}".encode()
    return write_elf(sections=[(".rodata", b"usage: %s\0" + line + b"\0cuda_x\0")])


def test_every_cache_and_user_is_told_apart() -> None:
    found = load_jit()
    assert len(found.users) >= 10
    assert len(found.caches) >= 15
    names = [cache.name for cache in found.caches]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+", name) for cache in found.caches for name in cache.variables)
    assert all(cache.default.startswith(("~/", "$TMPDIR/")) for cache in found.caches)


USER = 'schema = 1\nchain = []\ncaches = []\n[[users]]\nname = "a"\ndists = ["a"]\nwhy = "b"\n'
NEED = f'{USER}[[users.needs]]\nwhat = "c"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 2\nchain = []\nusers = []\ncaches = []\n", "schema 2"),
        (NEED, "names no place"),
        (f'{NEED}root = ["bin/x"]\n', "image_only"),
        (f'{NEED}site = ["x"]\nsince = "100"\n', "not a capability"),
        (f'{USER}versions = "new"\nneeds = []\n', "versions = 'new'"),
        (f'{NEED}site = ["x"]\ncompile = "feature"\n', "unknown field"),
    ],
)
def test_wrong_data_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str) -> None:
    path = tmp_path / "jit.toml"
    path.write_text(text)
    monkeypatch.setattr(jit, "data_file", lambda *parts: path)
    with pytest.raises(InputError, match=re.escape(words)):
        jit.load_jit.__wrapped__()


def test_release_is_read_past_the_format_string(tmp_path: Path) -> None:
    path = tmp_path / "ptxas"
    path.write_bytes(write_elf(sections=[(".rodata", LINE)]))
    with open_elf(path) as elf:
        assert tool_release(elf) == "12.9.86"


def test_release_outside_read_only_data_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "ptxas"
    path.write_bytes(write_elf(sections=[(".comment", LINE)]))
    with open_elf(path) as elf:
        assert tool_release(elf) == ""


@pytest.mark.parametrize(
    "data", [b"", b"Cuda compilation tools, release ", b"Cuda compilation tools, release 13.0, V13.0" + b"9" * 99]
)
def test_a_line_that_is_cut_or_forged_is_no_release(data: bytes) -> None:
    assert find_release(data, 0, len(data)) == ""


def test_many_forged_lines_end() -> None:
    assert find_release(jit.RELEASE_MARK * 100_000 + LINE, 0, 1 << 30) == ""


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 300))
def test_any_bytes_give_a_release_or_none(data: bytes, start: int, end: int) -> None:
    assert re.fullmatch(r"(\d+\.\d+\.\d+)?", find_release(data, start, end))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("cuda/bin/ptxas", True),
        ("triton/backends/nvidia/bin/ptxas-blackwell", True),
        ("nvidia/cu13/lib/libnvrtc.so.13", True),
        ("nvidia/cu13/lib/libnvrtc-builtins.so.13.0", False),
        ("tilelang/contrib/nvcc.py", False),
        ("nvidia/cu13/bin/nvcc.profile", False),
    ],
)
def test_which_files_are_tools(path: str, expected: bool) -> None:
    assert is_tool(path) is expected


def test_release_of_a_part_comes_from_its_bytes_then_from_its_wheel(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("nvidia-cuda-nvcc", {"nvidia/cu13/bin/ptxas": b"#!/bin/sh\n"}, version="13.0.88")
    env.add("triton", {"triton/bin/ptxas": released("12.8.93")}, version="3.6.0")
    env.add("other", {"other/bin/nvcc": b"x"}, version="99.0")
    (env.site / "triton/bin/ptxas").chmod(0o755)
    facts = read_environment(env.prefix, load_profile("probe"), Silent())
    site = facts.layout.site
    assert release_of(facts, f"{site}/triton/bin/ptxas") == "12.8"
    assert release_of(facts, f"{site}/nvidia/cu13/bin/ptxas") == "13.0"
    assert release_of(facts, f"{site}/other/bin/nvcc") == ""


def test_versions_choose_the_distribution(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("Flash_Thing", {"flash.py": b""}, version="0.6.1rc1")
    facts = read_environment(env.prefix, load_profile("probe"), Silent())
    assert len(installed(facts, ("flash-thing",), ">=0.6")) == 1
    assert installed(facts, ("flash-thing",), "<0.6") == ()


NO_DEVICE_CODE = {
    "NUMBA_CACHE_DIR": "code for the processor",
    "OUTLINES_CACHE_DIR": "tables of grammars",
    "SGLANG_CACHE_DIR": "what was measured and downloaded",
}


def test_every_cache_that_the_activation_contract_places_is_known() -> None:
    placed = {item.name for item in load_contract().variables if "{cache}" in item.value}
    known = {name for cache in load_jit().caches for name in (*cache.variables, *cache.parent)}
    assert placed - known == set(NO_DEVICE_CODE)
