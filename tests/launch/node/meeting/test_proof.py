"""The owner token: where it comes from, who may read it, and what a proof holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError, RefusedError
from orbit.launch.node.meeting.proof import fresh_nonce, holds, load_token, prove, public_name, ray_token
from orbit.launch.plan import OWNER_VARIABLE

TOKEN = bytes(range(32))


def owner_file(folder: Path, text: str, mode: int = 0o600) -> dict[str, str]:
    path = folder / "owner"
    path.write_text(text)
    path.chmod(mode)
    return {OWNER_VARIABLE: str(path)}


def test_the_file_holds_the_token(tmp_path: Path) -> None:
    assert load_token(owner_file(tmp_path, TOKEN.hex() + "\n"), nodes=8) == TOKEN


def test_one_node_needs_no_file_and_several_do() -> None:
    assert load_token({}, nodes=1) != load_token({}, nodes=1)
    with pytest.raises(RefusedError, match=OWNER_VARIABLE):
        load_token({}, nodes=2)


@pytest.mark.parametrize("text", ["", "abc", "g" * 64, "a" * 63, "a" * 64 + " b"])
def test_what_is_no_token_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="owner"):
        load_token(owner_file(tmp_path, text), nodes=2)


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    for place in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError):
            load_token({OWNER_VARIABLE: str(place)}, nodes=2)


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o602])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(RefusedError, match="others"):
        load_token(owner_file(tmp_path, TOKEN.hex(), mode), nodes=2)


def test_a_proof_holds_for_its_words_and_its_token_alone() -> None:
    proof = prove(TOKEN, "node", "a", "b")
    assert holds(TOKEN, proof, "node", "a", "b")
    for words in (("first", "a", "b"), ("node", "ab", ""), ("node", "a"), ("node", "b", "a")):
        assert not holds(TOKEN, proof, *words)
    assert not holds(bytes(32), proof, "node", "a", "b")
    assert not holds(TOKEN, "\N{SNOWMAN}", "node", "a", "b")


def test_what_is_derived_differs_by_job_and_attempt() -> None:
    assert len({public_name(TOKEN), public_name(bytes(32)), ray_token(TOKEN, "a"), ray_token(TOKEN, "b")}) == 4
    assert TOKEN.hex() not in public_name(TOKEN) + ray_token(TOKEN, "a")
    assert fresh_nonce() != fresh_nonce()
