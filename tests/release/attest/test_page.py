"""What docs/attest.md says to do without Orbit is done here, to the letter."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core.paths import data_root
from orbit.release.attest.dsse import read_envelope, write_envelope
from orbit.release.attest.keys import write_new
from orbit.release.attest.signers import LocalSigner, sign_statement
from orbit.release.attest.statement import PREDICATES
from orbit.release.attest.trust import Cause
from tests.release.attest.world import statement

PAGE = data_root() / "docs" / "attest.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write_new(tmp_path / "lab")
    write_envelope(tmp_path / "smoke.intoto.json", sign_statement(statement(), LocalSigner.load(made.private)))
    return tmp_path


def block(start: str) -> str:
    """The fenced block that begins with ``start``."""
    return next(
        code
        for code in re.findall(r"^```\w*\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        if code.startswith(start)
    )


def edit(folder: Path) -> None:
    """Another payload under the same signature."""
    path = folder / "smoke.intoto.json"
    text = path.read_text()
    payload = re.search(r'"payload":"([^"]*)"', text)
    assert payload is not None
    path.write_text(text.replace(payload[1], payload[1].replace("e", "f", 1)))
    assert read_envelope(path).payload


def shell(folder: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", block("jq -r .payload")], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_openssl_and_jq_verify(folder: Path) -> None:
    if not all(shutil.which(name) for name in ("jq", "openssl", "base64", "stat")):
        pytest.skip("jq and openssl are needed")
    assert "Signature Verified Successfully" in shell(folder)
    edit(folder)
    assert "Signature Verified Successfully" not in shell(folder)


def test_python_verifies(folder: Path) -> None:
    words = [sys.executable, "-c", block("import base64, json")]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    assert "orbit/probe" in done.stdout
    edit(folder)
    assert subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode != 0


def test_the_id_is_what_openssl_says(folder: Path) -> None:
    if not shutil.which("openssl"):
        pytest.skip("openssl is needed")
    done = subprocess.run(
        ["sh", "-c", block("openssl pkey").splitlines()[0]], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == LocalSigner.load(folder / "lab").keyid


def test_every_cause_and_every_kind_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [cause.value for cause in Cause if f"`{cause.value}`" not in text] == []
    assert [name for name, uri in PREDICATES.items() if f"`{name}`" not in text or uri not in text] == []
