"""The page: self-contained, everything escaped, the same numbers as the facts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from orbit.core.amounts import format_bytes
from orbit.image.inspect.page import STYLE, to_html
from tests.image.inspect.material import HOSTILE, image
from tests.image.inspect.test_look import looked


class Reader(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return to_html(looked(image(tmp_path_factory.mktemp("page")))).decode()


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_it_asks_for_nothing_and_runs_only_its_own_script(page: str) -> None:
    found = read(page)
    assert not {name for name, _ in found.attributes} & {"src", "style", "onclick", "onload", "onerror"}
    assert all(value.startswith("#") for name, value in found.attributes if name == "href")
    assert not re.search(r"https?:|url\(|@import", STYLE.read_text() + STYLE.with_suffix(".js").read_text())
    assert found.tags.count("script") == 2  # data and our own


def test_hostile_names_are_text(page: str) -> None:
    assert HOSTILE not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "alert(1)" in page
    assert "<script>alert" not in page


def test_tables_stand_without_scripts(page: str) -> None:
    text = " ".join(read(page).words)
    for words in ("gpu", "libfoo", "sm_90a", "no target", "beyond one copy", "of layer", "1.2-3", format_bytes(3000)):
        assert words in text
    assert f"{format_bytes(4500)} of " in text


def test_every_control_has_a_name(page: str) -> None:
    assert not re.findall(r"<input(?![^>]*aria-label)", page)
    assert all(name in page for name in ('role="tree"', 'aria-label="treemap of the image"', 'aria-live="polite"'))
