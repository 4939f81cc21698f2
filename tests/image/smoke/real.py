"""Images with a real interpreter and Orbit in them, and each way in which one can be wrong."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from orbit.core.paths import checkout_root
from orbit.image.runtime import STATE_SCRIPT, image_environment, state_script
from orbit.profile.model import load_profile
from orbit.smoke.model import Check, SmokeList
from tests.image.tiny import PASSWD
from tests.pythons import require_copyable
from tests.writers.elf import write_elf
from tests.writers.fatbin import write_container, write_section
from tests.writers.tiny_image import file, folder, host_programs, symlink, write_image

PREFIX = "opt/orbit"
SITE = f"{PREFIX}/lib/python3.12/site-packages"
PROFILE = load_profile("probe")
LEFT_OUT = {
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "site-packages",
    "__pycache__",
    "pydoc_data",
}
DISTS = ("msgspec", "packaging", "pyyaml", "zstandard", "lz4", "abi3info")
"""What the audit imports."""
PROGRAMS = ("sh", "cat", "id", "env", "ls", "sed", "mkdir", "setpriv", "touch", "true", "cksum", "ln")
Member = tuple[tarfile.TarInfo, bytes]
Members = list[Member]
PLAN = SmokeList(
    name="real",
    uids=(65534,),
    checks=(
        Check(name="tree", kind="tree", parameters={"folders": ["{prefix}", "/etc"]}, timeout_s=60),
        Check(
            name="caches", kind="caches", timeout_s=60,
            parameters={"folders": ["{prefix}", "/root"], "caches": [".triton/cache", "torchinductor_*"]},
        ),
        Check(name="contract", kind="contract", parameters={"caches": ["TRITON_CACHE_DIR"]}, timeout_s=60),
        Check(name="import", kind="import", parameters={"modules": ["orbit", "example"]}, timeout_s=60),
        Check(name="audit", kind="audit", parameters={"rules": ["arch-coverage"]}, timeout_s=120),
    ),
)  # fmt: skip


def device_code(*archs: str) -> bytes:
    """A library that registers one container with code for these architectures."""
    return write_elf(sections=[(".nv_fatbin", write_section(write_container(*archs)))])


def _python_files(root: Path, at: str) -> Iterator[Member]:
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if LEFT_OUT.isdisjoint(inside.parts) and path.is_file() and not path.is_symlink():
            yield file(f"{at}/{inside}", path.read_bytes())


def _libraries(paths: Iterable[Path]) -> Members:
    """What these files load, at the places the loader looks for it."""
    wanted: dict[str, Path] = {}
    for path in paths:
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        wanted |= {found.lstrip("/"): Path(found).resolve() for found in re.findall(r"(/\S+) \(0x", listed)}
    return [file(name, path.read_bytes(), 0o755) for name, path in sorted(wanted.items())]


@functools.cache
def interpreter() -> tuple[Member, ...]:
    """This interpreter with its standard library, and the programs an entry point needs."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    python = Path(sys.executable).resolve()
    extensions = [path for item in _dist_files() if (path := item[1]).suffix == ".so"]
    members = {member[0].name: member for member in host_programs(*PROGRAMS)}
    loaded = _libraries([python, *stdlib.glob("lib-dynload/*.so"), *extensions])
    members |= {member[0].name: member for member in loaded}
    binary = file(f"{PREFIX}/bin/python3.12", python.read_bytes(), 0o755)
    return (*members.values(), binary, *_python_files(stdlib, f"{PREFIX}/lib/python3.12"))


@functools.cache
def _dist_files() -> tuple[tuple[str, Path], ...]:
    """Path below site-packages and the file here, of every distribution the audit needs."""
    found = []
    for name in DISTS:
        dist = importlib.metadata.distribution(name)
        for item in dist.files or ():
            path = Path(str(dist.locate_file(item)))
            if ".." not in item.parts and "__pycache__" not in item.parts and path.is_file():
                found.append((str(item), path))
    return tuple(found)


@functools.cache
def orbit_files() -> tuple[Member, ...]:
    """Orbit with its data and what it imports."""
    root = checkout_root()
    members = list(_python_files(root / "orbit", f"{SITE}/orbit"))
    for name in ("env", "kernels", "containers", "docs/rules"):
        members += _python_files(root / name, f"{SITE}/orbit/_data/{name}")
    members += [file(f"{SITE}/{name}", path.read_bytes()) for name, path in _dist_files()]
    return tuple(members)


