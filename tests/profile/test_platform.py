from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.profile.platform import MARKER_ENVIRONMENT, marker_holds, tag_ranks, wheel_rank

WHERE = Path("uv.lock")


def test_specific_tags_rank_before_general_ones() -> None:
    ranks = {str(tag): rank for tag, rank in tag_ranks().items()}
    order = [
        "cp312-cp312-manylinux_2_36_x86_64",
        "cp312-cp312-manylinux_2_17_x86_64",
        "cp312-cp312-manylinux2014_x86_64",
        "cp312-cp312-manylinux1_x86_64",
        "cp312-cp312-linux_x86_64",
        "cp312-abi3-linux_x86_64",
        "cp39-abi3-manylinux_2_34_x86_64",
        "py3-none-manylinux_2_5_x86_64",
        "py3-none-any",
    ]
    assert sorted(order, key=lambda tag: ranks[tag]) == order
    assert "cp312-cp312-manylinux_2_37_x86_64" not in ranks
    assert not [tag for tag in ranks if "musllinux" in tag or "aarch64" in tag or "cp313" in tag]


def test_one_usable_tag_of_a_compressed_set_is_enough() -> None:
    assert wheel_rank("a-1.0-cp312-cp312-manylinux_2_40_x86_64.manylinux_2_28_x86_64.whl") is not None
    assert wheel_rank("a-1.0-cp312-cp312-manylinux_2_40_x86_64.whl") is None
    assert wheel_rank("a-1.0.tar.gz") is None


@pytest.mark.parametrize(
    "marker",
    ["nonsense", "python_version >= ", "weather == 'fair'", "'' >= ')3.1'", f"python_version < '{'9' * 5000}'", ""],
)
def test_a_marker_that_is_none_names_the_file(marker: str) -> None:
    with pytest.raises(InputError, match=r"uv\.lock: marker"):
        marker_holds(marker, WHERE)


def test_every_pep_508_variable_is_set() -> None:
    for name in MARKER_ENVIRONMENT:
        assert marker_holds(f"{name} == '{MARKER_ENVIRONMENT[name]}'", WHERE)
