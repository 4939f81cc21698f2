"""Made-up published wheels, the lock that names them, recipes, and a build environment with a torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orbit.core.files import sha256_file
from orbit.kernels.recipe import JitUse, Probe, Recipe, RecipeSource
from orbit.profile.lock import Artifact, Lock, Package, Source
from tests.writers.cubin import cubin_entry, works
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section
from tests.writers.wheels import write_wheel


def container(*archs: str, kernel: str = "product", body: bytes = b"") -> bytes:
    """A container with one kernel for each architecture."""
    return write_container(*(cubin_entry(arch, {kernel: body or works()}) for arch in archs))


BOTH = container("sm_90a", "sm_100a")
OTHER = container("sm_90a", "sm_100a", kernel="sum")
TORCH_SYMBOL = "_ZN3c105ErrorC1Ev"
TAG = "cp39-abi3-manylinux2014_x86_64"


def extension(*containers: bytes, symbol: str = TORCH_SYMBOL) -> bytes:
    """A module with device code that wants one symbol of torch."""
    sections = [(".nv_fatbin", write_section(*containers))] if containers else []
    return write_elf(sections=sections, needed=["libc10.so"], imports=[Import(symbol)])


def published(folder: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """A wheel ``thing`` 1.0 with a module for both targets."""
    given = files or {"thing/__init__.py": b"from . import _C\n", "thing/_C.abi3.so": extension(BOTH, OTHER)}
    return write_wheel(folder, "thing", given, tags=[TAG])


def build_environment(prefix: Path, symbol: str = TORCH_SYMBOL) -> Path:
    """An installed torch with the one symbol that the module wants."""
    env = EnvironmentWriter(prefix)
    library = write_elf(soname="libc10.so", exports=[Export(symbol)])
    env.add("torch", {"torch/__init__.py": b"", "torch/lib/libc10.so": library}, version="2.11.0")
    return prefix


def lock_of(wheel: Path | None, *others: Package, sdist: bool = False, sha256: str = "") -> Lock:
    """A lock with the distribution ``thing`` and an empty group ``cuda``."""

    thing = package("thing", wheel, sdist=sdist, sha256=sha256)
    root = Package(name="orbit", version="0", source=Source(kind="editable", url="."), dev_dependencies={"cuda": ()})
    return Lock(path=Path("uv.lock"), sha256="", requires_python=">=3.12", packages=(root, thing, *others))


def package(name: str, wheel: Path | None, *, sdist: bool = False, sha256: str = "") -> Package:
    """A locked package; its addresses lead nowhere."""

    def artifact(file: str, digest: str) -> Artifact:
        return Artifact(url=f"https://example.invalid/{file}", filename=file, sha256=digest, size=1)

    return Package(
        name=name,
        version="1.0",
        source=Source(kind="registry", url="https://example.invalid/simple"),
        sdist=artifact(f"{name}-1.0.tar.gz", "0" * 64) if sdist else None,
        wheels=(artifact(wheel.name, sha256 or sha256_file(wheel)),) if wheel else (),
    )


def recipe(**changes: object) -> Recipe:
    """The recipe of ``thing``."""
    given: dict[str, object] = {
        "schema": 1, "name": "thing", "dist": "thing", "mode": "prebuilt", "tier": "core", "group": "cuda",
        "memory_gib": 1.0, "core_hours": 1.0, "device_units": 2, "artifacts": ("thing/_C.abi3.so",),
        "source": RecipeSource(kind="wheel"),
    }  # fmt: skip
    return Recipe(**(given | changes))  # type: ignore[arg-type]


TEXT = """
#include <thing/product.cuh>
static void __instantiate_kernel() {{
    auto ptr = reinterpret_cast<void*>(&product_impl<
        {}, {}
    >);
}};
"""
USE = JitUse(
    generator="thing/_C.so",
    include=("thing/include",),
    flags=("-std=c++{}", "{} -I{} --gpu-architecture=sm_{} -O3"),
    values=("20", "{flags}", "{include}", "{number}"),
    cache_variable="THING_CACHE",
    cache_key=("kernel.{}.{}",),
    keyed="name and flags",
    unkeyed="headers",
)
HOPPER = Probe(
    name="product", capability="9.0", arch="sm_90a", kernel="product_impl", arguments=("64", "true"), expect=("HGMMA",)
)
BLACKWELL = Probe(
    name="product",
    capability="10.0",
    arch="sm_100f",
    kernel="product_impl",
    arguments=("64", "true"),
    expect=("UTCHMMA",),
)


def generator_bytes(*, text: str = TEXT, key: str = "kernel.{}.{}") -> bytes:
    """A binary that holds the texts as C strings."""
    return b"\0".join([b"\x7fELF", *(part.encode() for part in (text, *USE.flags, key)), b"rest"])


def toolkit(site: Path, *, cubins: Mapping[str, bytes]) -> Path:
    """A CUDA toolkit in ``site`` whose nvcc gives the cubin prepared for the architecture, and fails without one."""
    root = site / "nvidia" / "cu13"
    for folder in ("bin", "include", "lib", "cubins"):
        (root / folder).mkdir(parents=True)
    for arch, data in cubins.items():
        (root / "cubins" / arch).write_bytes(data)
    program(
        root / "bin" / "nvcc",
        f"""
for word in "$@"; do
    case "$word" in
        --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0 ;;
        --gpu-architecture=*) arch=${{word#*=}} ;;
    esac
    if [ "$last" = -o ]; then out=$word; fi
    last=$word
done
grep -q "&product_impl<" "$1" || exit 7
cp "{root}/cubins/$arch" "$out" || exit 8
""",
    )
    return site


def disassembler(path: Path, *operations: str) -> Path:
    """A nvdisasm that lists these operations for whatever it is given."""
    lines = "\n".join(f"        /*{16 * at:04x}*/                   {name} ;" for at, name in enumerate(operations))
    return program(path, f"cat <<'END'\n.text.product:\n{lines}\nEND\n")


def program(path: Path, text: str) -> Path:
    """A shell script that can be run."""
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path
