"""The sums of a report."""

from __future__ import annotations

from orbit.image.slim.facts import ArchBytes
from orbit.image.slim.report import LayerChange, SlimReport, removable, removed_by_arch, render
from orbit.image.slim.tree import SlimFile, SlimRecord
from orbit.profile.model import SlimPolicy


def library(path: str, *, touched: bool, why: str = "") -> SlimFile:
    archs = (
        ArchBytes(arch="sm_75", keep=False, reason="unused", entries=3, bytes=3_000_000),
        ArchBytes(arch="sm_90a", keep=True, reason="loads", entries=2, bytes=1_000_000),
    )
    return SlimFile(
        path=path,
        distribution="some",
        layout="shrink" if touched else "none",
        why_not=why,
        original_sha256="a",
        sha256="b",
        original_size=8_000_000,
        size=5_000_000 if touched else 8_000_000,
        removed_entries=3 if touched else 0,
        removed_bytes=3_000_000 if touched else 0,
        archs=archs,
    )


def report(files: tuple[SlimFile, ...]) -> SlimReport:
    layer = LayerChange(name="stack", pull_before=10, pull_after=6, unpacked_before=20, unpacked_after=15)
    slim = SlimRecord(environment="e", targets=("9.0", "10.0"), policy=SlimPolicy(), files=files)
    return SlimReport(
        profile="small", slim=slim, disk_before=16, disk_after=13, digest="sha256:d", layers=(layer, layer)
    )


def test_only_what_went_counts_as_removed() -> None:
    files = (library("a.so", touched=True), library("b.so", touched=False, why="licence: x"))
    assert removed_by_arch(files) == {"sm_75": (3, 3_000_000)}
    assert [removable(item) for item in files] == [3_000_000, 3_000_000]


def test_the_ratio_is_of_bytes_to_pull() -> None:
    assert report(()).pull_ratio == 0.6


def test_people_read_why_a_file_was_left() -> None:
    many = tuple(library(f"{number}.so", touched=False, why="licence: clause 2.2") for number in range(20))
    text = render(report(many))
    assert "left alone, with 60.0 MB" in text
    assert "0.so  3.0 MB: licence: clause 2.2" in text
    assert "and 8 more" in text
    assert "(none)" in text
    assert "removed by architecture" not in text  # nothing was
    assert "removed by architecture\n  sm_75" in render(report((library("a.so", touched=True),)))
