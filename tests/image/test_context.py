"""Two engines, one content: the build context, and (docker) the tree BuildKit makes against the one we write."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.proc import ca_bundle
from orbit.core.store import Store
from orbit.env.create import create_environment
from orbit.errors import InputError
from orbit.image import docker
from orbit.image.blob import read_tar
from orbit.image.build import build_image
from orbit.image.context import MARK, configuration_lines, make_context, read_wheelhouse, write_members
from orbit.image.oci import RunConfig, read_layout
from orbit.image.tar import content
from orbit.kernels.build import Wheelhouse, build_kernels
from orbit.profile.model import load_profile
from tests.image.world import PROFILE

EMPTY = Wheelhouse(wheels=(), skipped=(), manifest_hash="k")


def test_values_reach_docker_as_they_are() -> None:
    run = RunConfig(env=("A=x y", 'B=$HOME "q"'), labels={"l": "back\\slash"})
    assert configuration_lines(run) == 'ENV A="x y"\nENV B="\\$HOME \\"q\\""\nLABEL l="back\\\\slash"\n'


def test_a_prefix_the_dockerfile_does_not_make_is_refused(store: Store, tmp_path: Path) -> None:
    image = msgspec.structs.replace(PROFILE.image, prefix="/elsewhere")
    other = msgspec.structs.replace(PROFILE, image=image)
    with pytest.raises(InputError, match="/elsewhere"):
        make_context(other, tmp_path, EMPTY, store, out=tmp_path / "out", progress=Silent())


def test_a_folder_that_is_no_context_is_never_replaced(store: Store, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("mine")
    with pytest.raises(InputError, match="not a build context"):
        make_context(PROFILE, tmp_path, EMPTY, store, out=tmp_path / "out", progress=Silent())


def test_members_become_files_any_user_can_read(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        members = [content("opt/orbit/bin/x", b"1", executable=True), content("opt/orbit/a/b", b"2")]
        write_members(members, PROFILE, tmp_path)
    finally:
        os.umask(old)
    assert (tmp_path / "bin" / "x").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a" / "b").read_bytes() == b"2"


def test_the_dockerfile_needs_no_frontend_and_keeps_no_certificate() -> None:
    text = (checkout_root() / "containers" / "Dockerfile").read_text()
    assert "syntax=" not in text
    assert "FROM scratch" in text
    assert all("secret" in line or "ca" not in line.split() for line in text.splitlines() if line.startswith("COPY"))


def test_the_configuration_of_a_profile_ends_the_stage_that_is_built_by_default() -> None:
    text = (checkout_root() / "containers" / "Dockerfile").read_text()
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", text, re.MULTILINE)
    assert [name for _, name in stages] == ["base", "build", "runtime", "dev", ""]
    assert stages[-1][0] == "runtime"
    assert text.count(MARK) == 1
    assert text.index("AS runtime") < text.index(MARK) < text.index("AS dev")


Tree = dict[str, tuple[str, int, str]]


def listing(stream: IO[bytes]) -> Iterable[tuple[str, tuple[str, int, str]]]:
    """(path, (kind, mode, sha256 or target)) of everything below opt/orbit in a tar stream."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for info in archive:
            name = info.name.strip("/")
            if name.startswith("opt/orbit/"):
                handle = archive.extractfile(info) if info.isfile() else None
                mark = hashlib.file_digest(handle, "sha256").hexdigest() if handle else info.linkname  # type: ignore[arg-type]
                yield name, (info.type.decode(), info.mode & 0o7777, mark)


def tree_of_layout(path: Path) -> Tree:
    layout = read_layout(path)
    found: Tree = {}
    for layer in layout.layers:
        with tempfile.TemporaryFile() as file:
            file.writelines(read_tar(layout.blob(layer), layer.codec))
            file.seek(0)
            found.update(listing(file))
    return found


def building_client() -> str:
    """A client that can build: newer ones need the buildx plugin, Debian's own has BuildKit inside."""
    for client in ("/usr/bin/docker", str(docker.find_client())):
        if Path(client).is_file():
            version = subprocess.run([client, "--version"], capture_output=True, text=True, check=True).stdout
            plugin = subprocess.run([client, "buildx", "version"], capture_output=True, check=False)
            if plugin.returncode == 0 or "version 20.10" in version:
                return client
    pytest.skip("no docker client with BuildKit (buildx is missing)")


@pytest.mark.integration
@pytest.mark.docker
@pytest.mark.network
def test_both_engines_make_the_same_tree_and_configuration(tmp_path: Path, docker_engine: str) -> None:
    store, root, profile = Store(tmp_path / "store"), checkout_root(), load_profile("probe")
    wheels = build_kernels(profile, root, store, tier="core", progress=Silent())
    context = make_context(profile, root, wheels, store, out=tmp_path / "context", progress=Silent())
    assert read_wheelhouse(context / "wheels").manifest_hash == wheels.manifest_hash
    checkout = context / "checkout"  # the very sources both engines see, whatever happens to the checkout meanwhile
    environment = create_environment(profile, checkout, wheels, store, progress=Silent())
    image = build_image(profile, checkout, environment, wheels, store, out=tmp_path / "image", progress=Silent())
    layout = read_layout(image.layout)

    client, tag = building_client(), "orbit-test/context:one"
    env = {**os.environ, "DOCKER_BUILDKIT": "1", **({"DOCKER_HOST": docker_engine} if docker_engine else {})}
    bundle = ca_bundle()
    secret = ["--secret", f"id=ca,src={bundle}"] if bundle else []
    building = [client, "build", "--network", "host", *secret]
    subprocess.run([*building, "--tag", tag, context], env=env, check=True)
    try:
        subprocess.run([*building, "--tag", f"{tag}-dev", "--target", "dev", context], env=env, check=True)
        working = [client, "run", "--rm", "--network", "none", "--volume", f"{root}:/src:ro", f"{tag}-dev"]
        shown = subprocess.run(
            [*working, "python", "-c", "import orbit, pytest, sys; print(orbit.__file__, pytest.__file__, sys.prefix)"],
            env=env, check=True, capture_output=True, text=True,
        )  # fmt: skip
        own, tests, prefix = shown.stdout.split()
        assert (own, prefix) == ("/src/orbit/__init__.py", "/opt/dev")
        assert tests.startswith("/opt/dev/")
        subprocess.run([*working, "uv", "--version"], env=env, check=True)
        created = subprocess.run([client, "create", tag], env=env, check=True, capture_output=True, text=True)
        container = created.stdout.strip()
        export = subprocess.Popen([client, "export", container], env=env, stdout=subprocess.PIPE)
        assert export.stdout is not None
        theirs = dict(listing(export.stdout))
        export.stdout.close()
        assert export.wait() == 0
        inspected = subprocess.run([client, "image", "inspect", tag], env=env, check=True, capture_output=True)
        subprocess.run([client, "rm", container], env=env, check=True, capture_output=True)
    finally:
        subprocess.run([client, "image", "rm", tag, f"{tag}-dev"], env=env, check=False, capture_output=True)
    ours = tree_of_layout(image.layout)
    assert len(ours) > 1000
    assert theirs == ours
    config, run = json.loads(inspected.stdout)[0]["Config"], layout.config.config
    assert sorted(config["Env"]) == sorted(run.env)
    assert config["Labels"] == run.labels
    assert (tuple(config["Entrypoint"]), tuple(config["Cmd"]), config["WorkingDir"]) == (run.entrypoint, run.cmd, "/")
    assert not config["User"]
