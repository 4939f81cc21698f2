"""Which runs can be built again."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError, RefusedError
from orbit.profile.model import load_profile
from orbit.release.checkout import Checkout
from orbit.release.gate.candidate import read_candidate
from orbit.release.seal import SEAL
from tests.release.gate.made_run import COMMIT, MadeRun

PROBE = load_profile("probe")


def test_a_run_of_a_commit(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    found = read_candidate(made.folder, PROBE)
    assert (found.digest, found.commit, found.tier) == (made.digest, COMMIT, "core")


def test_the_tier_is_that_of_the_run(tmp_path: Path) -> None:
    made = MadeRun(tmp_path, changes={"kernels": {"inputs": {"tier": "all"}}}).write()
    assert read_candidate(made.folder, PROBE).tier == "all"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (Checkout(reason="no git repository"), "from no commit: no git repository"),
        (Checkout(commit=COMMIT, changed=("a", "b"), changes=2), r"2 changed file\(s\): a, b"),
    ],
)
def test_what_no_clone_can_give(tmp_path: Path, state: Checkout, says: str) -> None:
    made = MadeRun(tmp_path, checkout=state, room=None).write()
    with pytest.raises(RefusedError, match=says):
        read_candidate(made.folder, PROBE)


def test_a_run_of_another_profile(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    with pytest.raises(InputError, match="is of profile probe"):
        read_candidate(made.folder, load_profile("cu130"))


def test_no_run_and_no_seal(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_candidate(tmp_path / "absent", PROBE)
    made = MadeRun(tmp_path).write()
    (made.folder / SEAL).unlink()
    with pytest.raises(InputError, match="was not finished"):
        read_candidate(made.folder, PROBE)
