"""Unified diffs, applied strictly: every hunk at exactly its line, with exactly its context, or not at all.

No fuzz, no offset, no search for a better place: sources are pinned by hash, so a patch that does not fit was made
for another source. A patch is applied as a whole; when something does not fit, no file has changed.

What is read: changes, new files and deletions, as ``diff -u`` and ``git diff`` write them, with names beginning with
``a/`` and ``b/`` and text before the first file. What is refused: binary patches, renames, changes of mode, quoted
names, two parts for one file, hunks whose counts are wrong, insertions without any context.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from orbit.errors import CheckFailed, InputError
from orbit.kernels.sources.tree import is_plain

HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
NO_NEWLINE = b"\\ No newline at end of file"
NEW_MODE = re.compile(rb"new file mode (100644|100755)")
REFUSED = (
    (b"GIT binary patch", "a binary patch"),
    (b"Binary files ", "a binary patch"),
    (b"rename ", "a rename: write it as a deletion and a new file"),
    (b"copy ", "a copy: write it as a new file"),
    (b"similarity ", "a rename or copy: write it as a deletion and a new file"),
    (b"old mode ", "a change of mode"),
    (b"new mode ", "a change of mode"),
)
HEADERS = (b"index ", b"new file mode 100", b"deleted file mode 100")
SIGNATURE = b"-- "
"""What ``git format-patch`` puts after the last hunk, with the version of git in the next line."""
NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One piece of a change. Lines hold their newline."""

    number: int
    """Within its file, from 1."""
    old_at: int
    """Index of its first line in the old file, from 0."""
    new_at: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """All hunks of one file."""

    path: str
    creates: bool
    deletes: bool
    executable: bool
    """Of a new file."""
    hunks: tuple[Hunk, ...]


def parse_patch(data: bytes, name: str) -> tuple[Change, ...]:
    """The changes in a patch called ``name``. Raises :class:`InputError` for what is not understood."""
    if data and not data.endswith(b"\n"):
        raise InputError(f"{name}: does not end with a newline", fix="the patch was cut short: write it again")
    return _Parser(name, data.split(b"\n")[:-1]).changes()


def apply_patch(data: bytes, name: str, folder: Path) -> tuple[str, ...]:
    """Apply a patch to the files in ``folder``; the paths it changed.

    Raises :class:`InputError` for a patch that is not understood or touches something outside of ``folder``, and
    :class:`CheckFailed` naming file and hunk when it does not fit.
    """
    results = []
    for change in parse_patch(data, name):
        path = _inside(folder, change.path, name)
        old = path.read_bytes() if path.is_file() else None
        results.append((path, change, changed(change, old, name)))
    for path, change, new in results:
        if new is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(new)
        if change.creates:
            path.chmod(0o755 if change.executable else 0o644)
    return tuple(change.path for _, change, _ in results)


def changed(change: Change, old: bytes | None, name: str) -> bytes | None:
    """The file after the change; None means "no such file", before and after. Raises :class:`CheckFailed`."""
    if change.creates and old is not None:
        already = old == b"".join(line for hunk in change.hunks for line in hunk.new)
        raise _misfit(change, name, "the file is there", already=already)
    if not change.creates and old is None:
        raise _misfit(change, name, "no such file", already=change.deletes)
    lines = lines_of(old or b"")
    result: list[bytes] = []
    done = 0
    for hunk in change.hunks:
        result += lines[done : hunk.old_at]
        found = tuple(lines[hunk.old_at : hunk.old_at + len(hunk.old)])
        problem = _problem(hunk, found, done, len(result), len(lines))
        if problem:
            there = tuple(lines[hunk.new_at : hunk.new_at + len(hunk.new)])
            raise _misfit(change, name, problem, hunk, already=there == hunk.new != ())
        result += hunk.new
        done = hunk.old_at + len(hunk.old)
    result += lines[done:]
    if any(not line.endswith(b"\n") for line in result[:-1]):
        raise _misfit(change, name, "a line without a newline would not be the last one")
    if change.deletes and result:
        raise _misfit(change, name, f"{len(result)} lines would be left of a file that is deleted")
    return None if change.deletes else b"".join(result)


