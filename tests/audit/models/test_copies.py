"""Copies of libraries: what counts as one, which meet in a process, when two are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.models.copies import copies_of, key_of, same_release, scopes, users_of
from orbit.audit.models.loader import loader_of
from tests.audit.rooted import SITE, read_root, write_root
from tests.audit.support import make_policy, read
from tests.writers.elf import Export, write_elf
from tests.writers.environment import EnvironmentWriter

NCCL = write_elf(soname="libnccl.so.2", sections=[(".rodata", b"NCCL version 2.28.9+cuda13.0\0")])


@pytest.mark.parametrize(
    ("soname", "key"),
    [
        ("libnccl.so.2", "libnccl.so.2"),
        ("libnccl.so.2.28.9", "libnccl.so.2"),
        ("libgomp-6a29c32d.so.1.0.0", "libgomp.so.1"),
        ("libcudart.faf08d9a.so.13", "libcudart.so.13"),
        ("libnccl.so", "libnccl.so"),
        ("odd", "odd"),
    ],
)
def test_key_of_a_soname(soname: str, key: str) -> None:
    assert key_of(soname) == key


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("13.4.1.2", "13.4.1.1", True),
        ("13.0", "13.0.96", True),
        ("2.28.9", "2.28.9.post1", True),
        ("2.28.9", "2.28.7", False),
        ("", "2.28.7", True),
    ],
)
def test_statements_that_can_mean_one_release(one: str, other: str, same: bool) -> None:
    assert same_release(one, other) is same


def test_release_of_the_file_then_of_its_neighbours_then_of_its_distribution(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    version = [Export("cudnn_ops_infer_version", data=bytes((0, 19, 9, 0)))]
    files = {
        "nvidia/cudnn/lib/libcudnn.so.9": write_elf(soname="libcudnn.so.9"),
        "nvidia/cudnn/lib/libcudnn_ops.so.9": write_elf(soname="libcudnn_ops.so.9", exports=version),
    }
    env.add("nvidia-cudnn-cu13", files, version="9.1.0")
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": NCCL}, version="2.1")
    env.add("nvidia-cublas", {"nvidia/cu13/lib/libcublas.so.13": write_elf(soname="libcublas.so.13")}, version="13.1")
    env.add("other", {"other/libcublas.so.13": write_elf(soname="libcublas.so.13")}, version="7")
    facts = read(env.prefix)
    found = copies_of(facts, loader_of(facts, make_policy()))
    assert [(copy.key, copy.release, copy.by) for copy in found] == [
        ("libcublas.so.13", "13.1", "distribution"),
        ("libcudnn.so.9", "9.19.0", "folder"),
        ("libnccl.so.2", "2.28.9", "file"),
        ("libcublas.so.13", "", ""),
    ]


def test_several_names_in_one_folder_are_one_copy_under_its_soname(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("x", {f"x/libnccl.so{end}": NCCL for end in ("", ".2", ".2.28.9")})
    env.add("user", {"user/_c.so": write_elf(needed=["libnccl.so.2"], runpath="$ORIGIN/../x")})
    facts = read(env.prefix)
    loader = loader_of(facts, make_policy())
    found = copies_of(facts, loader)
    assert [facts.in_site(copy.item.path) for copy in found] == ["x/libnccl.so.2"]
    assert [facts.in_site(user) for user in users_of(loader, found)[found[0].item.path]] == ["user/_c.so"]


def test_two_environments_of_an_image_do_not_meet(tmp_path: Path) -> None:
    other = "opt/other/lib/python3.11/site-packages"
    paths = [f"{SITE}/a/libnccl.so.2", f"{other}/b/libnccl.so.2", "usr/lib/libnccl.so.2"]
    facts = read_root(write_root(tmp_path, dict.fromkeys(paths, NCCL)), others=(other,))
    found = copies_of(facts, loader_of(facts, make_policy()))
    meeting = sorted([copy.item.path for copy in scope] for scope in scopes(facts, found))
    assert meeting == sorted([[paths[0], paths[2]], [paths[1], paths[2]]])
