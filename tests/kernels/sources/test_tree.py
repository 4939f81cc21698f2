"""orbit.kernels.sources.tree: a git tree becomes files, byte for byte, and a hostile one becomes none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.kernels.sources import tree as trees
from orbit.kernels.sources.git import CONFIG, CONFIG_NAME, init_bare
from orbit.kernels.sources.tree import commit_tree, is_plain, parse_rows, read_tree, write_tree
from tests.kernels.sources.repos import blob, clone, git, needs_git, raw_commit, tree_of

OID = "ab" * 20


def ours(folder: Path) -> Path:
    """A test's repository as one that :func:`orbit.kernels.sources.git.git` can run in."""
    (folder / ".git" / CONFIG_NAME).write_text(CONFIG)
    return folder / ".git"


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)


@given(st.dictionaries(NAMES, st.sampled_from(["100644", "40000"])))
def test_rows_are_read_or_refused(names: dict[str, str]) -> None:
    data = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(OID) for name, mode in names.items())
    if all(is_plain(name) for name in names):
        rows = parse_rows(data, "t")
        assert [(row.name, row.mode.lstrip("0"), row.oid) for row in rows] == [(n, m, OID) for n, m in names.items()]
    else:
        with pytest.raises(InputError):
            parse_rows(data, "t")


@given(st.binary(max_size=80))
def test_noise_is_no_tree(data: bytes) -> None:
    try:
        rows = parse_rows(data, "t")
    except InputError:
        return
    assert sum(len(os.fsencode(row.name)) + 22 for row in rows) < len(data) + 1


@needs_git
def test_files_are_the_bytes_of_their_blobs(tmp_path: Path) -> None:
    files = {
        ".gitattributes": b"* text=auto eol=crlf\nversion.py export-subst\nsecret export-ignore\n*.big filter=evil\n",
        "version.py": b"$Format:%H$\n",
        "secret": b"kept\n",
        "a.big": b"version https://git-lfs.github.com/spec/v1\n",
        "dos.txt": b"a\r\nb\r\n",
        "unix.txt": b"a\nb\n",
        "d/e/run.sh": b"#!/bin/sh\n",
        "d/link": b"->e/run.sh",
        "odd name \xe9": b"\0\xff",
        "empty": b"",
        "again": b"a\nb\n",
    }
    repo = tmp_path / "repo"
    commit = clone(repo, {k: v for k, v in files.items() if k != ".gitattributes"})
    # added last: git itself would else have changed what it stores
    row = f"100644 blob {blob(repo, files['.gitattributes'])}\t.gitattributes\n"
    tree = git(repo, "mktree", stdin=(git(repo, "ls-tree", commit) + "\n" + row).encode())
    git(repo, "config", "filter.evil.smudge", f"touch {tmp_path}/evil")
    out = tmp_path / "out"
    write_tree(ours(repo), read_tree(ours(repo), tree), out)
    found = {
        str(path.relative_to(out)): b"->" + os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        for path in out.rglob("*")
        if path.is_symlink() or path.is_file()
    }
    assert found == files
    assert not (tmp_path / "evil").exists()
    assert os.access(out / "d" / "e" / "run.sh", os.X_OK)
    assert not os.access(out / "empty", os.X_OK)


@needs_git
@pytest.mark.parametrize(
    "name", [b"..", b".", b".git", b".GIT", b"a/b", b"../x", b"/etc", b"a\nb", b"a\x1b[2J", b"x" * 256]
)
def test_names_that_lead_elsewhere_are_refused(name: bytes, tmp_path: Path) -> None:
    clone(tmp_path / "repo", {"a": b"1"})
    commit = raw_commit(tmp_path / "repo", [("100644", name, blob(tmp_path / "repo", b"evil"))])
    with pytest.raises(InputError, match="a file named"):
        read_tree(ours(tmp_path / "repo"), tree_of(tmp_path / "repo", commit))


