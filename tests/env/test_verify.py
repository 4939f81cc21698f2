"""Which distributions are not what their wheels state."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.env.verify import drifted

from .wheels import install_by_hand

SITE = "lib/python3.12/site-packages"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    site = tmp_path / SITE
    site.mkdir(parents=True)
    install_by_hand(site, "certifi", "1", {"certifi/cacert.pem": b"one certificate\n", "certifi/__init__.py": b""})
    install_by_hand(site, "jaraco.text", "2", {"jaraco/text.py": b"x = 1\n"})
    return tmp_path


def test_untouched_files_are_fine(prefix: Path) -> None:
    assert drifted(prefix, "3.12", contested=()) == {}


def test_added_bytes_are_seen(prefix: Path) -> None:
    with (prefix / SITE / "certifi" / "cacert.pem").open("ab") as file:
        file.write(b"another\n")
    assert drifted(prefix, "3.12", contested=()) == {"certifi": (f"{SITE}/certifi/cacert.pem",)}


def test_equal_length_is_no_excuse_and_names_are_normal(prefix: Path) -> None:
    (prefix / SITE / "jaraco" / "text.py").write_bytes(b"x = 2\n")
    assert list(drifted(prefix, "3.12", contested=())) == ["jaraco-text"]


def test_a_missing_file_is_seen(prefix: Path) -> None:
    (prefix / SITE / "certifi" / "__init__.py").unlink()
    assert "certifi" in drifted(prefix, "3.12", contested=())


def test_contested_files_are_settled_elsewhere(prefix: Path) -> None:
    (prefix / SITE / "jaraco" / "text.py").write_bytes(b"x = 2\n")
    assert drifted(prefix, "3.12", contested={"jaraco/text.py"}) == {}
