"""Which file goes into which layer, and what an image must not hold."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.env.record import RECORD_PATH
from orbit.errors import InputError
from orbit.image.content import list_environment
from orbit.image.layers import SITE, escapes, group_names, layer_names, layer_of_dist, member, read_owners, split
from orbit.profile.model import Layer, load_profile
from tests.image.world import PROFILE, dist, environment_files, write_tree

LAYERS = PROFILE.image.layers


def names(prefix: Path, layers: tuple[Layer, ...] = LAYERS) -> dict[str, set[str]]:
    tree = list_environment(prefix).tree
    return {layer: set(paths) for layer, paths in split(tree, read_owners(prefix, layers), layers).items()}


def test_every_file_is_in_one_layer_and_in_the_right_one(tmp_path: Path) -> None:
    files = environment_files()
    write_tree(tmp_path, files)
    found = names(tmp_path)
    assert set().union(*found.values()) == set(files)
    assert sum(map(len, found.values())) == len(files)
    assert found["interpreter"] == {
        "bin/python3.12",
        "lib/python3.12/os.py",
        "lib/python3.12/__pycache__/os.cpython-312.pyc",
    }
    assert f"{SITE}/nvidia/cu13/lib/libcublas.so.13" in found["cuda"]
    assert f"{SITE}/torch/__pycache__/__init__.cpython-312.pyc" in found["torch"]
    assert {"bin/other", f"{SITE}/nobody.txt"} <= found["stack"]


def test_a_file_two_distributions_claim_goes_to_the_lower_layer(tmp_path: Path) -> None:
    shared = {"nvidia/__init__.py": b""}
    write_tree(tmp_path, dist("aaa", "1", shared) | dist("nvidia-x", "1", shared))
    assert f"{SITE}/nvidia/__init__.py" in names(tmp_path)["cuda"]


def test_the_link_farm_follows_the_cuda_layer_or_the_interpreter(tmp_path: Path) -> None:
    write_tree(tmp_path, environment_files())
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "lib64").symlink_to(f"../{SITE}/nvidia/cu13/lib")
    assert "cuda/lib64" in names(tmp_path)["cuda"]
    assert "cuda/lib64" in names(tmp_path, (Layer(name="stack", dists=("*",)),))["interpreter"]


def test_modes_are_two_whatever_the_tree_has(tmp_path: Path) -> None:
    write_tree(tmp_path, environment_files(), umask=0o077)
    (tmp_path / "lib" / "python3.12" / "os.py").chmod(0o4600)
    (tmp_path / "empty").mkdir()
    tree = list_environment(tmp_path).tree
    members = [
        member(path, tree.entries[path], tree, "/opt/orbit") for paths in names(tmp_path).values() for path in paths
    ]
    assert {member.mode for member in members} == {0o644, 0o755}
    assert {member.name for member in members if member.kind == "dir"} == {"opt/orbit/empty"}


def test_a_stack_layer_is_there_whether_named_or_not() -> None:
    assert layer_names((Layer(name="cuda", dists=("x",)),)) == ("interpreter", "cuda", "stack", "environment")
    assert layer_names(LAYERS) == ("interpreter", "cuda", "torch", "stack", "environment")


@pytest.mark.parametrize("name", ["base", "interpreter", "environment", "orbit", "stack-1"])
def test_two_layers_of_one_name_are_refused(name: str) -> None:
    layers = (Layer(name=name, dists=("x",)), Layer(name="stack", dists=("*",), groups=2))
    with pytest.raises(InputError, match=f"{name}: the name of another layer"):
        layer_names(layers)


def test_groups_deal_distributions_out_by_name_alone(tmp_path: Path) -> None:
    stack = Layer(name="stack", dists=("*",), groups=4)
    assert group_names(stack) == ("stack-0", "stack-1", "stack-2", "stack-3")
    dists = [f"package-{number}" for number in range(400)]
    dealt = [layer_of_dist(name, (stack,)) for name in dists]
    assert set(dealt) == set(group_names(stack))
    assert max(dealt.count(name) for name in group_names(stack)) < 150
    # another spelling of a name, or other packages beside it, move nothing
    assert layer_of_dist("Package_7", (stack,)) == dealt[7]
    files: dict[str, bytes] = {f"{SITE}/nobody.txt": b""}
    for name in dists[:20]:
        files |= dist(name, "1", {f"{name}/__init__.py": b""})
    write_tree(tmp_path, files)
    found = names(tmp_path, (stack,))
    for name, layer in zip(dists[:20], dealt, strict=False):
        assert f"{SITE}/{name}/__init__.py" in found[layer]
    assert f"{SITE}/nobody.txt" in found["stack-0"]


def test_the_record_of_the_environment_is_alone_in_its_layer(tmp_path: Path) -> None:
    write_tree(tmp_path, environment_files() | {RECORD_PATH: b"{}", "share/orbit/other": b""})
    assert names(tmp_path)["environment"] == {RECORD_PATH}


@pytest.mark.parametrize(
    ("name", "layer"),
    [("nvidia_cublas", "cuda"), ("NVIDIA.nccl-cu13", "cuda"), ("torch", "torch"), ("torchvision", "stack")],
)
def test_names_are_compared_normalised(name: str, layer: str) -> None:
    assert layer_of_dist(name, LAYERS) == layer


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../../../../x"])
def test_a_link_out_of_the_tree_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "link").symlink_to(target)
    with pytest.raises(InputError, match="outside the environment"):
        names(tmp_path)


def test_what_is_neither_file_nor_folder_nor_link_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither file"):
        names(tmp_path)


def test_a_folder_nobody_may_list_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, environment_files())
    tree = replace(list_environment(tmp_path).tree, denied=("lib/closed",))
    with pytest.raises(InputError, match="lib/closed: cannot be listed"):
        split(tree, read_owners(tmp_path, LAYERS), LAYERS)


def test_an_installation_without_a_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / SITE / "x-1.dist-info").mkdir(parents=True)
    with pytest.raises(InputError, match="no RECORD"):
        names(tmp_path)


@given(st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=8), st.integers(0, 4))
def test_a_link_that_ends_outside_always_escapes(parts: list[str], depth: int) -> None:
    ends = depth + sum({"..": -1, ".": 0}.get(part, 1) for part in parts)
    lowest = min(depth + sum({"..": -1, ".": 0}.get(part, 1) for part in parts[:end]) for end in range(len(parts) + 1))
    answer = escapes("/".join([*(f"d{n}" for n in range(depth)), "link"]), "/".join(parts))
    if ends < 0:
        assert answer
    if lowest >= 0:
        assert not answer


def test_the_whole_real_layer_table_is_used() -> None:
    layers = load_profile("cu130").image.layers
    assert layer_of_dist("nvidia-cudnn-cu13", layers) == "cuda-cudnn"
    assert layer_of_dist("nvidia-cuda-nvrtc", layers) == "cuda-compiler"
    assert layer_of_dist("nvidia-curand", layers) == "cuda"
    assert layer_of_dist("triton", layers) == "triton"
    assert layer_of_dist("transformer_engine_cu13", layers) == "transformer-engine"
    assert layer_of_dist("transformer_engine_torch", layers) == "kernels"
    assert layer_of_dist("ray", layers) == "ray"
    assert layer_of_dist("sglang", layers).startswith("stack-")
    # with base, orbit and what a user's own image adds far below the 127 that docker can stack
    assert len(layer_names(layers)) < 60
