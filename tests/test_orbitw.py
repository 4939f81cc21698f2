"""The front door, with stand-ins for uv and the installed command: what it calls, what it hides, how it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core.paths import checkout_root

ORBITW = checkout_root() / "orbitw"

UV = """#!/bin/sh
echo "uv $*" >> "$LOG"
env | sort > "$LOG.env"
case "$1 $2" in
"--version ") echo "uv 0.0.0" ;;
"python find") case "$*" in *--managed-python*) exit 1 ;; *) echo "$FOUND" ;; esac ;;
"python install") exit 1 ;;
"sync --frozen") exit "${SYNC:-0}" ;;
esac
"""
COMMAND = '#!/bin/sh\necho "ran $*"\nexit 7\n'


class Door:
    """A folder with ``orbitw`` and stand-ins beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        shutil.copy(ORBITW, folder / "orbitw")
        self.program(folder / "bin" / "uv", UV)
        self.program(folder / ".venv" / "bin" / "orbit", COMMAND)
        self.program(folder / ".venv" / "bin" / "python", COMMAND)

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def open(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        base = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "LOG": str(self.log),
            "FOUND": sys.executable,
            "ORBIT_NO_APT": "1",
        }
        return subprocess.run(
            [self.folder / "orbitw", *args], env=base | env, capture_output=True, text=True, check=False
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def seen(self) -> dict[str, str]:
        """The environment of the last call of uv."""
        lines = Path(f"{self.log}.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def test_a_command_runs_from_the_lock_and_keeps_its_status(door: Door) -> None:
    done = door.open("lock", "check", "--profile", "a b")
    assert (done.returncode, done.stdout) == (7, "ran lock check --profile a b\n")
    assert any(call.startswith("uv sync --frozen --quiet --inexact --python") for call in door.calls())


def test_test_goes_to_pytest_with_the_development_group(door: Door) -> None:
    done = door.open("test", "-k", "sweep")
    assert done.stdout == "ran -m pytest -k sweep\n"
    assert any("--group dev" in call for call in door.calls())


def test_settings_of_the_caller_do_not_reach_uv(door: Door) -> None:
    loud = {"UV_INDEX_URL": "https://elsewhere.test", "UV_PRERELEASE": "allow", "PYTHONPATH": "/x", "VIRTUAL_ENV": "/y"}
    assert door.open("lock", **loud).returncode == 7
    assert set(loud).isdisjoint(door.seen())


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"])
def test_one_bundle_is_trusted_by_all(door: Door, name: str) -> None:
    bundle = door.folder / "ca.pem"
    bundle.write_text("certificates")
    assert door.open("lock", **{name: str(bundle)}).returncode == 7
    assert door.seen()["SSL_CERT_FILE"] == door.seen()["PIP_CERT"] == str(bundle)


@pytest.mark.parametrize(
    ("env", "status", "says"),
    [
        ({"SSL_CERT_FILE": "/nowhere.pem"}, 2, "/nowhere.pem, which does not exist"),
        ({"ORBIT_PYTHON": "/bin/true-not-python"}, 2, "is not a CPython 3.12"),
        ({"FOUND": "", "SYNC": "1"}, 3, "could not be installed from uv.lock"),
    ],
)
def test_what_it_cannot_use_is_named(door: Door, env: dict[str, str], status: int, says: str) -> None:
    done = door.open("lock", **env)
    assert done.returncode == status
    assert says in done.stderr
    assert "fix:" in done.stderr


def test_without_uv_and_without_a_way_to_get_it(door: Door) -> None:
    (door.folder / "bin" / "uv").unlink()
    tools = door.folder / "tools"
    tools.mkdir()
    for name in ("sh", "uname", "dirname", "id", "rm", "env", "sort"):
        (tools / name).symlink_to(Path(shutil.which(name) or name).resolve())
    done = door.open("lock", PATH=str(tools))
    assert done.returncode == 3
    assert "uv is not here and could not be installed" in done.stderr


def test_the_shell_has_no_complaints() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    scripts = [ORBITW, checkout_root() / "containers" / "entrypoint.sh", checkout_root() / ".ci" / "run"]
    done = subprocess.run([shellcheck, *map(os.fspath, scripts)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
