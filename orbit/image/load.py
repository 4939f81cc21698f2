"""Putting a layout into the engine at hand: docker (see :mod:`orbit.image.docker`), podman or containerd.

podman takes the layout itself, layer by layer, and compares every blob with its digest; where it refuses one, Orbit
looks which. containerd gets a stream that is compared on the way. Both read zstd.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

from orbit.core import proc
from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.errors import CheckFailed, CommandFailed, MissingError
from orbit.image import docker
from orbit.image.docker import ANSWER_TIMEOUT_S, CLIENT_VARIABLE, NO_ENGINE, LoadedImage
from orbit.image.export.archive import oci_archive
from orbit.image.export.formats import check_name
from orbit.image.oci import REF_KEY, Layout, blaming, read_layout

EngineName = Literal["docker", "podman", "containerd"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CONTAINERD_NAME_KEY = "io.containerd.image.name"
"""The annotation by which containerd names an imported image."""
AGAIN = "run the same command again; nothing has the name"


def find_engine(name: EngineName) -> tuple[list[str], str] | str:
    """(words before the engine's sub-commands, version), or a sentence that says why it does not answer."""
    if name == "docker":
        engine = docker.find_engine()
        return engine if isinstance(engine, str) else ([str(engine.client)], engine.version)
    program = shutil.which({"podman": "podman", "containerd": "ctr"}[name])
    if program is None:
        return f"{name}: its client is not installed"
    words, asked = [program], ["info", "--format", "{{.Version.Version}}"]
    if name == "containerd":
        words += ["--address", os.environ.get("CONTAINERD_ADDRESS", CONTAINERD_SOCKET)]
        words += ["--namespace", os.environ.get("CONTAINERD_NAMESPACE", "default")]
        asked = ["version"]
    done = proc.run([*words, *asked], doing=f"asking {name}", timeout_s=ANSWER_TIMEOUT_S, check=False)
    said = (done.stdout if done.returncode == 0 else done.stderr).decode(errors="replace").strip()
    if done.returncode != 0:
        return f"{name} does not answer: {said.splitlines()[-1] if said else f'status {done.returncode}'}"
    found = re.search(r"Server:\s+Version:\s*(\S+)", said) if name == "containerd" else re.search(r"\S+", said)
    return words, (found.group(found.lastindex or 0) if found else "unknown")


def choose_engine(wanted: str) -> EngineName:
    """``wanted``, or for ``auto`` the first that answers; docker alone when ``$ORBIT_DOCKER`` names its client.

    Raises :class:`MissingError` with every engine's reason when none answers.
    """
    for name in ENGINES:
        if wanted == name:
            return name
    if os.environ.get(CLIENT_VARIABLE):
        return "docker"
    reasons = []
    for name in ENGINES:
        found = find_engine(name)
        if not isinstance(found, str):
            return name
        reasons.append(found)
    raise MissingError("; ".join(reasons), fix=NO_ENGINE)


def load_into(engine: EngineName, path: Path, *, tag: str, progress: Progress) -> LoadedImage:
    """Put the image of the layout at ``path`` into ``engine`` under ``tag``.

    Raises as :func:`orbit.image.docker.load_image` does, and :class:`InputError` for a name no engine takes.
    """
    check_name(tag)
    if engine == "docker":
        return docker.load_image(path, tag=tag, progress=progress)
    layout = read_layout(path)
    words, version = require(engine)
    progress.step(f"{engine} {version}: loading {format_bytes(sum(layer.size for layer in layout.layers))}")
    load = load_podman if engine == "podman" else _load_containerd
    try:
        return load(words, version, layout, tag, progress)
    except CommandFailed as failure:
        if isinstance(reason := find_engine(engine), str):
            raise MissingError(f"{engine} went away while {path} was loaded ({reason})", fix=AGAIN) from failure
        raise


def require(engine: EngineName) -> tuple[list[str], str]:
    """:func:`find_engine`, or :class:`MissingError`."""
    found = find_engine(engine)
    if isinstance(found, str):
        raise MissingError(found, fix=f"start {engine}, or use the layout as it is")
    return found


def load_podman(words: list[str], version: str, layout: Layout, tag: str, progress: Progress) -> LoadedImage:
    """Have podman take the layers it lacks from the layout, and give the image its name.

    Raises :class:`DamagedImage` for a layer that podman refused, rightly.
    """
    image = layout.manifest.config.hex
    known = _podman_layers(words, image) is not None
    if not known:
        progress.step("podman: taking the layers it does not have")
        image = _pull(words, layout, progress)
    if image != layout.manifest.config.hex:
        raise CheckFailed(f"podman holds {image}, not {layout.manifest.config.hex}", fix=f"podman image rm {image}")
    proc.run([*words, "tag", image, tag], doing="podman tag", fix=AGAIN)
    diff_ids = _podman_layers(words, image)
    if diff_ids != layout.config.rootfs.diff_ids:
        raise CheckFailed(f"podman holds {image} with other layers", fix=f"podman image rm {image}, then load it again")
    return LoadedImage(kind="podman", id=f"sha256:{image}", tag=tag, engine=version, reused=known, diff_ids=diff_ids)


def _pull(words: list[str], layout: Layout, progress: Progress) -> str:
    """The id that podman has given the image. It makes a name of the path it is told, and refuses capitals, spaces and
    colons in it; so it is told a link with a plain name, beside which it stands."""
    plain = f"orbit-{layout.manifest.config.hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="podman-") as folder, blaming(layout, progress):
        Path(folder, plain).symlink_to(layout.path.absolute())
        argv = [*words, "pull", "--quiet", f"oci:{plain}"]
        done = proc.run(argv, doing="podman pull", cwd=Path(folder), fix=AGAIN)
    image = done.stdout.decode().split()[-1]
    proc.run([*words, "untag", image, f"localhost/{plain}:latest"], doing="podman untag", check=False)
    return image


def _podman_layers(words: list[str], image: str) -> tuple[str, ...] | None:
    form = "{{json .RootFS.Layers}}"
    done = proc.run([*words, "image", "inspect", "--format", form, image], doing="podman image inspect", check=False)
    return msgspec.json.decode(done.stdout, type=tuple[str, ...]) if done.returncode == 0 else None


def _load_containerd(words: list[str], version: str, layout: Layout, tag: str, progress: Progress) -> LoadedImage:
    name = full_name(tag)
    known = _containerd_images(words).get(name) == layout.digest
    if not known:
        stream = oci_archive(layout, {CONTAINERD_NAME_KEY: name, REF_KEY: tag}, progress)
        proc.run([*words, "images", "import", "-"], doing="ctr images import", stdin=stream, fix=AGAIN)
    found = _containerd_images(words).get(name)
    if found != layout.digest:
        raise CheckFailed(
            f"containerd holds {found or 'nothing'} as {name}, not {layout.digest}", fix=f"ctr images rm {name}"
        )
    return LoadedImage(
        kind="containerd",
        id=layout.manifest.config.digest,
        tag=name,
        engine=version,
        reused=known,
        # containerd compares them while it unpacks
        diff_ids=layout.config.rootfs.diff_ids,
    )


def _containerd_images(words: list[str]) -> Mapping[str, str]:
    """Name -> digest of the manifest."""
    done = proc.run([*words, "images", "list"], doing="ctr images list", timeout_s=ANSWER_TIMEOUT_S)
    lines = [line.split() for line in done.stdout.decode(errors="replace").splitlines()[1:]]
    return {line[0]: line[2] for line in lines if len(line) > 2}


def full_name(tag: str) -> str:
    """A name as containerd and Kubernetes spell it out: docker's registry where no host is said, ``latest`` without a
    tag."""
    head = tag.partition("/")[0]
    named = "/" in tag and ("." in head or ":" in head or head == "localhost")
    name = tag if named else f"docker.io/{tag if '/' in tag else f'library/{tag}'}"
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
