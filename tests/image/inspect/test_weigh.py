"""What fills an image: everything is counted once, and adds up."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.image.inspect.look import look
from orbit.image.inspect.records import Contents
from tests.image.inspect.material import SM_80, SM_90, as_zstd, image, library
from tests.writers.images import SITE, docker_archive
from tests.writers.tiny_image import file, other


def contents(layout: Path | str) -> Contents:
    found = look(str(layout), profile=None, cache=None, brief=False, verify=False, progress=Silent()).facts.contents
    assert found is not None
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    return contents(as_zstd(image(tmp_path_factory.mktemp("weigh"))))


def test_cells_add_up_to_the_layers_to_the_byte(tmp_path: Path) -> None:
    for layout in (image(tmp_path / "gzip"), as_zstd(image(tmp_path / "zstd"))):
        looked = look(str(layout), profile=None, cache=None, brief=False, verify=False, progress=Silent()).facts
        assert looked.contents is not None
        for layer in looked.layers:
            cells = [cell for cell in looked.contents.cells if cell.layer == layer.name]
            assert sum(cell.pull_bytes or 0 for cell in cells) == layer.pull_bytes
        for rows in (looked.contents.owners, looked.contents.kinds, looked.contents.cells):
            assert sum(row.disk_bytes for row in rows) == looked.contents.disk_bytes
            assert sum(row.pull_bytes or 0 for row in rows) == looked.pull_bytes


def test_owners(found: Contents) -> None:
    rows = {row.name: row for row in found.owners}
    gpu = rows["gpu"]
    assert (gpu.kind, gpu.version, gpu.layers, gpu.files) == ("python", "1.0", ("1",), 8)
    assert gpu.architectures == {"sm_90a": len(SM_90), "sm_80": len(SM_80), "sm_100 (by file name)": 1500}
    assert gpu.unused_bytes == len(SM_80) + 1500
    assert (rows["libfoo"].kind, rows["libfoo"].version, rows["libfoo"].files) == ("debian", "1.2-3", 4)
    assert rows["CPython (/opt/orbit)"].files == 1
    assert found.owners[0].name == "gpu"


def test_architectures_and_who_uses_them(found: Contents) -> None:
    rows = {row.arch: row for row in found.architectures}
    assert (rows["sm_90a"].sass, rows["sm_80"].sass, rows["sm_80"].pieces) == (("h100",), (), 1)
    assert rows["sm_90a"].owners == {"gpu": len(SM_90)}
    assert found.device_bytes == len(SM_90) + len(SM_80) + 1500
    assert found.unused_bytes == len(SM_80) + 1500
    assert 0 < (found.unused_pull_bytes or 0) < found.unused_bytes


def test_kinds(found: Contents) -> None:
    rows = {row.kind: row for row in found.kinds}
    assert rows["host"].disk_bytes == len(library()) - len(SM_90) - len(SM_80) + elf_bytes()
    assert (rows["host"].files, rows["device"].files) == (2, 2)
    assert rows["tests"].files == 1
    assert rows["link"].disk_bytes == 0
    assert rows["licence"].files == 1


def elf_bytes() -> int:
    from tests.writers.elf import write_elf

    return len(write_elf())


def test_largest_files_are_whole(found: Contents) -> None:
    first = found.largest[0]
    assert (first.path, first.disk_bytes, first.kind) == (f"{SITE}/gpu/_c.so", len(library()), "host")
    assert len(found.largest) == found.files


def test_duplicates_and_hidden_files(found: Contents) -> None:
    copies = {row.paths: row for row in found.duplicates}
    same = copies[f"{SITE}/gpu/__init__.py", f"{SITE}/pure/x.py"]
    assert (same.copies, same.waste_bytes, same.size) == (2, 240, 240)
    assert len(same.sha256) == 64
    assert [(row.path, row.layer, row.disk_bytes) for row in found.hidden] == [("etc/motd", "0", 150)]
    assert found.hidden_bytes == 150


def test_hard_links_and_replaced_members_count_once(tmp_path: Path) -> None:
    layer = [file("a", b"x" * 5000), other("b", b"1", "a"), file("c", b"old" * 999), file("c", b"new")]
    found = contents(image(tmp_path, layer, labels={}))
    assert found.disk_bytes == 5003
    assert found.duplicates == ()
    archive = [row for row in found.owners if row.name == "(archive)"]
    assert archive[0].pull_bytes


def test_without_targets_nothing_is_called_unused(tmp_path: Path) -> None:
    from tests.image.inspect.material import base, stack

    found = contents(image(tmp_path, base(), stack(), labels={}))
    assert found.unused_bytes is None
    assert found.targets == ()


def test_an_archive_of_docker_has_no_pull_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(docker_archive([[file("a", b"x" * 500)]]))
    found = contents(path)
    assert found.disk_bytes == 500
    assert {row.pull_bytes for row in (*found.kinds, *found.owners, *found.cells, *found.largest)} == {None}