def lines_of(data: bytes) -> list[bytes]:
    """Lines with their newline; only ``\\n`` ends a line."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _problem(hunk: Hunk, found: tuple[bytes, ...], done: int, new_at: int, count: int) -> str:
    """Why the hunk does not fit; empty when it does."""
    if hunk.old_at < done:
        return "it overlaps the one before"
    if hunk.new_at != new_at:
        return f"its header says line {hunk.new_at + 1} of the new file, the hunks before make it {new_at + 1}"
    if not hunk.old and count:
        return "it inserts lines without any context, so nothing says that the place is right"
    for offset, want in enumerate(hunk.old):
        have = found[offset] if offset < len(found) else b"(the end of the file)"
        if want != have:
            return f"line {hunk.old_at + offset + 1} is {_shown(have)}, the patch wants {_shown(want)}"
    return ""


def _shown(line: bytes) -> str:
    text = ascii(line.decode("utf-8", "replace"))
    return text if len(text) <= 90 else f"{text[:87]}..."


def _misfit(change: Change, name: str, why: str, hunk: Hunk | None = None, *, already: bool = False) -> CheckFailed:
    where = f", hunk {hunk.number} (line {hunk.old_at + 1})" if hunk else ""
    if already:
        fix = "this looks applied already: when upstream has taken the change, drop the patch from the recipe"
    else:
        fix = "the patch was made for another source: make it anew for the pinned one"
    return CheckFailed(f"{name} does not fit: {change.path}{where}: {why}", fix=fix)


def _inside(folder: Path, path: str, name: str) -> Path:
    """The file to change. Nothing on the way to it, nor itself, may be a symbolic link or anything but a file."""
    target = folder
    for part in path.split("/"):
        target = target / part
        if target.is_symlink():
            raise InputError(f"{name}: {path} goes through a symbolic link", fix="patch the file it leads to")
    if os.path.lexists(target) and not target.is_file():
        raise InputError(f"{name}: {path} is not a file", fix="correct the patch")
    return target


class _Parser:
    """Reads a patch line by line."""

    def __init__(self, name: str, lines: list[bytes]) -> None:
        self.name = name
        self.lines = lines
        self.at = 0

    def changes(self) -> tuple[Change, ...]:
        """Everything in the patch."""
        found: dict[str, Change] = {}
        while not self._over():
            headers = self._headers(first=not found)
            if headers is None:
                break
            change = self._change(headers)
            if change.path in found:
                raise self._bad(f"a second part for {change.path}", "join them")
            found[change.path] = change
        if not found:
            raise InputError(f"{self.name}: no change in it", fix="a unified diff is expected: diff -u, git diff")
        return tuple(found.values())

    def _headers(self, *, first: bool) -> list[bytes] | None:
        """Lines before the next ``---``/``+++`` pair; None when there is none any more."""
        headers: list[bytes] = []
        while not self._over() and not self._at_file():
            line = self._peek(0)
            if headers or not first:
                self._check_header(line, headers)
            if line == SIGNATURE and not headers and not first:
                self._signature()
                return None
            if headers or line.startswith(b"diff -"):
                headers.append(line)
            self.at += 1
        if not self._over():
            return headers
        if headers:
            raise self._bad(f"nothing follows {_shown(headers[0])}", "an empty file has no lines to apply")
        return None

    def _check_header(self, line: bytes, headers: list[bytes]) -> None:
        """Raise for a line between two files, or between a file's name and its hunks, that does not belong there."""
        for start, what in REFUSED:
            if line.startswith(start):
                raise self._bad(what, "only changes, new files and deletions of text are applied")
        if line.startswith(b"diff -") and headers:
            raise self._bad(f"nothing follows {_shown(headers[0])}", "an empty file has no lines to apply")
        if not headers and not line.startswith(b"diff -") and line not in (b"", SIGNATURE):
            raise self._bad(f"{_shown(line)} belongs to no hunk", "the counts in the hunk before are wrong")
        if headers and not line.startswith(HEADERS):
            raise self._bad(f"{_shown(line)} is not understood", "write the patch with git diff or diff -u")

    def _at_file(self) -> bool:
        return self._peek(0).startswith(b"--- ") and self._peek(1).startswith(b"+++ ")

    def _signature(self) -> None:
        """What ``git format-patch`` puts at the end: its version and nothing else."""
        if any(line for line in self.lines[self.at + 2 :]):
            self.at += 2
            raise self._bad("something follows the signature", "one patch per file")
        self.at = len(self.lines)

    def _change(self, headers: list[bytes]) -> Change:
        old, new = self._path(b"--- ", b"a/"), self._path(b"+++ ", b"b/")
        path = old if new == NOWHERE else new
        if path == NOWHERE or (old not in (path, NOWHERE)):
            raise self._bad(f"{old} becomes {new}", "write a rename as a deletion and a new file")
        hunks: list[Hunk] = []
        while self._peek(0).startswith(b"@@"):
            hunks.append(self._hunk(len(hunks) + 1))
        if not hunks:
            raise self._bad(f"no hunk for {path}", "write the patch again")
        modes = [match[1] for header in headers if (match := NEW_MODE.fullmatch(header))]
        return Change(path, old == NOWHERE, new == NOWHERE, modes == [b"100755"], tuple(hunks))

    def _path(self, start: bytes, prefix: bytes) -> str:
        text = self._peek(0).removeprefix(start).partition(b"\t")[0]
        if text != NOWHERE.encode():
            path = os.fsdecode(text.removeprefix(prefix))
            if not text.startswith(prefix) or not all(is_plain(part) for part in path.split("/")):
                fix = f"names begin with {prefix.decode()} and stay inside the source"
                raise self._bad(f"the name {_shown(text)}", fix)
        self.at += 1
        return NOWHERE if text == NOWHERE.encode() else path

    def _hunk(self, number: int) -> Hunk:
        match = HUNK.match(self._peek(0))
        if match is None:
            raise self._bad("a hunk's header is not understood", "write the patch again")
        self.at += 1
        old_line, new_line = int(match[1]), int(match[3])
        left = [1 if match[2] is None else int(match[2]), 1 if match[4] is None else int(match[4])]
        old_at, new_at = (line - (1 if count else 0) for line, count in zip((old_line, new_line), left, strict=True))
        sides: tuple[list[bytes], list[bytes]] = ([], [])
        changes = False
        while any(left):
            sign, text = self._peek(0)[:1], self._peek(0)[1:] + b"\n"
            used = {b" ": (0, 1), b"-": (0,), b"+": (1,)}.get(sign)
            if self._over() or used is None or any(not left[side] for side in used):
                raise self._bad(f"hunk {number} has other lines than its header says", "write the patch again")
            self.at += 1
            if self._peek(0) == NO_NEWLINE:
                text = text[:-1]
                self.at += 1
            for side in used:
                sides[side].append(text)
                left[side] -= 1
            changes = changes or sign != b" "
        if not changes or min(old_at, new_at) < 0:
            raise self._bad(f"hunk {number} changes nothing or is nowhere", "write the patch again")
        return Hunk(number, old_at, new_at, tuple(sides[0]), tuple(sides[1]))

    def _peek(self, ahead: int) -> bytes:
        return self.lines[self.at + ahead] if self.at + ahead < len(self.lines) else b""

    def _over(self) -> bool:
        return self.at >= len(self.lines)

    def _bad(self, what: str, fix: str) -> InputError:
        return InputError(f"{self.name}: line {self.at + 1}: {what}", fix=fix)
