"""Every shipped expectations file loads; wrong ones are refused with file, key and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.policy import load_expectations, load_policy
from orbit.core.paths import data_file
from orbit.errors import InputError
from orbit.profile.model import load_profile, profile_names
from tests.source import ROOT


@pytest.mark.parametrize("name", profile_names())
def test_shipped_files_load(name: str) -> None:
    policy = load_policy(load_profile(name))
    assert policy.system.is_driver("libcuda.so.1")
    assert policy.system.find("libc.so.6") is not None


def test_every_expectations_file_belongs_to_a_profile_or_is_read_by_a_module() -> None:
    used = {name for profile in profile_names() for name in load_profile(profile).expectations}
    present = {path.name for path in data_file("kernels", "expectations").glob("*.toml")}
    sources = "".join(path.read_text() for path in (ROOT / "orbit").rglob("*.py"))
    read = {name for name in present - used if f'"expectations", "{name}"' in sources}
    assert present == used | read
    assert {"system.toml", "artifacts.toml"} <= read
    assert len(used) >= 2


def test_files_of_the_caller_are_added(tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    reason = "reason = 'long enough to say why'\n"
    feature = "[[features]]\nfiles = ['x/*.so']\ntarget = 'h100'\n" + reason
    one.write_text("schema = 1\n" + GAP.format("b200", 1, "long enough to say why") + feature)
    policy = load_policy(load_profile("probe"), extra=(one,), gids=frozenset({7}))
    assert [gap.file for gap in policy.expectations.gaps] == ["a.so"]
    assert policy.expectations.features[0].files == ("x/*.so",)
    assert policy.gids == {7}
    two.write_text("schema = 1\n" + GAP.format("b200", 2, "long enough to say why"))
    with pytest.raises(InputError, match="also declared in") as caught:
        load_policy(load_profile("probe"), extra=(one, two))
    assert str(one) in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        load_policy(load_profile("probe"), extra=(tmp_path / "none.toml",))


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
        ("schema = 1\n[[features]]\nfiles=['a']\ntarget='b300'\nreason='long enough to say why'", "'b300' is not in"),
        ("schema = 1\n[[features]]\nfiles=['a']\ntarget='b200'\nreason='because'", "explains nothing"),
        ("schema = 1\n[[waivers]]\nrule = 'x'\nsubject = 'y'\nreason = 'long enough to say why'\n", "expires"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        load_expectations(path, load_profile("probe"))
    assert str(path) in str(caught.value)
