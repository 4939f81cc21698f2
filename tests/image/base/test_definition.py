"""What a base may be: two kinds, each whole, and nothing that could mean another thing tomorrow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.image.base import definition
from orbit.image.base.definition import load_base
from orbit.profile.model import load_profile, profile_names
from tests.image.base.archive import DEFINITION

DEBIAN = 'schema = 2\ndistribution = "debian"\nsuites = ["x"]\n'


def test_the_shipped_definition_names_no_host_and_is_whole() -> None:
    shipped = load_base("base")
    assert {"ca-certificates", "gcc", "g++", "libc6-dev", "libssl3"} <= set(shipped.packages)
    assert [suite.removeprefix(shipped.suite) for suite in shipped.suites] == ["", "-updates", "-security"]
    text = (data_root() / "containers" / "base.toml").read_text()
    assert not re.search(r"https?:|\.(org|com|net)\b", text)
    prefixes = {load_profile(name).image.prefix for name in profile_names()}
    assert all(f"PATH={prefix}/bin:" in shipped.files["etc/profile.d/orbit.sh"] for prefix in prefixes)
    assert shipped.files["etc/hosts"].startswith("127.0.0.1 localhost\n")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('schema = 1\ndistribution = "debian"\nsuites = ["x"]\npackages = ["a"]', "schema 1"),
        ('schema = 2\ndistribution = "other"\nsuites = ["x"]\npackages = ["a"]', "distribution"),
        ("schema = 2", "neither distribution nor image"),
        (f"{DEBIAN}packages = []", "packages is empty"),
        (f'{DEBIAN}packages = ["a", "b", "a"]', "twice"),
        (f'{DEBIAN}packages = ["a; rm"]', "is no name"),
        (f'{DEBIAN}packages = ["?essential"]', "is no name"),
        ('schema = 2\ndistribution = "debian"\nsuites = []\npackages = ["a"]', "suites is empty"),
        ('schema = 2\nmirror = "x"', "mirror"),
        ('schema = 2\nimage = "registry.example/debian:12"', "has no digest"),
        ('schema = 2\nimage = "registry.example/debian@sha256:12"', "has no digest"),
        (f'schema = 2\nimage = "x@sha256:{"0" * 64}"\npackages = ["a"]', "image and packages"),
        (f'{DEBIAN}packages = ["a"]\n[files]\n"/etc/hosts" = ""', "no path in the image"),
        (f'{DEBIAN}packages = ["a"]\n[files]\n"../hosts" = ""', "no path in the image"),
    ],
)
def test_a_wrong_definition_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, match: str
) -> None:
    (tmp_path / "base.toml").write_text(text)
    monkeypatch.setattr(definition, "data_file", lambda *parts: tmp_path / parts[-1])
    with pytest.raises(InputError, match=match) as caught:
        load_base("base")
    assert caught.value.fix


def test_an_image_is_named_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"registry.example/team/debian:12@sha256:{'0a' * 32}"
    (tmp_path / "base.toml").write_text(f'schema = 2\nimage = "{name}"')
    monkeypatch.setattr(definition, "data_file", lambda *parts: tmp_path / parts[-1])
    assert load_base("base").image == name


@pytest.mark.parametrize("change", [{"packages": ("hello", "more")}, {"suites": ("toy",)}, {"variant": "minbase"}])
def test_what_decides_the_packages_decides_whether_a_lock_fits(change: dict[str, object]) -> None:
    assert replace(DEFINITION, **change).resolved_from != DEFINITION.resolved_from


def test_patterns_and_order_do_not() -> None:
    many = replace(DEFINITION, packages=("a", "b"))
    assert replace(many, packages=("b", "a"), drop=("x",), keep=("y",)).resolved_from == many.resolved_from
