"""Device code out of archives: a stream read forwards, and wheels whose members are never unpacked to disk."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.archives.wheels import read_wheels
from orbit.audit.deep.depth_sources import Forward, LayerFiles, read_target_depth
from orbit.audit.images.image import read_image
from orbit.audit.images.opened import open_layers
from orbit.audit.targets import detect
from orbit.core.console import Silent
from orbit.errors import InputError
from tests.audit.depths import both
from tests.audit.support import make_policy
from tests.writers.cubin import works
from tests.writers.elf import write_elf
from tests.writers.fatbin import write_section
from tests.writers.images import distribution, docker_archive, python_layer
from tests.writers.tiny_image import Members
from tests.writers.wheels import write_wheel

PROFILE = make_policy().profile


@given(
    data=st.binary(max_size=200), sizes=st.lists(st.integers(0, 40)), cuts=st.lists(st.integers(0, 220), max_size=12)
)
def test_forward_slices_are_those_of_the_whole(data: bytes, sizes: list[int], cuts: list[int]) -> None:
    pieces, at = [], 0
    for size in sizes:
        if data[at : at + size]:
            pieces.append(data[at : at + size])
            at += size
    stream = Forward([*pieces, data[at:]] if data[at:] else pieces)
    edges = sorted(cuts)
    for start, stop in zip(edges[::2], edges[1::2], strict=False):
        assert stream[start:stop] == data[start:stop]


def test_what_has_passed_is_not_given_again() -> None:
    stream = Forward([b"abc", b"def", b"ghi"])
    assert (stream[4:6], stream[0:2], stream[7:20]) == (b"ef", b"", b"hi")


def test_kernels_of_wheels(tmp_path: Path) -> None:
    for name, deflate in (("one", True), ("two", False)):
        section = write_section(both({f"_Z3{name}v": works()}, {f"_Z3{name}v": works()}))
        files = {f"{name}/_c.so": write_elf(sections=[(".nv_fatbin", section)])}
        write_wheel(tmp_path, name, files, tags=["cp312-abi3-linux_x86_64"], deflate=deflate)
    target = detect(str(tmp_path))
    env = read_wheels(target.paths, PROFILE, Silent())
    depth = read_target_depth(target, env, PROFILE, Silent())
    found = {
        env.in_site(item.path): {
            name: sorted(image.kernels) for box in item.containers for name, image in box.loaded.items()
        }
        for item in depth.files
    }
    assert found == {
        "one/_c.so": {"h100": ["_Z3onev"], "b200": ["_Z3onev"]},
        "two/_c.so": {"h100": ["_Z3twov"], "b200": ["_Z3twov"]},
    }


def test_a_wheel_that_changes_between_the_passes_is_a_problem_of_its_files(tmp_path: Path) -> None:
    section = write_section(both({"_Z1av": works()}, {"_Z1av": works()}))
    path = write_wheel(tmp_path, "one", {"one/_c.so": write_elf(sections=[(".nv_fatbin", section)])})
    target = detect(str(path))
    env = read_wheels(target.paths, PROFILE, Silent())
    path.write_bytes(b"no wheel any more")
    depth = read_target_depth(target, env, PROFILE, Silent())
    problems = [image.problem for item in depth.files for box in item.containers for image in box.loaded.values()]
    assert len(problems) == 2
    assert all(problems)


def device_file(name: str, kernels: str) -> Members:
    """A distribution with one extension of device code, as members of a layer."""
    section = write_section(both({kernels: works()}, {kernels: works()}))
    return distribution(name, {f"{name}/_c.so": write_elf(sections=[(".nv_fatbin", section)])})


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An image of three layers; the file of ``two`` is replaced in the last one."""
    lower = (*device_file("one", "_Z3onev"), *device_file("two", "_Z3oldv"))
    layers = [python_layer(), lower, device_file("two", "_Z3newv")]
    path = tmp_path / "image.tar"
    path.write_bytes(docker_archive(layers))
    return path


def image_kernels(path: Path) -> dict[str, list[str]]:
    target = detect(str(path))
    env = read_image(target.spec, PROFILE, Silent())
    depth = read_target_depth(target, env, PROFILE, Silent())
    found: dict[str, set[str]] = {}
    for item in depth.files:
        for image in (image for box in item.containers for image in box.loaded.values()):
            found.setdefault(env.in_site(item.path), set()).update(image.kernels)
    return {path: sorted(names) for path, names in found.items()}


def test_kernels_of_an_image_are_those_of_the_files_on_top(archive: Path) -> None:
    assert image_kernels(archive) == {"one/_c.so": ["_Z3onev"], "two/_c.so": ["_Z3newv"]}


def test_an_image_that_only_streams_by_is_refused_with_a_way_out(archive: Path) -> None:
    packed = archive.with_suffix(".tar.gz")
    packed.write_bytes(gzip.compress(archive.read_bytes()))
    with pytest.raises(InputError, match="can only be read once") as raised:
        image_kernels(packed)
    assert "docker save NAME -o FILE" in raised.value.fix


def test_a_layer_that_lost_members_between_the_passes(archive: Path) -> None:
    target = detect(str(archive))
    env = read_image(target.spec, PROFILE, Silent())
    files = LayerFiles({"x": (0, 10**6)}, open_layers(target.spec))
    with pytest.raises(OSError, match="fewer members than before"), files.open("x"):
        pass
    assert env.origins
