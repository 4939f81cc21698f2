"""Bundles fit what is there, or it is said what is wanted and what there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import RefusedError
from orbit.launch.ray.bundles import Bundle, fit


def test_processors_are_scaled_to_what_there_is() -> None:
    assert fit([Bundle(gpus=6, cpus=60)], [Bundle(gpus=8, cpus=8)]) == (Bundle(gpus=6, cpus=8),)
    two = fit([Bundle(gpus=4, cpus=30), Bundle(gpus=4, cpus=10)], [Bundle(gpus=8, cpus=8)])
    assert two == (Bundle(gpus=4, cpus=6), Bundle(gpus=4, cpus=2))


def test_what_fits_stays_as_it_is() -> None:
    wanted = [Bundle(gpus=1, cpus=4), Bundle(gpus=8, cpus=16)]
    assert fit(wanted, [Bundle(gpus=8, cpus=16), Bundle(gpus=8, cpus=16)]) == tuple(wanted)


def test_gpus_that_are_not_there_are_told() -> None:
    with pytest.raises(RefusedError, match=r"want 6 GPU \+ 1 CPU, 6 GPU \+ 1 CPU, and the nodes have 8 GPU \+ 8 CPU"):
        fit([Bundle(gpus=6, cpus=1)] * 2, [Bundle(gpus=8, cpus=8)])


@given(
    st.lists(st.builds(Bundle, gpus=st.integers(0, 2), cpus=st.integers(1, 64)), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 32),
)
def test_nothing_grows_and_all_of_it_fits(wanted: list[Bundle], nodes: int, cpus: int) -> None:
    there = [Bundle(gpus=8, cpus=cpus)] * nodes
    try:
        made = fit(wanted, there)
    except RefusedError:
        assert sum(each.gpus for each in wanted) > 6 * nodes
        return
    assert [each.gpus for each in made] == [each.gpus for each in wanted]
    assert all(0 < one.cpus <= asked.cpus for one, asked in zip(made, wanted, strict=True))
    assert sum(each.cpus for each in made) <= nodes * cpus + 1e-9
