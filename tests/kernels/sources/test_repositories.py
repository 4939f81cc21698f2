"""orbit.kernels.sources.repositories: mirrors, bundles and a forge; whole and verified, or an error that helps."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError, MissingError
from orbit.kernels.sources.model import Pin
from orbit.kernels.sources.places import Place, bundle_name
from orbit.kernels.sources.repositories import REPOSITORY, commit_fix, obtain_commit, place_has, read_pinned
from tests.kernels.sources.forge import running
from tests.kernels.sources.repos import clone, commit_all, git, needs_git, pin_of, write

pytestmark = needs_git


def names(store: Store, pin: Pin, folder: Path) -> list[str]:
    """Files of the commit as taken from ``folder`` alone."""
    entry = obtain_commit(pin, store, Silent(), (folder,))
    return sorted(file.path for file in read_pinned(entry.path / REPOSITORY, pin).files)


@pytest.fixture
def upstream(tmp_path: Path) -> tuple[Path, Pin]:
    """A clone with history before and after the pinned commit."""
    repo = tmp_path / "upstream"
    clone(repo, {"old": b"1"})
    write(repo, {"setup.py": b"2", "csrc/a.cu": b"3"})
    commit_all(repo)
    pin = pin_of(repo)
    write(repo, {"later": b"4"})
    commit_all(repo)
    return repo, pin


FILES = ["csrc/a.cu", "old", "setup.py"]


@pytest.mark.parametrize("name", ["forge.invalid/owner/kernel.git", "owner/kernel.git", "kernel.git", "kernel"])
@pytest.mark.parametrize("how", ["bare", "shallow", "clone", "dirty", "worktree"])
def test_any_kind_of_mirror_will_do(
    name: str, how: str, upstream: tuple[Path, Pin], tmp_path: Path, store: Store
) -> None:
    repo, pin = upstream
    place = tmp_path / "sources" / name
    place.parent.mkdir(parents=True)
    if how == "shallow":
        git(tmp_path, "init", "--quiet", "--bare", str(place))
        git(place, "fetch", "--quiet", "--depth", "1", str(repo), f"{pin.commit}:refs/heads/pinned")
    elif how == "worktree":
        git(repo, "worktree", "add", "--quiet", "--detach", str(place), "HEAD")
    else:
        git(tmp_path, "clone", "--quiet", *(["--bare"] if how == "bare" else []), str(repo), str(place))
    if how == "dirty":
        write(place, {"setup.py": b"changed", "more": b"x"})
        git(place, "add", "more")
    assert names(store, pin, tmp_path / "sources") == FILES


@pytest.mark.parametrize("pinned_name", [True, False])
@pytest.mark.parametrize("how", ["all", "head", "shallow"])
def test_any_kind_of_bundle_will_do(
    how: str, pinned_name: bool, upstream: tuple[Path, Pin], tmp_path: Path, store: Store
) -> None:
    repo, pin = upstream
    folder = tmp_path / "sources"
    folder.mkdir()
    bundle = folder / (bundle_name(pin) if pinned_name else "kernel.bundle")
    if how == "shallow":
        clone_of = tmp_path / "clone"
        git(tmp_path, "init", "--quiet", "--bare", str(clone_of))
        git(clone_of, "fetch", "--quiet", "--depth", "1", str(repo), f"{pin.commit}:refs/heads/x")
        git(clone_of, "bundle", "create", str(bundle), "refs/heads/x")
    else:
        git(repo, "bundle", "create", str(bundle), "--all" if how == "all" else "main")
    assert place_has(Place(bundle, bundle=True), pin, store)
    assert names(store, pin, folder) == FILES
    assert list((store.root / "tmp").iterdir()) == []


def test_the_commands_that_an_error_shows_work(upstream: tuple[Path, Pin], tmp_path: Path, store: Store) -> None:
    """Exactly as printed, on a "machine with network" where the address means the upstream repository."""
    repo, pin = upstream
    (tmp_path / "sources").mkdir()
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(MissingError) as caught:
        obtain_commit(pin, store, Silent(), (tmp_path / "sources",))
    assert f"commit {pin.commit} of {pin.url} cannot be fetched" in caught.value.what
    assert caught.value.fix == commit_fix(pin)
    commands = [line.strip() for line in caught.value.fix.splitlines() if line.startswith("    git ")]
    assert len(commands) == 3
    for command in commands:
        git(tmp_path / "elsewhere", "-c", f"url.file://{repo}.insteadOf={pin.url}", *command.split()[1:])
    shutil.copy(tmp_path / "elsewhere" / bundle_name(pin), tmp_path / "sources")
    assert names(store, pin, tmp_path / "sources") == FILES


def test_the_store_is_enough(upstream: tuple[Path, Pin], tmp_path: Path, store: Store) -> None:
    repo, pin = upstream
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "kernel").symlink_to(repo)
    assert names(store, pin, tmp_path / "s") == FILES
    entry = obtain_commit(Pin(path="x", url="https://other.invalid/x", commit=pin.commit, tree=pin.tree), store,
                          Silent(), ())  # fmt: skip
    assert entry.reused


def test_places_without_the_commit_are_passed_and_named(
    upstream: tuple[Path, Pin], tmp_path: Path, store: Store
) -> None:
    repo, pin = upstream
    for name in ("a/kernel.git", "b/kernel"):
        clone(tmp_path / name, {"a fork": b"1"})
    git(tmp_path / "b" / "kernel", "bundle", "create", str(tmp_path / "b" / "kernel.bundle"), "main")
    folders = (tmp_path / "a", tmp_path / "b")
    with pytest.raises(MissingError) as caught:
        obtain_commit(pin, store, Silent(), folders)
    for name in ("a/kernel.git", "b/kernel", "b/kernel.bundle"):
        assert f"{tmp_path}/{name} does not have it" in caught.value.what
    (tmp_path / "c").mkdir()
    git(tmp_path, "clone", "--quiet", "--bare", str(repo), str(tmp_path / "c" / "kernel.git"))
    assert names(store, pin, tmp_path / "c") == FILES


def test_another_tree_than_the_recipe_says(upstream: tuple[Path, Pin], tmp_path: Path, store: Store) -> None:
    repo, pin = upstream
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "kernel").symlink_to(repo)
    wrong = Pin(path="", url=pin.url, commit=pin.commit, tree="1" * 40)
    with pytest.raises(InputError, match=rf"has the tree {pin.tree}, the recipe says {'1' * 40}"):
        obtain_commit(wrong, store, Silent(), (tmp_path / "s",))
    as_tree = Pin(path="", url=pin.url, commit=pin.tree, tree=pin.tree)
    with pytest.raises(MissingError, match="does not have it"):
        obtain_commit(as_tree, store, Silent(), (tmp_path / "s",))
    assert not (store.root / "entries").exists()


def test_a_damaged_mirror_is_an_error_of_its_own(upstream: tuple[Path, Pin], tmp_path: Path, store: Store) -> None:
    repo, pin = upstream
    mirror = tmp_path / "s" / "kernel.git"
    mirror.parent.mkdir()
    git(tmp_path, "clone", "--quiet", "--bare", "--no-local", str(repo), str(mirror))
    (pack,) = (mirror / "objects" / "pack").glob("*.pack")
    pack.rename(tmp_path / "pack")
    git(mirror, "unpack-objects", "-q", stdin=(tmp_path / "pack").read_bytes())
    name = git(repo, "rev-parse", f"{pin.commit}:csrc/a.cu")
    loose = mirror / "objects" / name[:2] / name[2:]
    loose.unlink()
    with pytest.raises(InputError, match=r"kernel\.git: the repository is damaged or incomplete"):
        obtain_commit(pin, store, Silent(), (tmp_path / "s",))
    (mirror / "HEAD").write_text("what?")
    with pytest.raises(InputError, match=r"kernel\.git: the repository is damaged[^\n]*\n.*not a git repository"):
        obtain_commit(pin, store, Silent(), (tmp_path / "s",))
    bundle = tmp_path / "s" / bundle_name(pin)
    git(repo, "bundle", "create", str(bundle), "main")
    bundle.write_bytes(bundle.read_bytes()[:-30])
    with pytest.raises(InputError, match="the bundle is damaged or incomplete"):
        obtain_commit(pin, store, Silent(), (tmp_path / "s",))
    assert not (store.root / "entries").exists()
    assert list((store.root / "tmp").iterdir()) == []


def test_a_forge_gives_the_commit_and_nothing_else(
    upstream: tuple[Path, Pin], tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, pin = upstream
    with running(tmp_path / "forge") as forge:
        git(tmp_path, "clone", "--quiet", "--bare", str(repo), str(forge.root / "owner" / "kernel.git"))
        there = Pin(path="", url=f"{forge.url}/owner/kernel.git", commit=pin.commit, tree=pin.tree)
        for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "https_proxy", "HTTPS_PROXY"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(MissingError, match="certificate") as caught:
            obtain_commit(there, store, Silent(), ())
        assert "SSL_CERT_FILE" in caught.value.fix
        monkeypatch.setenv("SSL_CERT_FILE", str(forge.certificate))
        entry = obtain_commit(there, store, Silent(), ())
        assert sorted(file.path for file in read_pinned(entry.path / REPOSITORY, there).files) == FILES
        count = subprocess.run(
            ["git", "rev-list", "--all", "--count"], cwd=entry.path / REPOSITORY, capture_output=True, check=True
        ).stdout  # fmt: skip
        assert count == b"1\n"
        asked = len(forge.asked)
        assert obtain_commit(there, store, Silent(), ()).reused
        assert len(forge.asked) == asked
        absent = Pin(path="", url=there.url, commit="1" * 40, tree=pin.tree)
        with pytest.raises(MissingError, match="not our ref"):
            obtain_commit(absent, store, Silent(), ())
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / ".netrc").write_text("machine localhost login ann password secret\n")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        private = Pin(path="", url=f"{forge.url}/private/kernel.git", commit="1" * 40, tree=pin.tree)
        with pytest.raises(MissingError, match="terminal prompts disabled"):
            obtain_commit(private, store, Silent(), ())
        assert any("private" in line for line in forge.asked)
        assert forge.passwords == []
