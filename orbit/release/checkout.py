"""Which commit the files of a checkout are, and whether they are only that: what a release can be built again from."""

from __future__ import annotations

import re
from pathlib import Path

from orbit.core import proc
from orbit.core.records import Record
from orbit.errors import MissingError, OrbitError

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
SHOWN = 5
SETTINGS = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
"""Nobody's settings, no question, no lock, no object in place of another."""


class Checkout(Record, frozen=True, kw_only=True):
    """What git says of a checkout."""

    commit: str = ""
    """Full name of the commit; empty when there is none, and ``reason`` says why."""
    changed: tuple[str, ...] = ()
    """The first few files that are not as in that commit, or not in it and not ignored."""
    changes: int = 0
    """How many there are."""
    reason: str = ""

    @property
    def clean(self) -> bool:
        """Whether the files are those of a commit and nothing else."""
        return bool(self.commit) and not self.changes


def git(root: Path, *words: str, doing: str, check: bool = True, settings: Path | None = None) -> str:
    """What git prints for ``words`` in the repository at ``root``; with ``check`` off, empty when it fails.

    ``settings``: a file of git's configuration; none is read without.

    Raises :class:`MissingError` without git and :class:`orbit.errors.CommandFailed` when git fails.
    """
    # a checkout is often another user's than the one who builds: nothing of it is run, only read
    argv = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(root), *words]
    env = {**SETTINGS, "GIT_CONFIG_GLOBAL": str(settings)} if settings else SETTINGS
    done = proc.run(argv, doing=doing, env=env, check=check)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def read_checkout(root: Path) -> Checkout:
    """The state of the checkout at ``root``; never an error: where git cannot tell, ``reason`` says so."""
    doing = "reading the commit of the checkout"
    try:
        if not (root / ".git").exists():
            return Checkout(reason=f"{root.name}: no git repository")
        commit = git(root, "rev-parse", "--verify", "HEAD^{commit}", doing=doing, check=False).strip()
        if not COMMIT.fullmatch(commit):
            return Checkout(reason="git knows no commit here")
        lines = git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all", doing=doing).split("\0")
    except MissingError:
        return Checkout(reason="git is not installed")
    except OrbitError as error:
        return Checkout(reason=error.what)
    changed = [line[3:] for line in lines if len(line) > 3 and line[2] == " "]
    return Checkout(commit=commit, changed=tuple(changed[:SHOWN]), changes=len(changed))
