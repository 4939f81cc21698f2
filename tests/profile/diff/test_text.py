"""orbit.profile.diff.text: the heaviest first, every package, no line too long; Markdown that is a table."""

from __future__ import annotations

from orbit.profile.diff.text import WIDTH, render, render_markdown
from tests.profile.diff.sides import binary, diff, pure, view

A = view(binary("torch", "2.9.1"), binary("nvidia-cuda-runtime-cu12", "12.8.90"), pure("a"), label="one")
B = view(binary("torch", "2.11.0"), binary("nvidia-cuda-runtime", "13.0.96"), pure("a", "2"), pure("b"), label="two")


def test_what_follows_comes_before_the_packages_and_the_heaviest_first() -> None:
    lines = render(diff(A, B)).splitlines()
    assert lines[0].startswith("A  one: lock ")
    assert lines[1].startswith("B  two: lock ")
    assert lines[2] == "1 new; 1 under another name; 2 moved; 0 unchanged"
    heads = [line for line in lines if line and not line.startswith(" ")][3:]
    order = [heads.index(head) for head in ("STOPS until somebody has acted", "REBUILD: the pipeline does it", "NOTE")]
    assert order == sorted(order)
    assert any(line.startswith("PACKAGES") for line in heads[order[-1] :])
    body = [line for line in lines if line.startswith("  ")]
    assert max(map(len, body)) <= WIDTH


def test_every_package_has_a_row_with_both_versions() -> None:
    rows = {line.split()[1]: line for line in render(diff(A, B)).splitlines() if line[:1] in "+-=~!" and line}
    assert rows["torch"].split()[:4] == ["~", "torch", "2.9.1", "2.11.0"]
    assert rows["b"].split()[:4] == ["+", "b", "-", "1.0"]
    assert rows["nvidia-cuda-runtime-cu12"].split()[1:6] == [
        "nvidia-cuda-runtime-cu12", "->", "nvidia-cuda-runtime", "12.8.90", "13.0.96",
    ]  # fmt: skip


def test_equal_is_said() -> None:
    assert "equal: the same 3 packages" in render(diff(A, A))
    assert "Equal: the same 3 packages" in render_markdown(diff(A, A))


def test_markdown() -> None:
    text = render_markdown(diff(A, B))
    assert text.startswith("### Lock: one -> two\n")
    assert "| CUDA | 12.8 | 13.0 |" in text
    assert "| torch | 2.9.1 | 2.11.0 | torch-abi |" in text
    assert text.count("<details>") == text.count("</details>") == 1
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (4, 5)
