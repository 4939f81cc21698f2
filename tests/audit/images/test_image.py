"""Images as environments: equal to the environment on disk, whatever form they come in; remembered layers; damage."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from orbit.audit.facts import Environment
from orbit.audit.images import layer_cache
from orbit.audit.images.image import read_image
from orbit.audit.images.opened import ENGINES
from orbit.audit.installed.environment import read_environment
from orbit.core.console import Silent
from orbit.errors import CommandFailed, InputError, MissingError
from orbit.profile.model import load_profile
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.fatbin import write_container
from tests.writers.images import SITE, distribution, docker_archive, layout_tar, python_layer
from tests.writers.tiny_image import Members, file, other, symlink, write_image

PROFILE = load_profile("probe")


class Told(Silent):
    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)


def read(spec: object, cache: Path | None = None) -> Environment:
    return read_image(str(spec), PROFILE, Silent(), cache)


def environment(prefix: Path) -> EnvironmentWriter:
    """An environment with device code, symbols, links, a text, an odd name and damage."""
    env = write_sound_environment(prefix)
    env.add_library(
        "native/libfat.so", dist="fat", soname="libfat.so", exports=[Export("fat", "FAT_1")],
        sections=[(".nv_fatbin", write_container("sm_90a", "compute_90"))],
    )  # fmt: skip
    env.add_library(
        "native/libuser.so", dist="user", needed=["libfat.so"], imports=[Import("fat", "FAT_1", "libfat.so")]
    )
    env.add("cut", {"cut/libcut.so": write_elf()[:100], "cut/na\u00efve.py": b"1"})
    (prefix / "bin").mkdir()
    (prefix / "bin" / "tool").write_bytes(b"#!/opt/orbit/bin/python\n")
    (prefix / "bin" / "tool").chmod(0o755)
    (prefix / "bin" / "python").symlink_to("../nowhere")
    (env.site / "link.py").symlink_to("good/__init__.py")
    (env.site / "paths.pth").write_text("import os\n")
    return env


def members_of(prefix: Path, at: str) -> Members:
    """The environment as tar members, written by tarfile."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(prefix, at)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        return [(info, (archive.extractfile(info) or io.BytesIO()).read() if info.isreg() else b"") for info in archive]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """A layout with a base, the environment, and a layer that removes and replaces something."""
    environment(tmp_path / "env")
    base: Members = [file("etc/os-release", b"ID=debian\n"), file("usr/lib/libold.so", write_elf(soname="libold.so"))]
    top: Members = [file("usr/lib/.wh.libold.so"), file("usr/lib/libnew.so", write_elf(soname="libnew.so"))]
    layers = [base, members_of(tmp_path / "env", "opt/orbit"), top]
    return write_image(tmp_path / "layout", layers, config={"Env": ["ORBIT_PREFIX=/opt/orbit", "PATH=/opt/orbit/bin"]})


def test_it_is_the_environment_on_disk(tmp_path: Path, layout: Path) -> None:
    image, disk = read(layout), read_environment(tmp_path / "env", PROFILE, Silent())
    at = "opt/orbit"
    assert (image.kind, image.layout.home, image.layout.site) == ("image", at, SITE)
    inside = {path.removeprefix(f"{at}/"): path for path in image.tree.entries if path.startswith(f"{at}/")}
    assert set(inside) == set(disk.tree.entries) - {""}
    for path, whole in inside.items():
        ours, theirs = image.tree.entries[whole], disk.tree.entries[path]
        assert (ours.mode, ours.size if ours.is_file else 0) == (theirs.mode, theirs.size if theirs.is_file else 0)
    assert {path: image.tree.links[inside[path]] for path in disk.tree.links} == disk.tree.links

    def moved[T](facts: dict[str, T]) -> dict[str, T]:
        return {f"{at}/{path}": fact for path, fact in facts.items()}

    assert image.digests == moved(dict(disk.digests))
    assert image.owners == moved(dict(disk.owners))
    assert set(image.damaged) == set(moved(dict(disk.damaged)))
    texts = {path: text for path, text in image.texts.items() if path.startswith(at)}
    assert texts == moved(dict(disk.texts))
    ours = [item for item in image.objects if item.path.startswith(at)]
    assert [(item.path, item.containers, item.dynamic) for item in ours] == [
        (f"{at}/{item.path}", item.containers, item.dynamic) for item in disk.objects
    ]
    assert {path: exports for path, exports in image.exports.items() if path.startswith(at)} == moved(
        dict(disk.exports)
    )
    assert [(dist.name, dist.folder, len(dist.rows)) for dist in image.dists] == [
        (dist.name, f"{at}/{dist.folder}", len(dist.rows)) for dist in disk.dists
    ]


def test_layers_are_on_each_other(layout: Path) -> None:
    image = read(layout)
    assert "usr/lib/libold.so" not in image.tree.entries
    assert [item.path for item in image.objects if item.path.startswith("usr")] == ["usr/lib/libnew.so"]
    assert image.texts["etc/os-release"] == b"ID=debian\n"
    assert image.tree.rooted
    assert image.tree.above == ()
    assert image.variables["ORBIT_PREFIX"] == "/opt/orbit"
    assert image.image is not None
    assert len(image.image.layers) == 3


def same(one: Environment, two: Environment) -> bool:
    return all(
        getattr(one, name) == getattr(two, name)
        for name in ("layout", "tree", "dists", "objects", "exports", "damaged", "digests", "texts", "owners")
    )


def test_every_form_gives_the_same_facts(tmp_path: Path, layout: Path) -> None:
    whole = read(layout)
    assert same(read(f"oci:{layout}"), whole)
    archive = tmp_path / "layout.tar"
    archive.write_bytes(layout_tar(layout))
    assert same(read(archive), whole)
    packed = tmp_path / "layout.tar.zst"
    packed.write_bytes(zstandard.compress(archive.read_bytes()))
    assert same(read(packed), whole)


@pytest.mark.parametrize("old", [False, True])
def test_docker_archives(tmp_path: Path, old: bool) -> None:
    path = tmp_path / "saved.tar"
    path.write_bytes(docker_archive([python_layer(), [file("x", b"1")]], old=old))
    image = read(f"docker-archive:{path}")
    assert [dist.name for dist in image.dists] == ["good"]
    assert same(read(path), image)


# --- remembered layers ------------------------------------------------------------------------------------------------


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_cache, "SETTLE_NS", -(10**9))


@pytest.mark.usefixtures("settled")
def test_remembered_layers_give_the_same_facts(tmp_path: Path, layout: Path) -> None:
    first = read(layout, tmp_path / "cache")
    assert first.num_remembered == 0
    again = read(layout, tmp_path / "cache")
    assert again.num_remembered == len(again.digests) > 0
    assert same(first, again)
    assert same(read(layout), again)


@pytest.mark.usefixtures("settled")
def test_a_blob_that_changed_is_read_again_and_refused(tmp_path: Path, layout: Path) -> None:
    read(layout, tmp_path / "cache")
    blob = max((layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[-30] ^= 1
    blob.write_bytes(data)
    with pytest.raises(InputError):
        read(layout, tmp_path / "cache")


@pytest.mark.usefixtures("settled")
def test_layers_in_an_archive_are_remembered_too(tmp_path: Path) -> None:
    path = tmp_path / "saved.tar"
    path.write_bytes(docker_archive([python_layer()]))
    read(path, tmp_path / "cache")
    assert read(path, tmp_path / "cache").num_remembered > 0


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path: Path, layout: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"")
    assert same(read(layout, place / "cache"), read(layout))


# --- what is refused, and what is told --------------------------------------------------------------------------------


def change_blob(layout: Path) -> None:
    blob = max((layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    tar = zstandard.compress(b"".join([bytes(1024)]))
    blob.write_bytes(tar.ljust(blob.stat().st_size, b"\0"))


def cut_blob(layout: Path) -> None:
    blob = max((layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    blob.write_bytes(blob.read_bytes()[:-1])


def remove_blob(layout: Path) -> None:
    max((layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size).unlink()


@pytest.mark.parametrize("damage", [change_blob, cut_blob, remove_blob])
def test_a_damaged_layer_is_refused(layout: Path, damage: Callable[[Path], None]) -> None:
    damage(layout)
    with pytest.raises(InputError):
        read(layout)


def test_a_layer_of_other_content_than_its_diff_id_is_refused_where_nothing_else_names_it(tmp_path: Path) -> None:
    path = tmp_path / "saved.tar"
    path.write_bytes(docker_archive([python_layer()], old=True).replace(b"answer = 42", b"answer = 43"))
    with pytest.raises(InputError, match="not what its digest says"):
        read(path)


def test_members_that_engines_refuse_are_damage(tmp_path: Path) -> None:
    bad: Members = [*python_layer(), file("../../etc/cron.d/x", b"1"), other("h", tarfile.LNKTYPE, "not/here")]
    image = read(write_image(tmp_path / "layout", [bad]))
    assert set(image.damaged) == {"../../etc/cron.d/x", "h"}
    assert "layer 0: its path leads out" in image.damaged["../../etc/cron.d/x"]


def test_hashes_that_are_not_read_are_told(tmp_path: Path) -> None:
    data = b"x = 1\n"
    strong = base64.urlsafe_b64encode(hashlib.sha512(data).digest()).rstrip(b"=").decode()
    members = list(distribution("strong", {"strong.py": data}))
    record = f"strong.py,sha512={strong},{len(data)}\n".encode()
    members[-1] = file(f"{SITE}/strong-1.0.dist-info/RECORD", record)
    image = read(write_image(tmp_path / "layout", [members]))
    assert image.digests[f"{SITE}/strong.py"] == "!sha512 is not read in images"


def test_files_behind_links_are_hashed(tmp_path: Path) -> None:
    members = [*python_layer(), symlink(f"{SITE}/alias", "good")]
    record = next(data for info, data in members if info.name.endswith("RECORD"))
    line = record.splitlines()[0].replace(b"good/", b"alias/")
    members = [m for m in members if not m[0].name.endswith("RECORD")]
    members.append(file(f"{SITE}/good-1.0.dist-info/RECORD", record + line + b"\n"))
    image = read(write_image(tmp_path / "layout", [members]))
    assert image.digests[f"{SITE}/alias/__init__.py"] == image.digests[f"{SITE}/good/__init__.py"]


def test_metadata_that_is_a_hard_link_into_a_package_cache_is_read(tmp_path: Path) -> None:
    cache = "root/.cache/uv/archive-v0/Zx"
    members: list[tuple[tarfile.TarInfo, bytes]] = [
        file(info.name.replace(SITE, cache), data) for info, data in [*python_layer(), file(f"{SITE}/good.pth", b"x\n")]
    ]
    members += [other(info.name.replace(cache, SITE), tarfile.LNKTYPE, info.name) for info, _data in list(members)]
    image = read(write_image(tmp_path / "layout", [members]))
    assert [(dist.name, dist.problem) for dist in image.dists] == [("good", "")]
    assert f"{SITE}/good/libnative.so" in [item.path for item in image.objects]
    assert image.texts[f"{SITE}/good.pth"] == b"x\n"
    assert image.digests[f"{SITE}/good/__init__.py"][0] != "!"


@pytest.mark.parametrize("spec", ["no/such/path", "oci:no/such/path", "docker-archive:no/such/file"])
def test_what_is_not_there(spec: str) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read(spec)


def test_what_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an image"):
        read(tmp_path)
    (tmp_path / "x").write_bytes(b"text" * 1000)
    with pytest.raises(InputError):
        read(tmp_path / "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(layout: Path) -> None:
    (layout / "index.json").chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        read(layout)


def test_names_that_would_be_options_are_refused() -> None:
    with pytest.raises(InputError, match="not the name of an image"):
        read("podman:--help")


def test_an_engine_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("ORBIT_DOCKER", raising=False)
    for engine in ENGINES:
        with pytest.raises(MissingError):
            read(f"{engine}:name")


def test_an_engine_is_asked_to_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``podman`` stands in as a script: what it is called with, and that its stream is read."""
    saved = tmp_path / "saved.tar"
    saved.write_bytes(docker_archive([python_layer()]))
    program = tmp_path / "podman"
    program.write_text(
        f'#!/bin/sh\n[ "$*" = "save name:tag" ] || {{ echo "no such image: $2" >&2; exit 125; }}\ncat {saved}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert same(read("podman:name:tag"), read(saved))
    with pytest.raises(InputError, match="podman:other: podman has no image of that name"):
        read("podman:other")
    program.write_text("#!/bin/sh\necho cannot reach its storage >&2; exit 125\n")
    with pytest.raises(CommandFailed, match="cannot reach its storage"):
        read("podman:name:tag")


@pytest.mark.docker
def test_an_image_of_a_running_engine(docker_engine: str, tmp_path: Path) -> None:
    assert docker_engine or os.environ.get("DOCKER_HOST", "") == docker_engine
    saved = tmp_path / "saved.tar"
    saved.write_bytes(docker_archive([python_layer(), [file("x", b"1")]], Env=["ORBIT_PREFIX=/opt/orbit"]))
    name = "orbit-test-audit:latest"
    done = subprocess.run(["docker", "load"], input=saved.read_bytes(), capture_output=True, check=True)
    assert b"tiny:latest" in done.stdout
    try:
        subprocess.run(["docker", "tag", "tiny:latest", name], check=True)
        told = Told()
        image = read_image(f"docker-daemon:{name}", PROFILE, told)
        assert same(image, read(saved))
        assert image.image is not None
        assert image.image.layers == read(saved).image.layers  # type: ignore[union-attr]
        assert told.steps
    finally:
        subprocess.run(["docker", "rmi", "-f", name, "tiny:latest"], capture_output=True, check=False)
