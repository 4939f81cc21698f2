"""Two images compared, from the digest to the cause."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from orbit.audit.reports.report import json_schema
from orbit.core.console import Silent
from orbit.core.paths import data_root
from orbit.core.records import canonical
from orbit.errors import InputError
from orbit.image.diff.records import ImageDiff
from orbit.image.diff.run import FORM, Options, diff_images
from orbit.image.oci import read_layout
from tests.image.diff.material import base, compared, image, left_layers, library, one_file, rich
from tests.image.diff.test_bytecode import SOURCE, pyc
from tests.image.inspect.material import as_zstd
from tests.writers.images import SITE, docker_archive
from tests.writers.tiny_image import file, rewrite, write_image


def check_schema(found: ImageDiff) -> None:
    schema = json.loads((data_root() / "docs/schemas/image-diff.json").read_bytes())
    document = json.loads(canonical(found))
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []


def refuse_to_read(*_args: object) -> None:
    raise AssertionError("a layer was read")


def test_an_image_is_equal_to_itself_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = image(tmp_path / "left", left_layers())
    monkeypatch.setattr("orbit.audit.images.opened.read_layers", refuse_to_read)
    found = compared(layout, layout)
    assert found.equal
    assert {layer.change for layer in found.layers} == {"same"}
    check_schema(found)


def test_configuration_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = image(tmp_path / "left", left_layers(), Env=["A=1"])
    right = image(tmp_path / "right", left_layers(), Env=["A=2"], User="7")
    monkeypatch.setattr("orbit.audit.images.opened.read_layers", refuse_to_read)
    found = compared(left, right)
    assert not found.equal
    assert {(change.name, change.before, change.after) for change in found.config} == {
        ("Env.A", "1", "2"), ("User", "", "7"),
    }  # fmt: skip


def test_a_document_in_another_form_is_not_equal(tmp_path: Path) -> None:
    left, right = (image(tmp_path / name, left_layers()) for name in ("left", "right"))
    rewrite(right, config=lambda document: document.update(history=None))
    found = compared(left, right)
    assert [change.name for change in found.config] == [FORM]
    assert not found.equal


def test_the_same_streams_compressed_differently(tmp_path: Path) -> None:
    left, right = image(tmp_path / "left", left_layers()), as_zstd(image(tmp_path / "right", left_layers()))
    found = compared(left, right)
    assert {layer.change for layer in found.layers} == {"recompressed"}
    assert found.groups == ()
    assert not found.equal


def test_a_layout_and_an_archive_of_one_image(tmp_path: Path) -> None:
    layers = left_layers()
    archive = tmp_path / "x.tar"
    archive.write_bytes(docker_archive(layers))
    layout = write_image(tmp_path / "layout", layers)
    assert read_layout(layout).digest
    found = compared(layout, archive)
    assert {layer.change for layer in found.layers} == {"same"}
    assert found.groups == ()


def test_an_upgraded_distribution(tmp_path: Path) -> None:
    left = image(tmp_path / "left", left_layers())
    right = image(
        tmp_path / "right", [*left_layers()[:1], rich("14.1", b"x = 2\ny = 2\n", extra=True), left_layers()[2]]
    )
    found = compared(left, right)
    assert [layer.change for layer in found.layers] == ["same", "changed", "same"]
    assert [layer.read for layer in found.layers] == [False, True, False]
    (group,) = found.groups
    assert (group.kind, group.name, group.before, group.after) == ("python", "rich", "14.0", "14.1")
    files = {item.path.removeprefix(f"{SITE}/"): item for item in group.files}
    assert files["rich/__init__.py"].why == "text"
    assert files["rich/__init__.py"].content is not None
    assert files["rich/__init__.py"].content.lines_right == ("x = 2",)
    assert files["rich/new.py"].change == "added"
    renamed = files["rich-14.1.dist-info/LICENSE"]
    assert (renamed.change, renamed.before) == ("renamed", f"{SITE}/rich-14.0.dist-info/LICENSE")
    assert found.counts == {"changed": 1, "added": 3, "removed": 2, "renamed": 1}
    assert "rich/same.py" not in files
    check_schema(found)


def test_a_debian_package_and_what_nobody_owns(tmp_path: Path) -> None:
    left = image(tmp_path / "left", left_layers())
    right = image(tmp_path / "right", [base(b"1.0-2", b"bye\n"), *left_layers()[1:]])
    groups = {group.name: group for group in compared(left, right).groups}
    foo = groups["libfoo"]
    assert (foo.kind, foo.before, foo.after) == ("debian", "1.0-1", "1.0-2")
    assert {item.path: item.why for item in foo.files} == {"usr/lib/libfoo.so": "build id only"}
    assert {item.path for item in groups["/etc"].files} == {"etc/motd"}


def test_device_code(tmp_path: Path) -> None:
    found = one_file(tmp_path, "opt/x.so", library(b"one" * 50), library(b"two" * 50))
    assert found.content is not None
    assert found.content.binary is not None
    assert [part.arch for part in found.content.binary.images] == ["sm_90a"]


def test_compiled_files_follow_their_source(tmp_path: Path) -> None:
    names = "opt/m.py", "opt/__pycache__/m.cpython-312.pyc", "opt/__pycache__/n.cpython-312.pyc"
    old, new = SOURCE, SOURCE.replace("1", "2")
    left = image(tmp_path / "left", [[file(names[0], old.encode()), file(names[1], pyc(old)), file(names[2], pyc())]])
    changed = [file(names[0], new.encode()), file(names[1], pyc(new, time=5)), file(names[2], pyc(time=5))]
    (group,) = compared(left, image(tmp_path / "right", [changed])).groups
    assert {item.path: item.why for item in group.files} == dict(
        zip(names, ("text", "follows its source", "time in the .pyc header only"), strict=True)
    )


def test_moved_between_layers_and_other_aspects(tmp_path: Path) -> None:
    left = image(tmp_path / "left", [[file("a", b"1"), file("b", b"1")], [file("c", b"1")]])
    right = image(tmp_path / "right", [[file("a", b"1", 0o755)], [file("c", b"1"), file("b", b"1")]])
    (group,) = compared(left, right).groups
    assert {item.path: (item.change, item.why) for item in group.files} == {
        "a": ("changed", "permissions"), "b": ("moved", ""),
    }  # fmt: skip
    moved = next(item for item in group.files if item.path == "b")
    assert moved.left is not None
    assert moved.right is not None
    assert (moved.left.layer, moved.right.layer) == ("base", "stack")


def test_equal_files_in_another_order(tmp_path: Path) -> None:
    members = [file("a", b"1"), file("b", b"2")]
    found = compared(image(tmp_path / "left", [members]), image(tmp_path / "right", [members[::-1]]))
    assert found.groups == ()
    assert not found.equal
    assert found.layers[0].causes == ("member-order",)


def test_quick_looks_into_no_file(tmp_path: Path) -> None:
    left = image(tmp_path / "left", left_layers())
    right = image(tmp_path / "right", [base(b"2"), *left_layers()[1:]])
    found = compared(left, right, quick=True)
    assert all(item.content is None for group in found.groups for item in group.files)
    assert any("--quick" in item.reason for item in found.skipped)


def foreign(path: Path, *layers: list[object]) -> Path:
    return write_image(path, layers)  # type: ignore[arg-type]


def test_equal_layers_are_read_where_they_can_change_the_answer(tmp_path: Path) -> None:
    shared = [file("etc/a", b"below"), file("etc/b", b"below")]
    left = foreign(tmp_path / "left", shared, [file("etc/a", b"above"), file("x", b"1")])
    right = foreign(tmp_path / "right", shared, [file("x", b"2")])
    (etc, top) = sorted(compared(left, right).groups, key=lambda group: group.name, reverse=True)
    assert [(item.path, item.change) for item in (*etc.files, *top.files)] == [("etc/a", "changed"), ("x", "changed")]
    hidden = foreign(tmp_path / "hidden", shared, [file("etc/.wh.b"), file("x", b"1")])
    found = compared(hidden, right)
    assert {item.path: item.change for group in found.groups for item in group.files} == {
        "etc/b": "added", "x": "changed",
    }  # fmt: skip
    assert all(layer.read for layer in found.layers)


def test_of_our_own_images_equal_layers_are_left_alone_and_it_says_so(tmp_path: Path) -> None:
    left = image(tmp_path / "left", left_layers())
    right = image(tmp_path / "right", [*left_layers()[:2], [file("opt/other", b"x")]])
    found = compared(left, right)
    assert [layer.read for layer in found.layers] == [False, False, True]
    assert ["not read" in item.reason for item in found.skipped] == [True]
    assert all(layer.read for layer in compared(left, right, whole=True).layers)


def test_what_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an image"):
        diff_images(str(tmp_path), str(tmp_path), Options(), Silent())


def test_published_schema_is_current() -> None:
    published = data_root() / "docs" / "schemas" / "image-diff.json"
    assert published.read_bytes() == json_schema(ImageDiff), "orbit image diff --schema > docs/schemas/image-diff.json"
