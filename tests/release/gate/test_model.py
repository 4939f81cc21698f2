"""The definition of a release: what the repository has, and what no definition may be."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.profile.model import profile_names
from orbit.release.attest.keys import write_new
from orbit.release.gate.model import FILE, NAMES, SkipWaiver, load_definition, trust_of

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT.joinpath(*FILE).read_text()


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "ci").mkdir(exist_ok=True)
    (tmp_path / "ci" / "gate.toml").write_text(text)
    return tmp_path


def without(name: str) -> str:
    """The shipped definition less one requirement."""
    tables = SHIPPED.split("[[requirements]]")
    return "[[requirements]]".join(table for table in tables if f'name = "{name}"' not in table)


def test_the_shipped_definition_loads_and_trusts_nobody() -> None:
    definition = load_definition(ROOT)
    assert tuple(item.name for item in definition.requirements) == NAMES
    assert definition.uids == (0, 65534)
    assert [item.name for item in definition.requirements if item.unproven] == ["smoke-gpu"]
    assert all(item.reason and item.text for item in definition.requirements)
    assert definition.trust == ()
    assert trust_of(definition, ROOT).signers == ()


def test_the_shipped_waivers_are_of_profiles_that_exist() -> None:
    for waiver in load_definition(ROOT).waivers.skipped:
        assert waiver.reason
        assert any(waiver.covers(waiver.stage, waiver.what[0], name) for name in profile_names())


@pytest.mark.parametrize("name", NAMES[:-1])
def test_no_requirement_can_be_left_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"without an entry: {name}"):
        load_definition(written(tmp_path, without(name)))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("schema = 1", "schema = 2", "schema 2 is not known"),
        ('name = "lock"', 'name = "luck"', "unknown requirements: luck"),
        ('name = "lock"', 'name = "kernels"', "named twice: kernels"),
        ("max_age_days = 7", "max_age_days = 0", "max_age_days|>= 1"),
        ("max_age_days = 7", "max_age_days = 7\nunproven = true", "unproven = true of audit"),
        ("uids = [0, 65534]", "uids = []", "uids is empty"),
        ("uids = [0, 65534]", "uids = [-1]", "uids"),
        ('engines = ["docker", "podman"]', 'engines = ["bubblewrap"]', "smoke.engines"),
        ('engines = ["docker", "podman"]', "engines = []", "smoke.engines"),
        ('fences = ["namespace", "proxy"]', 'fences = ["wall"]', "cleanroom.fences"),
        ("real_ids = true", "real_id = true", "real_id"),
    ],
)
def test_what_no_definition_may_be(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in SHIPPED
    with pytest.raises(InputError, match=says):
        load_definition(written(tmp_path, SHIPPED.replace(old, new, 1)))


def test_trust_is_read_from_beside_the_definition(tmp_path: Path) -> None:
    row = '\n[[trust]]\nname = "lab"\nkey = "keys/lab.pub"\nmay_sign = ["smoke"]\n'
    root = written(tmp_path, SHIPPED + row)
    with pytest.raises(InputError, match=r"lab\.pub"):
        trust_of(load_definition(root), root)
    (tmp_path / "ci" / "keys").mkdir()
    write_new(tmp_path / "ci" / "keys" / "lab")
    found = trust_of(load_definition(root), root)
    assert [item.name for item in found.signers] == ["lab"]
    assert found.clock_tolerance_s == 600


def test_a_waiver_covers_by_pattern() -> None:
    waiver = SkipWaiver(stage="kernels", what=("flash-*",), profiles=("cu1*",), reason="x", expires=dt.date(2027, 1, 1))
    assert waiver.covers("kernels", "flash-attn", "cu130")
    assert not waiver.covers("kernels", "mamba-ssm", "cu130")
    assert not waiver.covers("audit", "flash-attn", "cu130")
    assert not waiver.covers("kernels", "flash-attn", "probe")