@needs_git
def test_two_files_of_one_name_and_modes_that_are_none(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    clone(repo, {"d/a": b"1"})
    link, folder = blob(repo, b"/etc"), git(repo, "rev-parse", "HEAD:d")
    twice = raw_commit(repo, [("120000", b"d", link), ("40000", b"d", folder)])
    with pytest.raises(InputError, match="two files named 'd'"):
        read_tree(ours(repo), tree_of(repo, twice))
    device = raw_commit(repo, [("020666", b"null", link)])
    with pytest.raises(InputError, match="mode 020666"):
        read_tree(ours(repo), tree_of(repo, device))
    wrong = raw_commit(repo, [("40000", b"d", link)])
    with pytest.raises(InputError, match="blob of 4 bytes where a tree is expected"):
        read_tree(ours(repo), tree_of(repo, wrong))
    absent = raw_commit(repo, [("100644", b"d", OID)])
    with pytest.raises(InputError, match="missing"):
        write_tree(ours(repo), read_tree(ours(repo), tree_of(repo, absent)), tmp_path / "out")


@needs_git
def test_a_tree_without_end_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten folders that are one and the same, in each other: ten to the ninth files in ten objects."""
    repo = tmp_path / "repo"
    clone(repo, {})
    rows = [("100644", b"%d" % n, blob(repo, b"x")) for n in range(10)]
    for _ in range(9):
        inner = tree_of(repo, raw_commit(repo, rows))
        rows = [("40000", b"%d" % n, inner) for n in range(10)]
    with pytest.raises(InputError, match="more than 300000 files"):
        read_tree(ours(repo), tree_of(repo, raw_commit(repo, rows)))
    deep = [("100644", b"f", blob(repo, b"x"))]
    for _ in range(101):
        deep = [("40000", b"d", tree_of(repo, raw_commit(repo, deep)))]
    with pytest.raises(InputError, match="100 folders deep"):
        read_tree(ours(repo), tree_of(repo, raw_commit(repo, deep)))
    commit = clone(tmp_path / "big", {"a": b"x" * 100, "b": b"y"})
    monkeypatch.setattr(trees, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="101 bytes"):
        write_tree(
            ours(tmp_path / "big"), read_tree(ours(tmp_path / "big"), tree_of(tmp_path / "big", commit)), tmp_path / "o"
        )


@needs_git
def test_what_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    """An object under another's name: git reads it from a pack without a word, we do not."""
    repo = tmp_path / "repo"
    commit = clone(repo, {"a.cu": b"good code 1\n"})
    tree = tree_of(repo, commit)
    name = git(repo, "rev-parse", "HEAD:a.cu")
    git(repo, "repack", "-a", "-d", "--quiet")
    (index,) = (repo / ".git" / "objects" / "pack").glob("*.idx")
    evil = tmp_path / "evil"
    clone(evil, {"a.cu": b"evil code 1\n"})
    (pack,) = (repo / ".git" / "objects" / "pack").glob("*.pack")
    other = git(evil, "rev-parse", "HEAD:a.cu")
    made = subprocess.run(
        ["git", "pack-objects", "--stdout", "--quiet"],
        cwd=evil, input=f"{other}\n".encode(), capture_output=True, check=True, env={"PATH": os.environ["PATH"]},
    ).stdout  # fmt: skip
    # the index of a pack with one object, that object's name changed
    folder = tmp_path / "mixed"
    init_bare(folder)
    target = folder / "objects" / "pack" / "pack-1.pack"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(made)
    git(folder, "index-pack", str(target))
    lying = target.with_suffix(".idx")
    lying.chmod(0o644)
    table = bytearray(lying.read_bytes())
    old, new = bytes.fromhex(other), bytes.fromhex(name)
    table[:] = table.replace(old, new)
    for first in range(256):
        at = 8 + 4 * first
        table[at : at + 4] = (1 if first >= new[0] else 0).to_bytes(4, "big")
    lying.write_bytes(bytes(table))
    row = trees.File("a.cu", name)
    with pytest.raises(InputError, match="not what its name says"):
        write_tree(folder, trees.Tree(files=(row,), submodules={}), tmp_path / "out")
    assert not (tmp_path / "out" / "a.cu").exists()
    write_tree(ours(repo), read_tree(ours(repo), tree), tmp_path / "fine")
    assert (tmp_path / "fine" / "a.cu").read_bytes() == b"good code 1\n"
    assert index.exists()
    assert pack.exists()


@needs_git
def test_submodules_are_listed_and_commits_say_their_tree(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    clone(repo, {"a": b"1"})
    commit = raw_commit(repo, [("100644", b"a", blob(repo, b"1")), ("160000", b"sub", OID)])
    tree = read_tree(ours(repo), tree_of(repo, commit))
    assert tree.submodules == {"sub": OID}
    assert commit_tree(ours(repo), commit) == tree_of(repo, commit)
    write_tree(ours(repo), tree, tmp_path / "out")
    assert list((tmp_path / "out" / "sub").iterdir()) == []
    with pytest.raises(InputError, match="where a commit is expected"):
        commit_tree(ours(repo), blob(repo, b"1"))
