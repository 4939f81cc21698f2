"""Rendered files as they lie in ``golden/``: what a change moves is seen in the diff of a commit.

``ORBIT_GOLDEN=write pytest tests/launch/render`` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from orbit.launch.render import File

FOLDER = Path(__file__).parent / "golden"


def check_golden(case: str, files: tuple[File, ...]) -> None:
    """Each file equals ``golden/<case>/<its name>``, and there is no other."""
    folder = FOLDER / case
    if os.environ.get("ORBIT_GOLDEN") == "write":
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            (folder / file.name).write_text(file.text)
    assert sorted(path.name for path in folder.iterdir()) == sorted(file.name for file in files)
    for file in files:
        assert file.text == (folder / file.name).read_text(), f"{folder / file.name} (ORBIT_GOLDEN=write writes it)"
