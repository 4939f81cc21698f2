"""Imports that write into the tree they come from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.smoke.kinds.imports import watch_writes

WRITERS = {
    "open": "open(here + '/new', 'w')",
    "append": "open(here + '/new', 'ab')",
    "os-open": "os.open(here + '/new', os.O_CREAT | os.O_WRONLY)",
    "mkdir": "os.mkdir(here + '/new')",
    "symlink": "os.symlink('x', here + '/new')",
    "remove": "os.remove(here + '/old')",
    "touch": "os.utime(here + '/__init__.py')",
}


@pytest.mark.parametrize("how", WRITERS)
def test_a_module_that_writes_into_its_tree_is_seen_even_when_it_fails(tmp_path: Path, how: str) -> None:
    package = tmp_path / "prefix" / "writer"
    package.mkdir(parents=True)
    text = f"import os\nhere = os.path.dirname(__file__)\ntry:\n    {WRITERS[how]}\nexcept OSError:\n    pass\n"
    (package / "__init__.py").write_text(text)
    (package / "old").write_text("")
    prefix = str(tmp_path / "prefix")
    program = (
        "from orbit.smoke.kinds.imports import check_imports\nfrom orbit.smoke.model import Context\n"
        f"print(check_imports({{'modules': ['writer'], 'writes': WRITES}}, Context(prefix={prefix!r})))"
    )
    env = {
        **os.environ,
        "PYTHONPATH": f"{package.parent}:{Path(__file__).resolve().parents[3]}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def child(writes: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", program.replace("WRITES", writes)]
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False)

    done = child("[]")
    assert "import writer: writes into the image's own tree: " in done.stderr
    assert child("['writer/*']").returncode == 0


def test_reading_is_no_writing(tmp_path: Path) -> None:
    attempts = watch_writes(str(tmp_path), ())
    (tmp_path / "f").write_text("x")
    assert attempts == [str(tmp_path / "f")]
    attempts.clear()
    (tmp_path / "f").read_text()
    os.close(os.open(tmp_path / "f", os.O_RDONLY))
    (tmp_path.parent / "beside").write_text("")
    assert attempts == []
