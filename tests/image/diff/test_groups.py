"""Groups: who owns a difference, and versions before and after."""

from __future__ import annotations

from pathlib import Path

from tests.image.diff.material import base, compared, image, left_layers, rich
from tests.writers.tiny_image import file


def test_added_and_removed_distributions(tmp_path: Path) -> None:
    left = image(tmp_path / "left", [base(), rich("14.0", b"x\n")])
    right = image(tmp_path / "right", [base(), [file("opt/x", b"1")]])
    groups = {group.name: group for group in compared(left, right).groups}
    assert (groups["rich"].before, groups["rich"].after) == ("14.0", "")
    assert set(groups["rich"].counts) == {"removed"}
    back = {group.name: group for group in compared(right, left).groups}
    assert (back["rich"].before, back["rich"].after, set(back["rich"].counts)) == ("", "14.0", {"added"})
    assert back["rich"].right_bytes == groups["rich"].left_bytes > 0


def test_causes_and_words_are_counted(tmp_path: Path) -> None:
    left = image(tmp_path / "left", [[file(f"etc/{n}", b"%d" % n) for n in range(3)]])
    right = image(tmp_path / "right", [[file(f"etc/{n}", b"!%d" % n, 0o600) for n in range(3)]])
    (group,) = compared(left, right).groups
    assert group.causes == {"text": 3}
    assert group.whys == {"text; permissions": 3}
    assert (group.left_bytes, group.right_bytes) == (3, 6)


def test_python_then_debian_then_the_rest(tmp_path: Path) -> None:
    left = image(tmp_path / "left", left_layers())
    right = image(tmp_path / "right", [base(b"2", b"bye"), rich("15", b"z\n"), left_layers()[2]])
    assert [group.kind for group in compared(left, right).groups] == ["python", "debian", "other", "other"]
