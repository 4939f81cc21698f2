"""orbit.kernels.sources.patches: applied exactly or not at all."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orbit.errors import CheckFailed, InputError
from orbit.kernels.sources.patches import apply_patch, changed, lines_of, parse_patch

OLD = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
NEW = OLD.replace(b"four\n", b"4\nfour and a half\n")


def diff(old: bytes, new: bytes, path: str = "csrc/a.cu", context: int = 3) -> bytes:
    """A unified diff by difflib, with the mark it leaves out: that a line has no newline."""
    lines = difflib.diff_bytes(
        difflib.unified_diff, lines_of(old), lines_of(new), b"a/" + path.encode(), b"b/" + path.encode(), n=context
    )
    return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)


def applied(patch: bytes, old: bytes) -> bytes | None:
    (change,) = parse_patch(patch, "p.patch")
    return changed(change, old, "p.patch")


texts = st.lists(st.sampled_from([b"a", b"b", b"-- a", b"++ b", b"", b"\r", b"@@ -1 +1 @@", b"--- a/x", b"\xff"])).map(
    b"\n".join
)


@given(texts, texts, st.integers(1, 4))
def test_a_diff_turns_the_old_into_the_new(old: bytes, new: bytes, context: int) -> None:
    assume(old != new)
    assert applied(diff(old, new, context=context), old) == new


@given(texts, texts, texts, st.integers(1, 4))
def test_it_applies_to_nothing_whose_context_differs(old: bytes, new: bytes, other: bytes, context: int) -> None:
    """Whatever else it is tried on: it is refused, or every line the patch names was exactly where it says."""
    assume(old != new)
    (change,) = parse_patch(diff(old, new, context=context), "p")
    lines = lines_of(other)
    fits = all(tuple(lines[h.old_at : h.old_at + len(h.old)]) == h.old for h in change.hunks)
    try:
        changed(change, other, "p")
    except CheckFailed:
        return
    assert fits


@given(st.data())
def test_one_changed_line_of_context_is_refused(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 30))
    old = b"".join(b"line %d\n" % number for number in range(count))
    where = data.draw(st.integers(0, count - 1))
    new = old.replace(b"line %d\n" % where, b"other\n", 1)
    patch = diff(old, new)
    (change,) = parse_patch(patch, "p")
    spoiled = data.draw(st.integers(0, len(change.hunks[0].old) - 1)) + change.hunks[0].old_at
    lines = lines_of(old)
    lines[spoiled] = lines[spoiled][:-1] + b" \n"
    with pytest.raises(CheckFailed, match=rf"csrc/a.cu, hunk 1 .*line {spoiled + 1} is 'line {spoiled} "):
        changed(change, b"".join(lines), "p")


def test_a_moved_place_is_no_place() -> None:
    with pytest.raises(CheckFailed, match="hunk 1"):
        applied(diff(OLD, NEW), b"zero\n" + OLD)


def test_applied_twice_says_so() -> None:
    with pytest.raises(CheckFailed, match=r"p\.patch does not fit: csrc/a\.cu, hunk 1 \(line 1\)") as caught:
        applied(diff(OLD, NEW), NEW)
    assert "applied already" in caught.value.fix


def test_the_second_hunk_is_named() -> None:
    old = b"".join(b"%d\n" % number for number in range(40))
    new = old.replace(b"3\n", b"x\n", 1).replace(b"35\n", b"y\n")
    with pytest.raises(CheckFailed, match=r"hunk 2 \(line 33\): line 35 is 'other"):
        applied(diff(old, new), old.replace(b"34\n", b"other\n"))


def test_files_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_bytes(b"a\nb\n")
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "a.cu").write_bytes(OLD)
    patch = (
        b"From 1 Mon Sep 17 00:00:00 2001\nSubject: rename everything\n\n---\n a.cu | 3 +--\n\n"
        b"diff --git a/csrc/a.cu b/csrc/a.cu\nindex 1..2 100644\n"
        + diff(OLD, NEW)
        + b"diff --git a/gone.py b/gone.py\n"
        b"deleted file mode 100644\nindex 1..0\n--- a/gone.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
        b"diff --git a/d/new.sh b/d/new.sh\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/d/new.sh\n"
        b"@@ -0,0 +1 @@\n+#!/bin/sh\n\\ No newline at end of file\n-- \n2.39.5\n\n"
    )
    assert apply_patch(patch, "p", tmp_path) == ("csrc/a.cu", "gone.py", "d/new.sh")
    assert (tmp_path / "csrc" / "a.cu").read_bytes() == NEW
    assert not (tmp_path / "gone.py").exists()
    assert (tmp_path / "d" / "new.sh").read_bytes() == b"#!/bin/sh"
    assert (tmp_path / "d" / "new.sh").stat().st_mode & 0o111


def test_nothing_changes_when_the_last_part_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OLD)
    (tmp_path / "b").write_bytes(NEW)
    with pytest.raises(CheckFailed, match="fit: b, hunk 1"):
        apply_patch(diff(OLD, NEW, "a") + diff(OLD, NEW, "b"), "p", tmp_path)
    assert (tmp_path / "a").read_bytes() == OLD


HUNK = b"@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (b"", "no change"),
        (b"just words\n", "no change"),
        (b"--- a/x\n+++ b/x\n" + HUNK[:-1], "does not end with a newline"),
        (b"--- a/x\n+++ b/x\n", "no hunk"),
        (b"--- a/../x\n+++ b/../x\n" + HUNK, "the name"),
        (b"--- /etc/x\n+++ /etc/x\n" + HUNK, "the name"),
        (b"--- a//etc/x\n+++ b//etc/x\n" + HUNK, "the name"),
        (b"--- a/.git/config\n+++ b/.git/config\n" + HUNK, "the name"),
        (b'--- "a/x\\t"\n+++ "b/x\\t"\n' + HUNK, "the name"),
        (b"--- x\n+++ x\n" + HUNK, "the name"),
        (b"--- a/x\r\n+++ b/x\r\n" + HUNK, "the name"),
        (b"--- a/x\n+++ b/y\n" + HUNK, "a/x|x becomes y"),
        (b"--- /dev/null\n+++ /dev/null\n" + HUNK, "becomes"),
        (b"--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n+b\n", "other lines"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n", "belongs to no hunk"),
        (b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n\n", "other lines"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", "changes nothing"),
        (b"--- a/x\n+++ b/x\n@@ -0 +1 @@\n-a\n+b\n", "nowhere"),
        (b"--- a/x\n+++ b/x\n@@ one @@\n-a\n+b\n", "header"),
        (b"--- a/x\n+++ b/x\n" + HUNK + b"--- a/x\n+++ b/x\n" + HUNK, "second part"),
        (b"diff --git a/x b/x\nGIT binary patch\nliteral 3\n", "binary"),
        (b"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", "rename"),
        (b"diff --git a/x b/y\nold mode 100644\nnew mode 100755\n", "change of mode"),
        (b"diff --git a/x b/x\nnew file mode 100644\nindex 0..e69de29\n", "nothing follows"),
        (b"diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n", "not understood"),
        (b"--- a/x\n+++ b/x\n" + HUNK + b"Binary files a/y and b/y differ\n", "binary"),
        (b"--- a/x\n+++ b/x\n" + HUNK + b"-- \n2.39.5\n\nFrom 2\n", "follows the signature"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(patch: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\n")
    with pytest.raises(InputError, match=says):
        apply_patch(patch, "p", tmp_path)
    assert (tmp_path / "x").read_bytes() == b"a\n"


@pytest.mark.parametrize(
    ("patch", "old", "says"),
    [
        (b"--- a/x\n+++ b/x\n@@ -2,0 +3 @@\n+new\n", b"a\nb\nc\n", "without any context"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n", b"a\nb\n", "overlaps"),
        (b"--- a/x\n+++ b/x\n@@ -1 +2 @@\n-a\n+b\n", b"a\nb\n", "header says line 2"),
        (b"--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", b"a\nb\n", "1 lines would be left"),
        (b"--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", b"b\n", "the file is there"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", None, "no such file"),
        (b"--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n a\n+b\n\\ No newline at end of file\n c\n", b"a\nc\n", "without a new"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", b"a\r\n", r"'a\\r\\n'"),
        (b"--- a/x\n+++ b/x\n@@ -3 +3 @@\n-a\n+b\n", b"a\n", "end of the file|header says"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(patch: bytes, old: bytes | None, says: str) -> None:
    (change,) = parse_patch(patch, "p")
    with pytest.raises(CheckFailed, match=says):
        changed(change, old, "p")


def test_links_and_folders_are_not_patched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"a\n")
    folder = tmp_path / "src"
    (folder / "x").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "x")
    for path, says in (("link/x", "link"), ("file", "link"), ("x", "not a file")):
        name = path.encode()
        with pytest.raises(InputError, match=says):
            apply_patch(b"--- a/" + name + b"\n+++ b/" + name + b"\n" + HUNK, "p", folder)
    with pytest.raises(InputError, match="link"):
        apply_patch(b"--- /dev/null\n+++ b/link/new\n@@ -0,0 +1 @@\n+y\n", "p", folder)
    assert sorted(path.name for path in outside.iterdir()) == ["x"]
    assert (outside / "x").read_bytes() == b"a\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("context", [1, 3])
def test_git_makes_the_same_of_it(tmp_path: Path, context: int) -> None:
    (tmp_path / "csrc").mkdir()
    file = tmp_path / "csrc" / "a.cu"
    file.write_bytes(OLD)
    patch = diff(OLD, NEW, context=context)
    subprocess.run(["git", "apply"], cwd=tmp_path, input=patch, check=True, env={"PATH": "/usr/bin:/bin"})
    assert file.read_bytes() == NEW == applied(patch, OLD)
