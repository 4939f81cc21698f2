"""orbit.kernels.sources.git: nobody's settings, no program of the repository's, nothing believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.errors import CommandFailed, InputError, MissingError
from orbit.kernels.sources.git import (
    bundle_offset,
    fetch_commit,
    has_commit,
    init_bare,
    object_name,
    object_sizes,
    read_objects,
    unbundle,
)
from orbit.kernels.sources.git import git as run_git
from orbit.kernels.sources.places import Place
from tests.kernels.sources.repos import clone, commit_all, git, needs_git, write

pytestmark = needs_git


@pytest.fixture
def own(tmp_path: Path) -> Path:
    init_bare(tmp_path / "own")
    return tmp_path / "own"


def test_names_are_those_git_gives() -> None:
    assert object_name("blob", b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def test_settings_of_the_user_do_not_enter(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = Mallory\n[broken\n")
    for name, value in (
        ("HOME", str(tmp_path / "home")),
        ("GIT_CONFIG_GLOBAL", str(tmp_path / "home" / ".gitconfig")),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "user.name"),
        ("GIT_CONFIG_VALUE_0", "Mallory"),
        ("GIT_DIR", "/nowhere"),
        ("GIT_SSH_COMMAND", "false"),
    ):
        monkeypatch.setenv(name, value)
    said = run_git(own, "config", "--list", "--show-origin", doing="list").decode()
    assert "Mallory" not in said
    assert {line.split("\t")[0] for line in said.splitlines()} == {
        f"file:{own}/orbit.gitconfig",
        f"file:{own}/config",
    }


def test_a_commit_comes_alone_and_programs_of_the_mirror_do_not_run(own: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    first = clone(mirror, {"a": b"1", ".gitattributes": b"* filter=evil diff=evil\n"})
    write(mirror, {"b": b"2"})
    second = commit_all(mirror)
    write(mirror, {"c": b"3"})
    commit_all(mirror)
    evil = f"touch {tmp_path}/evil"
    for key in (
        "filter.evil.smudge", "filter.evil.clean", "uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand",
        "core.pager", "core.alternateRefsCommand", "credential.helper",
    ):  # fmt: skip
        git(mirror, "config", key, evil)
    for hook in ("pre-receive", "post-checkout", "reference-transaction", "post-upload-pack", "pre-auto-gc"):
        path = mirror / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{evil}\n")
        path.chmod(0o755)
    write(mirror, {"dirty": b"not committed"})
    assert has_commit(own, mirror, second)
    assert not has_commit(own, mirror, "1" * 40)
    fetch_commit(own, str(mirror), second, protocol="file")
    assert not (tmp_path / "evil").exists()
    assert run_git(own, "rev-list", "--all", doing="x").decode().split() == [second]
    assert not has_commit(own, None, first)
    assert [path.name for path in own.iterdir() if path.name == "hooks"] == []


def test_only_the_named_protocol_is_spoken(own: Path, tmp_path: Path) -> None:
    commit = clone(tmp_path / "mirror", {"a": b"1"})
    shell = f"ext::sh -c touch% {tmp_path}/evil"
    for origin, protocol in (
        (f"{tmp_path}/mirror", "https"),
        (shell, "https"),
        (shell, "file"),
        ("ssh://h.invalid/x", "https"),
    ):
        with pytest.raises(CommandFailed) as caught:
            fetch_commit(own, origin, commit, protocol=protocol)
        assert "not allowed" in caught.value.tail
    assert not (tmp_path / "evil").exists()


def test_replaced_objects_do_not_stand_in(tmp_path: Path, own: Path) -> None:
    mirror = tmp_path / "mirror"
    good = clone(mirror, {"a": b"good"})
    write(mirror, {"a": b"evil"})
    evil = commit_all(mirror)
    git(mirror, "replace", good, evil)
    fetch_commit(own, str(mirror), good, protocol="file")
    data = dict(read_objects(own, object_sizes(own, [good]), "commit"))
    assert git(mirror, "--no-replace-objects", "rev-parse", f"{good}^{{tree}}").encode() in data[good]
    inside = mirror / ".git"
    (inside / "orbit.gitconfig").write_text("")
    assert dict(read_objects(inside, object_sizes(inside, [good]), "commit")) == data


def test_objects_are_read_a_few_at_a_time(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = clone(tmp_path / "m", {f"{n}": b"%d" % n * 1000 for n in range(20)} | {"huge": b"h" * 50_000})
    fetch_commit(own, str(tmp_path / "m"), commit, protocol="file")
    names = git(tmp_path / "m", "ls-tree", "-r", "--format=%(objectname)", commit).split()
    monkeypatch.setattr("orbit.kernels.sources.git.BATCH_BYTES", 10_000)
    found = dict(read_objects(own, object_sizes(own, names), "blob"))
    assert list(found) == names
    assert all(object_name("blob", data) == name for name, data in found.items())
    monkeypatch.setattr("orbit.kernels.sources.git.OBJECT_BYTES", 40_000)
    with pytest.raises(InputError, match="blob of 50000 bytes"):
        list(read_objects(own, object_sizes(own, names), "blob"))


def test_bundles_that_are_none(tmp_path: Path, own: Path) -> None:
    mirror = tmp_path / "mirror"
    clone(mirror, {"a": os.urandom(9000)})
    write(mirror, {"b": b"2"})
    commit = commit_all(mirror)
    bundle = tmp_path / "k.bundle"
    git(mirror, "bundle", "create", str(bundle), "main")
    whole = bundle.read_bytes()
    assert whole[bundle_offset(bundle) :].startswith(b"PACK")

    def refused(data: bytes, says: str) -> None:
        bundle.write_bytes(data)
        folder = tmp_path / f"try{len(list(tmp_path.iterdir()))}"
        init_bare(folder)
        with pytest.raises(InputError, match=says):
            unbundle(folder, Place(bundle, bundle=True), commit)

    refused(b"", "not a git bundle")
    refused(b"<html>\n", "not a git bundle")
    refused(whole[:40], "inside its header")
    refused(whole[:-5000], "damaged or incomplete")
    at = len(whole) - 4000
    refused(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], "damaged or")
    git(mirror, "bundle", "create", str(bundle), "main", "^main~1")
    refused(bundle.read_bytes(), "counts on objects")
    bundle.write_bytes(whole)
    assert unbundle(own, Place(bundle, bundle=True), commit)
    init_bare(tmp_path / "second")
    assert not unbundle(tmp_path / "second", Place(bundle, bundle=True), "1" * 40)


def test_without_git_it_says_how_to_get_it(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingError, match="git: program not found") as caught:
        run_git(own, "version", doing="x")
    assert "apt-get install git" in caught.value.fix
