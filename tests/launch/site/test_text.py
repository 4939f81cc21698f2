"""A site as text: what is read back is the same."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.core.records import convert
from orbit.launch.site.model import Site, read_site, site_names
from orbit.launch.site.text import render_site

words = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def back(text: str) -> Site:
    return convert(tomllib.loads(text), Site, "text")


@pytest.mark.parametrize("name", site_names())
def test_shipped_sites_come_back_as_they_were(name: str) -> None:
    site = read_site(name)
    assert back(render_site(site)) == site


@given(
    words, st.dictionaries(words, words, max_size=3), st.lists(words, max_size=3),
    st.lists(st.fixed_dictionaries({"host": words, "container": words, "shared": st.booleans()}), max_size=3),
    st.dictionaries(st.sampled_from(["name", "nodes", "nodes.most", "slurm.partition", "storage.mounts.0.locks"]),
                    words, max_size=3),
)  # fmt: skip
def test_whatever_stands_in_a_site_comes_back(
    name: str, environment: dict[str, str], options: list[str], mounts: list[dict[str, Any]], notes: dict[str, str]
) -> None:
    plain = {
        "schema": 1, "name": name, "scheduler": "slurm", "nodes": {"gpus": 0, "cpus": 1, "memory_gib": 1},
        "image": {"runtime": "pyxis"}, "environment": environment, "slurm": {"options": options},
        "storage": {"mounts": mounts},
    }  # fmt: skip
    site = convert(plain, Site, "plain")
    assert back(render_site(site, notes, head=name)) == site


def test_a_note_stands_beside_its_key_and_brings_a_default_with_it() -> None:
    text = render_site(
        read_site("kubernetes"), {"nodes.most": "by hand", "limits.cuda_ipc": "not tried", "name": "x" * 120}
    )
    assert "most = 4 # by hand\n" in text
    assert "cuda_ipc = true # not tried\n" in text
    assert f"# {'x' * 120}\nname = " in text
    assert "cuda_ipc" not in render_site(read_site("kubernetes"))


def test_tables_with_tables_inside_are_valid() -> None:
    text = render_site(read_site("kubernetes"))
    assert '\n[kubernetes.node_selector]\n"nvidia.com/gpu.product" = ' in text
    assert "[[storage.mounts]]" in render_site(read_site("docker-1gpu"))
    assert "[storage]" not in render_site(read_site("docker-1gpu"))
