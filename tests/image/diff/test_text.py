"""The comparison as text for people."""

from __future__ import annotations

from pathlib import Path

from orbit.image.diff.text import render
from tests.image.diff.material import base, compared, image, left_layers, library, rich
from tests.image.inspect.material import HOSTILE, as_zstd
from tests.writers.tiny_image import file


def test_it_tells_everything_once(tmp_path: Path) -> None:
    left = image(tmp_path / "left", [*left_layers(), [file("opt/x.so", library(b"one" * 50))]], Env=["A=1"])
    right = image(
        tmp_path / "right",
        [base(b"1.0-2"), rich("14.1", b"x = 2\n"), left_layers()[2], [file("opt/x.so", library(b"two" * 50))]],
        Env=["A=2"],
    )
    text = render(compared(left, right), limit=9)
    for words in (
        "Env.A\n    - 1\n    + 2", "base             changed", "top              the same",
        "libfoo (Debian) 1.0-1 -> 1.0-2", "rich 14.0 -> 14.1: ", "build id only", "+ x = 2",
        "rich-14.0.dist-info/LICENSE -> ", ".nv_fatbin[0] sm_90a:", "not compared: 1 layer:", "DIFFERENT: files: ",
    ):  # fmt: skip
        assert words in text, words
    assert text.count("libfoo (Debian)") == 1


def test_equal(tmp_path: Path) -> None:
    layout = image(tmp_path / "left", left_layers())
    text = render(compared(layout, layout))
    assert text.endswith("equal\n")
    assert "DIFFERENT" not in text


def test_limit_cuts_and_says_so(tmp_path: Path) -> None:
    left = image(tmp_path / "left", [[file(f"etc/{n}", b"1\n") for n in range(9)]])
    right = image(tmp_path / "right", [[file(f"etc/{n}", b"2\n") for n in range(9)]])
    found = compared(left, right)
    short, whole = render(found, limit=2), render(found, limit=None)
    assert "... and 7 files more" in short
    assert "9 x text" in short
    assert "etc/8" not in short
    assert "etc/8" in whole


def test_one_line_for_the_reason_of_a_stream_with_equal_files(tmp_path: Path) -> None:
    members = [file("a", b"1"), file("b", b"2")]
    text = render(compared(image(tmp_path / "left", [members]), image(tmp_path / "right", [members[::-1]])))
    assert "equal files, order of entries only" in text
    assert "DIFFERENT: no file; layers" in text


def test_compression_alone(tmp_path: Path) -> None:
    left, right = (image(tmp_path / name, left_layers()) for name in ("left", "right"))
    text = render(compared(left, as_zstd(right)))
    assert "compressed differently, the same content" in text
    assert "DIFFERENT: no file; compression" in text


def test_names_of_files_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    left = image(tmp_path / "left", [[file("x", b"1")]])
    right = image(tmp_path / "right", [[file("x", b"1"), file(f"opt/{HOSTILE}", b"\x1b[31m")]])
    text = render(compared(left, right), color=False)
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
