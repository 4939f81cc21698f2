"""A small environment and a small base, written by code: what the image stage needs, in milliseconds."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import random
import sys
import tarfile
from pathlib import Path

import msgspec

from orbit.core.records import dump_json
from orbit.core.store import Entry, Store
from orbit.env.record import RECORD_PATH, SCHEMA, EnvironmentRecord
from orbit.image.base import Base
from orbit.image.layers import SITE
from orbit.profile.model import GpuTarget, ImagePolicy, KernelPolicy, Layer, Profile

PROFILE = Profile(
    schema=1,
    name="small",
    description="a small image",
    python="3.12",
    extras=(),
    cuda="13.0",
    targets=(GpuTarget(name="h100", devices=("H100",), capability="9.0", sass="sm_90", feature="sm_90a"),),
    kernels=KernelPolicy(),
    expectations=(),
    image=ImagePolicy(
        name="orbit/small",
        base="base",
        prefix="/opt/orbit",
        layers=(
            Layer(name="cuda", dists=("nvidia-*",)),
            Layer(name="torch", dists=("torch",)),
            Layer(name="stack", dists=("*",)),
        ),
    ),
    smoke=(),
)


class Kernels(msgspec.Struct, frozen=True):
    """Stands for the wheelhouse."""

    manifest_hash: str = "k" * 64


def dist(name: str, version: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Files of an installed distribution, relative to the prefix, with a RECORD that lists them."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    listed = {**files, f"{info}/METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n".encode()}
    record = "".join(f"{path},,\n" for path in [*listed, f"{info}/RECORD"]).encode()
    return {os.path.normpath(f"{SITE}/{path}"): data for path, data in {**listed, f"{info}/RECORD": record}.items()}


def recorded(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same files with RECORDs that state hash and size of all but themselves and compiled files."""
    made = dict(files)
    for record in [path for path in files if path.endswith(".dist-info/RECORD")]:
        lines = []
        for path in files[record].decode().split(",,\n")[:-1]:
            data = files[os.path.normpath(f"{SITE}/{path}")]
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            stated = "," if path.endswith((".pyc", "/RECORD")) else f"sha256={digest},{len(data)}"
            lines.append(f"{path},{stated}\n")
        made[record] = "".join(lines).encode()
    return made


def environment_files() -> dict[str, bytes]:
    """A stack in miniature: an interpreter, a CUDA wheel, torch, one more, a long name and one nobody owns."""
    files = {
        "bin/python3.12": f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode(),
        "lib/python3.12/os.py": b"# the standard library\n",
        "lib/python3.12/__pycache__/os.cpython-312.pyc": b"compiled os",
        f"{SITE}/nobody.txt": b"no RECORD lists this\n",
        f"{SITE}/torch/__pycache__/__init__.cpython-312.pyc": b"compiled torch",
    }
    files |= dist("nvidia-cublas", "13.4.1.1", {"nvidia/cu13/lib/libcublas.so.13": random.Random(1).randbytes(300_000)})
    files |= dist("torch", "2.11.0", {"torch/__init__.py": b"answer = 42\n", "torch/lib/libtorch.so": bytes(200_000)})
    long = "/".join(["deep" * 10] * 5) + "/leaf.py"
    script = "#!/opt/orbit/bin/python3.12\n"
    files |= dist("other-thing", "1.0", {f"other/{long}": b"x = 1\n", "../../../bin/other": script.encode()})
    return files


def write_tree(prefix: Path, files: dict[str, bytes], *, seed: int = 0, umask: int = 0o022) -> None:
    """Write ``files`` below ``prefix`` in an order and with times that depend on ``seed``, and modes on ``umask``."""
    shuffled = random.Random(seed)
    names = sorted(files)
    shuffled.shuffle(names)
    old = os.umask(umask)
    try:
        for name in names:
            path = prefix / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
            if name.startswith("bin/"):
                path.chmod(0o777 & ~umask)
            os.utime(path, (shuffled.randrange(1, 2**31),) * 2)
    finally:
        os.umask(old)


def make_environment(
    store: Store, files: dict[str, bytes] | None = None, *, seed: int = 0, umask: int = 0o022
) -> Entry:
    """An environment entry in ``store`` with those files and a CUDA link farm."""
    files = environment_files() if files is None else files
    identity = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()

    def work(place: Path) -> dict[str, str]:
        prefix = place / "prefix"
        write_tree(prefix, files, seed=seed, umask=umask)
        (prefix / "cuda").mkdir()
        (prefix / "cuda" / "lib64").symlink_to(f"../{SITE}/nvidia/cu13/lib")
        dump_json(
            prefix / RECORD_PATH,
            EnvironmentRecord(
                schema=SCHEMA,
                identity=identity,
                profile="small",
                lock="l" * 64,
                prefix="/opt/orbit",
                python="3.12.1",
                interpreter="i" * 64,
                system_libraries=(),
                distributions=(),
                skipped=(),
                contested=(),
                uncompiled=(),
            ),
        )
        return {}

    return store.obtain("environment", {"identity": identity}, work)


def make_checkout(root: Path) -> Path:
    """A checkout with the parts Orbit's own layer is made from."""
    pyproject = """
[project]
name = "orbit"
version = "0.1.0"
description = "small"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = ">=3.12,<3.13"
dependencies = ["packaging>=25"]
[project.optional-dependencies]
stack = ["torch==2.11.0"]
[project.scripts]
orbit = "orbit.cli:main"
[tool.hatch.build.targets.wheel]
packages = ["orbit"]
[tool.hatch.build.targets.wheel.force-include]
"env" = "orbit/_data/env"
"""
    files = {
        "pyproject.toml": pyproject.encode(),
        "LICENSE": b"free\n",
        "orbit/__init__.py": b'"""Small."""\n',
        "orbit/cli/__init__.py": b"def main() -> int:\n    return 0\n",
        "orbit/__pycache__/__init__.cpython-312.pyc": b"stale",
        "env/profiles/small.toml": b"schema = 1\n",
        "containers/entrypoint.sh": b'#!/bin/sh\nexec "$@"\n',
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def make_small_base(folder: Path) -> Base:
    """A base of two files, as if mmdebstrap had made it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rootfs.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in (("etc/os-release", b"ID=debian\n"), ("usr/bin/sh", b"#!\n")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Base(key="b" * 64, tar=path, sha256=digest, files=2, packages=(), reused=True)