def sound() -> Members:
    """The layer of a sound image: a package with device code for every target, entry point, environment record."""
    record = {"identity": "a" * 64, "profile": "probe", "distributions": [], "schema": 1}
    text = "example/__init__.py,,\nexample/_C.so,,\nexample-1.0.dist-info/RECORD,,\nexample-1.0.dist-info/METADATA,,\n"
    return [
        file(f"{PREFIX}/bin/orbit-entrypoint", (checkout_root() / "containers/entrypoint.sh").read_bytes(), 0o755),
        file(f"{PREFIX}/{STATE_SCRIPT}", state_script()),
        file(f"{PREFIX}/share/orbit/environment.json", json.dumps(record, indent=2).encode()),
        file(f"{SITE}/example/__init__.py", b"VALUE = 1\n"),
        file(f"{SITE}/example/_C.so", device_code("sm_90a", "sm_100a"), 0o755),
        file(f"{SITE}/example-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: example\nVersion: 1.0\n"),
        file(f"{SITE}/example-1.0.dist-info/RECORD", text.encode()),
    ]


def without(members: Members, *names: str) -> Members:
    """``members`` but those of these paths."""
    return [member for member in members if member[0].name not in names]


def _hollow(members: Members) -> Members:
    return [*without(members, f"{SITE}/example/__init__.py"), folder(f"{SITE}/example/inner")]


def _dead_links(members: Members) -> Members:
    dead = symlink(f"{SITE}/example/__init__.py", "../../../../../../var/cache/uv/example/__init__.py")
    return [*without(members, f"{SITE}/example/__init__.py"), dead]


def _one_target(members: Members) -> Members:
    library = file(f"{SITE}/example/_C.so", device_code("sm_90a"), 0o755)
    return [*without(members, f"{SITE}/example/_C.so"), library]


def _root_only(members: Members) -> Members:
    library = file(f"{SITE}/example/_C.so", device_code("sm_90a", "sm_100a"), 0o700)
    return [*without(members, f"{SITE}/example/_C.so"), library]


def _stale_cache(members: Members) -> Members:
    return [*members, file("root/.triton/cache/kernel.cubin", b"code")]


def _entry_point(members: Members) -> Members:
    name = f"{PREFIX}/bin/orbit-entrypoint"
    (data,) = (data for info, data in members if info.name == name)
    return [*without(members, name), file(name, data, 0o644)]


def _link_out(members: Members) -> Members:
    return [*members, symlink(f"{SITE}/example/data", "../" * 12 + "srv/models")]


def _writer(members: Members) -> Members:
    """Writes beside its own code when it is imported, and says nothing when it cannot."""
    beside = "(pathlib.Path(__file__).parent / 'built.txt').write_text('x')"
    text = f"import pathlib\ntry:\n    {beside}\nexcept OSError:\n    pass\n"
    name = f"{SITE}/example/__init__.py"
    return [*without(members, name), file(name, text.encode())]


NEGATIVE: dict[str, tuple[Callable[[Members], Members], str, str]] = {
    "a hollow package": (_hollow, "import", "hollow namespace package"),
    "a folder of dead links": (_dead_links, "import", "hollow namespace package"),
    "a missing architecture": (_one_target, "audit", "arch-coverage"),
    "a file only root may read": (_root_only, "tree", "may not read it"),
    "a stale cache": (_stale_cache, "caches", "compiled code without release or device"),
    "an entry point that is not executable": (_entry_point, "start", "ermission denied"),
    "a link out of the image": (_link_out, "tree", "climbs out of the image"),
    "a package that writes into its own tree": (_writer, "import", "writes into the image's own tree"),
}
"""What is wrong -> (how it is made, the check that must fail, what it must say)."""


def real_image(layout: Path, change: Callable[[Members], Members] = list) -> Path:
    """Write the sound image, changed, as an OCI layout. The running interpreter is copied into it."""
    require_copyable()
    base = [
        *(folder(name) for name in ("etc", "proc", "dev", "run", "root", "sys")),
        folder("tmp", 0o1777),
        symlink("bin", "usr/bin"),
        file("etc/passwd", PASSWD),
        *interpreter(),
    ]
    variables = image_environment(PROFILE, has=())
    config = {
        "Entrypoint": [f"/{PREFIX}/bin/orbit-entrypoint"],
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
        "WorkingDir": "/",
    }
    return write_image(layout, [base, orbit_files(), change(sound())], config=config)
