"""What an environment says of itself; outside one, nothing."""

from __future__ import annotations

from pathlib import Path

from orbit.qualify.environment import RECORD, own_environment


def test_it_is_read_from_the_prefix(tmp_path: Path) -> None:
    path = tmp_path / RECORD
    path.parent.mkdir(parents=True)
    path.write_text('{"identity": "abc", "profile": "cu130"}')
    assert own_environment(str(tmp_path)) == {"identity": "abc", "profile": "cu130"}


def test_what_is_none_is_empty(tmp_path: Path) -> None:
    assert own_environment(str(tmp_path)) == {}
    path = tmp_path / RECORD
    path.parent.mkdir(parents=True)
    for text in ("[]", "{", ""):
        path.write_text(text)
        assert own_environment(str(tmp_path)) == {}
