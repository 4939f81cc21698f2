"""Which layer is which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.images.image_source import LayerRef
from orbit.image.diff.pair import Pair, pair_layers


def refs(*layers: str) -> list[LayerRef]:
    """``title:diff_id`` or ``title:diff_id:digest``; without a digest it is not known."""
    made = []
    for layer in layers:
        title, diff_id, *digest = layer.split(":")
        made.append(LayerRef("file", digest[0] if digest else "", diff_id, 1 if digest else -1, title))
    return made


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        (["a:1", "b:2"], ["a:1", "b:2"], [Pair("same", 0, 0), Pair("same", 1, 1)]),
        (["a:1:x"], ["a:1:y"], [Pair("recompressed", 0, 0)]),
        (["a:1:x"], ["a:1"], [Pair("same", 0, 0)]),
        (["a:1", "b:2", "c:3"], ["a:1", "b:4", "c:3"], [Pair("same", 0, 0), Pair("changed", 1, 1), Pair("same", 2, 2)]),
        (["a:1", "b:2"], ["a:1", "n:9", "b:5"], [Pair("same", 0, 0), Pair("added", None, 1), Pair("changed", 1, 2)]),
        (["a:1", "b:2"], ["a:1"], [Pair("same", 0, 0), Pair("removed", 1, None)]),
        (["a:1", "b:2"], ["b:2", "a:1"], [Pair("reordered", 1, 0), Pair("same", 0, 1)]),
        ([":1", ":2"], [":1", ":3"], [Pair("same", 0, 0), Pair("changed", 1, 1)]),
        (["a:1"], ["b:2"], [Pair("removed", 0, None), Pair("added", None, 0)]),
    ],
)
def test_pairs(left: list[str], right: list[str], pairs: list[Pair]) -> None:
    assert sorted(pair_layers(refs(*left), refs(*right)), key=str) == sorted(pairs, key=str)


LAYERS = st.lists(st.builds("{}:{}".format, st.sampled_from(["", "a", "b", "c"]), st.integers(0, 5)), max_size=8)


@given(LAYERS, LAYERS)
def test_every_layer_is_in_one_pair(left: list[str], right: list[str]) -> None:
    one, two = refs(*left), refs(*right)
    pairs = pair_layers(one, two)
    assert sorted(pair.left for pair in pairs if pair.left is not None) == list(range(len(one)))
    assert sorted(pair.right for pair in pairs if pair.right is not None) == list(range(len(two)))
    for pair in pairs:
        equal = pair.left is not None and pair.right is not None and one[pair.left].diff_id == two[pair.right].diff_id
        assert equal is (pair.change in ("same", "recompressed", "reordered"))
    assert [pair.right for pair in pairs if pair.right is not None] == list(range(len(two)))
