"""The memory of where blobs are: never more than a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.image.registry import known
from orbit.image.registry.known import known_file, recall, remember

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def test_another_repository_of_the_same_host_is_recalled(tmp_path: Path) -> None:
    file = known_file(tmp_path)
    assert recall(file, "h", "x") == {}
    remember(file, "h", "x", [A, B])
    remember(file, "h", "y", [B])
    remember(file, "other", "z", [A])
    assert recall(file, "h", "new") == {A: "x", B: "y"}
    assert recall(file, "h", "x") == {B: "y"}


def test_a_broken_file_is_an_empty_memory(tmp_path: Path) -> None:
    file = known_file(tmp_path)
    file.parent.mkdir()
    file.write_text("{")
    assert recall(file, "h", "x") == {}
    remember(file, "h", "x", [A])
    assert recall(file, "h", "y") == {A: "x"}


def test_the_oldest_lines_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LINES_MAX", 2)
    file = known_file(tmp_path)
    remember(file, "h", "x", ["1", "2", "3"])
    assert set(recall(file, "h", "y")) == {"2", "3"}
