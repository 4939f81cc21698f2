"""Kernels, interpreters and the base of an image."""

from __future__ import annotations

import json
from pathlib import Path

from orbit.core.console import Silent
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.sources import Source
from orbit.release.sbom.inventory import take_inventory
from tests.release.sbom.material import HOME, SITE, Files, make, one, record, taken
from tests.writers.elf import write_elf


def test_the_interpreter_of_the_environment_has_its_version_and_what_it_loads(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files["usr/lib/libfoo.so.1"] = write_elf(soname="libfoo.so.1")
        stated = record(system_libraries=["libfoo.so.1"])
        files[f"{HOME}/share/orbit/environment.json"] = json.dumps(stated).encode()
        files["usr/local/lib/python3.11/os.py"] = b""

    inventory = taken(make(tmp_path / "image", change))
    own, other = sorted(
        (item for item in inventory.components if item.kind == "interpreter"), key=lambda item: item.ref
    )
    assert (own.version, own.purl) == ("3.12.1", "pkg:generic/cpython@3.12.1")
    assert own.depends == ("deb:libfoo1:amd64",)
    assert own.licence.unknown
    assert [text.path for text in own.licence.texts] == [f"/{HOME}/lib/python3.12/LICENSE.txt"]
    assert (other.version, other.notes) == ("", {"series": "3.11"})


def manifest(wheel_sha256: str) -> BuildManifest:
    return BuildManifest(
        recipe="own-kernels", dist="own-kernels", version="1.5", requested=(), units=(), found=(), compiler="nvcc V13",
        source=Source(kind="sdist", version="1.5", sha256="c" * 64, file="own-1.5.tar.gz"), host_compiler="", python="",
        group="", closure="", env={}, shim="", wheel="own-kernels.whl", wheel_sha256=wheel_sha256,
    )  # fmt: skip


def test_a_build_manifest_counts_when_its_wheel_is_the_one_in_the_image(tmp_path: Path) -> None:
    layout = str(make(tmp_path / "image"))
    for wheel, expected in (("3" * 64, "c" * 64), ("4" * 64, "")):
        inventory = take_inventory(layout, cache=None, progress=Silent(), manifests=[manifest(wheel)])
        notes = one(inventory, "own-kernels", "kernel").notes
        assert notes.get("source-sha256", "") == expected
        assert notes.get("source", "") == ("sdist own-1.5.tar.gz" if expected else "")
        assert ("manifest" in notes) is bool(expected)


def test_the_base_is_what_its_os_release_says(tmp_path: Path) -> None:
    layout = make(tmp_path / "image")
    base = one(taken(layout), "debian")
    assert (base.kind, base.version, base.summary) == ("base", "12", "Debian 12")
    assert base.notes["codename"] == "bookworm"
    assert base.notes["layers"].startswith("sha256:")


def test_a_kernel_without_its_recipe_has_what_the_record_says(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files[f"{SITE}/orbit/_data/kernels/recipes/own-kernels.toml"] = b"not = [toml"

    kernel = one(taken(make(tmp_path / "image", change)), "own-kernels", "kernel")
    assert set(kernel.notes) == {"requested", "found"}
    assert json.loads(kernel.notes["found"])[0]["images"] == {"sm_90a": 1}
