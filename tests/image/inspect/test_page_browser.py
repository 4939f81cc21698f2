"""The page in a real browser: the map is drawn to scale, is walked with mouse and keyboard, and fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit.image.inspect.page import to_html
from tests.audit.reports.formats.browser import Page, find_browser, open_browser
from tests.image.inspect.material import as_zstd, image
from tests.image.inspect.test_look import looked

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    binary = find_browser()
    if binary is None:
        pytest.skip("no Chromium on PATH and ORBIT_TEST_CHROMIUM does not name one")
    with open_browser(binary, tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "page.html"
    path.write_bytes(to_html(looked(as_zstd(image(folder)))))
    return path


def show(page: Page, file: Path, *, width: int = 1400, scheme: str = "light") -> None:
    page.complaints.clear()
    page.requests.clear()
    page.show(file, width=width, scheme=scheme)


def check_quiet(page: Page) -> None:
    assert page.complaints == []
    assert {url.split("#")[0].rpartition("/")[2] for url in page.requests} <= {"page.html", "about:blank"}


TOPS = """(() => { const boxes = Array.from(document.querySelectorAll('.box[aria-level="1"]'));
return boxes.map(b => [b.node.name, b.node.sizes.disk, b.offsetLeft, b.offsetTop, b.offsetWidth,
b.offsetHeight]); })()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
def test_no_complaint_no_request_no_sideways_scrolling(page: Page, file: Path, width: int, scheme: str) -> None:
    show(page, file, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.querySelectorAll('.box').length") > 10
    tallest = "Math.max(...Array.from(document.querySelectorAll('tbody tr')).map(row => row.offsetHeight))"
    assert page.evaluate(tallest) < 200  # no column is squeezed to a letter
    check_quiet(page)


def test_area_is_size_and_nothing_overlaps(page: Page, file: Path) -> None:
    show(page, file)
    boxes: list[Any] = page.evaluate(TOPS)
    whole = page.evaluate("[document.querySelector('.map').clientWidth, document.querySelector('.map').clientHeight]")
    total = sum(box[1] for box in boxes)
    for _name, size, left, top, width, height in boxes:
        assert abs(width * height / (whole[0] * whole[1]) - size / total) < 0.01
        assert left >= 0
        assert top >= 0
        assert left + width <= whole[0]
        assert top + height <= whole[1]
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            apart = (
                one[2] + one[4] <= other[2] or other[2] + other[4] <= one[2]
                or one[3] + one[5] <= other[3] or other[3] + other[5] <= one[3]
            )  # fmt: skip
            assert apart, (one, other)
    inside = """Array.from(document.querySelectorAll('.box')).every(b => { const p = b.node.parent; let up = p;
        while (up && !(up.box && up.box.isConnected)) up = up.parent; if (!up) return true;
        const a = b.getBoundingClientRect(), c = up.box.getBoundingClientRect();
        return a.left >= c.left && a.right <= c.right && a.top >= c.top && a.bottom <= c.bottom; })"""
    assert page.evaluate(inside) is True


def press(page: Page, key: str) -> None:
    page.evaluate(
        "document.querySelector('.map').dispatchEvent(new KeyboardEvent('keydown', "
        f"{{key: '{key}', bubbles: true, cancelable: true}}))"
    )


STATUS = "document.querySelector('[data-role=status]').textContent"
CRUMBS = "Array.from(document.querySelectorAll('.crumbs button')).map(b => b.textContent)"


def test_the_keyboard_walks_in_and_out(page: Page, file: Path) -> None:
    show(page, file)
    press(page, "ArrowDown")
    first = page.evaluate(STATUS)
    assert first.startswith("1 ")
    assert page.evaluate("document.querySelector('.map').getAttribute('aria-activedescendant')").startswith("box-")
    press(page, "ArrowDown")
    assert page.evaluate(STATUS).startswith("1 / gpu 1.0 ")
    press(page, "ArrowUp")
    assert page.evaluate(STATUS) == first
    press(page, "ArrowRight")
    assert page.evaluate(STATUS).startswith("0 ")
    press(page, "ArrowLeft")
    press(page, "Enter")
    assert page.evaluate(CRUMBS) == ["image", "1"]
    press(page, "Escape")
    assert page.evaluate(CRUMBS) == ["image"]
    check_quiet(page)


def test_clicks_go_in_and_crumbs_go_out(page: Page, file: Path) -> None:
    show(page, file)
    page.evaluate("""document.querySelector('.box[aria-level="2"] i').click()""")
    assert page.evaluate(CRUMBS)[:2] == ["image", "1"]
    page.evaluate("document.querySelector('.crumbs button').click()")
    assert page.evaluate(CRUMBS) == ["image"]
    check_quiet(page)


def enter(page: Page, selector: str, text: str) -> None:
    page.evaluate(
        f"(() => {{ const box = document.querySelector('{selector}'); box.value = '{text}';"
        "box.dispatchEvent(new Event('input')); })()"
    )


def test_search_adds_up_and_dims_the_rest(page: Page, file: Path) -> None:
    show(page, file)
    enter(page, ".treemap [data-role=search]", "LIBFOO")
    assert page.evaluate("document.querySelector('.treemap [data-role=count]').textContent").startswith("1 place, ")
    assert page.evaluate("document.querySelectorAll('.box.lit').length") == 1
    assert page.evaluate("document.querySelectorAll('.box.dim').length") > 3
    page.evaluate("document.querySelector('.hits button').click()")
    assert "libfoo 1.2-3 (Debian)" in page.evaluate(CRUMBS)
    enter(page, ".treemap [data-role=search]", "")
    assert page.evaluate("document.querySelectorAll('.box.dim').length") == 0
    check_quiet(page)


def test_kinds_and_measures_are_switches(page: Page, file: Path) -> None:
    show(page, file)
    page.evaluate("document.querySelector('.legends [data-kind=unused]').click()")
    lit = page.evaluate("Array.from(document.querySelectorAll('.box.leaf:not(.dim)')).map(b => b.className)")
    assert lit
    assert all("k-unused" in name for name in lit)
    before = page.evaluate(TOPS)
    page.evaluate("document.querySelector('[data-measure=pull]').click()")
    assert page.evaluate("document.querySelector('[data-measure=pull]').getAttribute('aria-pressed')") == "true"
    assert page.evaluate(TOPS) != before
    check_quiet(page)


def test_tables_sort_and_filter(page: Page, file: Path) -> None:
    show(page, file)
    names = (
        "Array.from(document.querySelectorAll('#owner-table tbody tr')).filter(r => !r.hidden).map(r => r.dataset.name)"
    )
    assert page.evaluate(names)[0] == "gpu"
    page.evaluate("document.querySelector('#owner-table [data-sort=name]').click()")
    assert page.evaluate(names) == sorted(page.evaluate(names))
    assert page.evaluate("document.querySelector('#owner-table [aria-sort]').textContent") == "name"
    enter(page, ".controls[data-for] input", "LIBFOO")
    assert page.evaluate(names) == ["libfoo"]
    check_quiet(page)


def test_hostile_names_run_nothing(page: Page, file: Path) -> None:
    show(page, file)
    enter(page, ".treemap [data-role=search]", "alert")
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    check_quiet(page)
