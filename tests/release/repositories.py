"""Small git repositories for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def git(root: Path, *words: str) -> str:
    """Run git with nobody's settings; what it printed."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *person, *words], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(root: Path, files: dict[str, str]) -> str:
    """A repository at ``root`` with one commit of these files; its name. Skips without git."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "--quiet")
    return commit(root, files)


def commit(root: Path, files: dict[str, str]) -> str:
    """One more commit; names ending in ``.sh`` and ``orbitw`` can be run."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if name.endswith(("orbitw", ".sh")):
            path.chmod(0o755)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "a commit")
    return git(root, "rev-parse", "HEAD")
