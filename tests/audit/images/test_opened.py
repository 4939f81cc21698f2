"""Layers of an opened image as facts and as streams, for every way an image can be given."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.opened import OpenImage, open_image
from orbit.core.console import Silent
from orbit.errors import InputError
from tests.writers.images import docker_archive
from tests.writers.tiny_image import file, folder, rewrite, write_image

LAYERS = (
    [folder("etc"), file("etc/a", b"one"), file("etc/b", b"two" * 9000)],
    [file("etc/c", b"three"), file("etc/d", b"four")],
)


def spelled(tmp_path: Path, form: str) -> OpenImage:
    """The same image in one of its forms."""
    archive = tmp_path / f"{form}.tar"
    if form == "layout":
        return open_image(str(write_image(tmp_path / "layout", LAYERS)), Silent())
    data = docker_archive(LAYERS, old=form == "old")
    archive.write_bytes(gzip.compress(data) if form == "compressed" else data)
    return open_image(str(archive), Silent())


FORMS = ("layout", "archive", "old", "compressed")


@pytest.mark.parametrize("form", FORMS)
def test_wanted_layers_and_members(tmp_path: Path, form: str) -> None:
    opened = spelled(tmp_path, form)
    facts, remembered = opened.facts([1], None, Silent())
    assert sorted(facts) == [1]
    assert not remembered
    numbers = {path: entry.number for path, entry in facts[1].entries()}
    wanted = {0: [2], 1: [numbers["etc/d"]]}
    found = [(item.layer, item.member.path, b"".join(item.content)) for item in opened.members(wanted)]
    assert found == [(0, "etc/b", b"two" * 9000), (1, "etc/d", b"four")]


@pytest.mark.parametrize("form", FORMS)
def test_members_may_be_left_unread(tmp_path: Path, form: str) -> None:
    opened = spelled(tmp_path, form)
    assert [item.member.path for item in opened.members({0: [1, 2], 1: [0, 1]})] == ["etc/a", "etc/b", "etc/c", "etc/d"]
    assert list(opened.members({})) == []


@pytest.mark.parametrize("form", ["layout", "archive"])
def test_layers_on_disk_are_remembered(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbit.audit.images.layer_cache.SETTLE_NS", 0)
    opened, memory = spelled(tmp_path, form), LayerCache(tmp_path / "facts")
    assert opened.remembered(0, memory) is None
    first, _ = opened.facts([0], memory, Silent())
    again, remembered = opened.facts([0, 1], memory, Silent())
    assert remembered == {0}
    assert again[0] == first[0] == opened.remembered(0, memory)


def test_titles_are_names_or_what_made_the_layer(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", LAYERS)
    history = [{"created_by": "orbit: base"}, {"created_by": "ENV x", "empty_layer": True}, {"created_by": "RUN y"}]
    rewrite(layout, config=lambda document: document.update(history=history))
    assert [ref.title for ref in open_image(str(layout), Silent()).ref.layers] == ["base", "RUN y"]

    def name(manifest: dict[str, list[dict[str, object]]]) -> None:
        manifest["layers"][1]["annotations"] = {"io.orbit.layer.name": "stack"}

    rewrite(layout, manifest=name)
    assert [ref.title for ref in open_image(str(layout), Silent()).ref.layers] == ["base", "stack"]
    rewrite(layout, config=lambda document: document.update(history=history[:1]), manifest=lambda _document: None)
    assert [ref.title for ref in open_image(str(layout), Silent()).ref.layers] == ["", "stack"]


def test_documents_are_kept_as_they_are_stored(tmp_path: Path) -> None:
    opened = spelled(tmp_path, "layout")
    assert b'"rootfs"' in opened.ref.config
    assert b'"layers"' in opened.ref.manifest
    assert spelled(tmp_path, "archive").ref.manifest == b"{}"


def test_nothing_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        open_image(str(tmp_path / "none"), Silent())
    with pytest.raises(InputError, match="not the name of an image"):
        open_image("docker-daemon:-x", Silent())
