"""Every shipped expectations file loads; wrong ones are refused with file, key and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.policy import load_expectations, load_policy
from orbit.core.paths import data_file
from orbit.errors import InputError
from orbit.profile.model import load_profile, profile_names


@pytest.mark.parametrize("name", profile_names())
def test_shipped_files_load(name: str) -> None:
    policy = load_policy(load_profile(name))
    assert policy.system.is_driver("libcuda.so.1")
    assert policy.system.find("libc.so.6") is not None


def test_every_expectations_file_belongs_to_a_profile() -> None:
    used = {name for profile in profile_names() for name in load_profile(profile).expectations}
    present = {path.name for path in data_file("kernels", "expectations").glob("*.toml")}
    assert present == used | {"system.toml"}
    assert len(present) >= 3


GAP = '[[gaps]]\nfile = "a.so"\ntarget = "{}"\nresult = "none"\ncontainers = {}\nreason = "{}"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 2", "schema 2 is not known"),
        ("schema = 1\n" + GAP.format("b300", 1, "long enough to say why"), "'b300' is not in profile probe"),
        ("schema = 1\n" + GAP.format("b200", 0, "long enough to say why"), "containers = 0"),
        ("schema = 1\n" + GAP.format("b200", 1, "because"), "explains nothing"),
        ("schema = 1\n" + 2 * GAP.format("b200", 1, "long enough to say why"), "declared twice"),
        ("schema = 1\ngap = 1", "unknown field `gap`"),
        ("schema = 1\n[[waivers]]\nrule = 'x'\nsubject = 'y'\nreason = 'long enough to say why'\n", "expires"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        load_expectations(path, load_profile("probe"))
    assert str(path) in str(caught.value)
