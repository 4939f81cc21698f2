"""The base as others use it: kept by lock and definition, made once, stale locks refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError, MissingError
from orbit.image import base, build
from orbit.image.base import base_chunks, base_inputs, make_base
from orbit.image.base import lock as lock_module
from orbit.image.base.definition import BaseDefinition
from orbit.image.base.lock import write_base_lock
from orbit.image.base.make import Contents
from orbit.image.base.root import read_status
from orbit.image.oci import read_layout, verify_layers
from tests.image.base.archive import CHOSEN, DEFINITION, lock_of
from tests.image.conftest import BuildSmall
from tests.writers.tiny_image import file, write_image

LOCK = lock_of(*CHOSEN)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with base.lock; the definition is the one of the miniature archive."""
    write_base_lock(tmp_path / "base.lock", LOCK)
    monkeypatch.setattr(lock_module, "data_file", lambda *parts: tmp_path / parts[-1])
    monkeypatch.setattr(base, "load_base", lambda _name: DEFINITION)
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stands for mmdebstrap; what it was asked for."""
    calls: list[list[str]] = []

    def fake(
        _definition: BaseDefinition, _lock: object, debs: dict[str, Path], target: Path, _store: Store
    ) -> Contents:
        calls.append(sorted(debs))
        with tarfile.open(target, "w") as archive:
            archive.addfile(tarfile.TarInfo("etc"), io.BytesIO())
        packages = read_status("Package: hello\nStatus: install ok installed\nVersion: 1\n")
        return Contents(sha256="0" * 64, files=1, packages=packages)

    monkeypatch.setattr(base, "make_root", fake)
    return calls


def test_it_is_made_once(
    data: Path, made: list[list[str]], folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORBIT_SOURCES", str(folder))
    first = make_base("base", store, progress=Silent())
    monkeypatch.delenv("ORBIT_SOURCES")
    second = make_base("base", store, progress=Silent())
    assert made == [["base-thing", "hello", "libhello1"]]
    assert (first.reused, second.reused) == (False, True)
    assert replace(second, reused=False) == first
    assert b"".join(base_chunks(first)) == first.tar.read_bytes()


def test_a_stale_lock_ends_it_before_anything_is_fetched(
    data: Path, made: list[list[str]], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "load_base", lambda _name: replace(DEFINITION, packages=("hello", "gcc")))
    with pytest.raises(InputError, match="the lock is stale"):
        make_base("base", store, progress=Silent())
    assert made == []


def test_missing_packages_end_it(
    data: Path, made: list[list[str]], folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / CHOSEN[0].deb).unlink()
    monkeypatch.setenv("ORBIT_SOURCES", str(folder))
    monkeypatch.setenv("ORBIT_DEBIAN", "http://127.0.0.1:9/debian")
    with pytest.raises(MissingError, match="1 packages of the base cannot be had"):
        make_base("base", store, progress=Silent())
    assert made == []


def test_the_day_and_the_machine_do_not_enter_the_key() -> None:
    later = replace(LOCK, archives=tuple(replace(each, date="2030-01-01T00:00:00Z") for each in LOCK.archives))
    assert base_inputs(DEFINITION, later) == base_inputs(DEFINITION, LOCK)
    assert base_inputs(replace(DEFINITION, drop=("x",)), LOCK) != base_inputs(DEFINITION, LOCK)
    assert base_inputs(DEFINITION, replace(LOCK, packages=LOCK.packages[1:])) != base_inputs(DEFINITION, LOCK)


def test_an_image_as_the_base_gives_the_lowest_layers(
    build_small: BuildSmall, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_image(tmp_path / "debian", [[file("etc/debian_version", b"12")], [file("etc/more", b"more")]])
    digest = read_layout(path).digest
    definition = base.BaseDefinition(schema=2, image=f"oci:{path}@{digest}")
    monkeypatch.setattr(base, "load_base", lambda _name: definition)
    monkeypatch.setattr(build, "make_base", make_base)
    image = build_small(store)
    lower = [layer.digest for layer in read_layout(path).layers]
    assert [layer.digest for layer in image.layers][:2] == lower
    assert [layer.name for layer in image.layers][:2] == ["base", "base-2"]
    layout = read_layout(image.layout)
    verify_layers(layout)
    assert [layer.digest for layer in layout.layers][:2] == lower
    assert layout.config.config.entrypoint != ()
    again = build_small(store)
    assert (again.digest, again.layers[0].reused) == (image.digest, True)
