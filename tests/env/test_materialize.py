"""orbit.env.materialize: what lies in a cache becomes the environment's own, whatever happens meanwhile."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core import tools
from orbit.core.console import Silent
from orbit.core.proc import clean_env, run
from orbit.core.store import RECORD_NAME
from orbit.env.materialize import (
    CACHE_TAG,
    CACHE_TAG_HEAD,
    LOCK,
    Materialized,
    check_environment,
    materialize,
    refuse_dangling,
    survey,
)
from orbit.errors import InputError, RefusedError
from tests.image.test_faults import Disk

from .kills import killing
from .test_hydrate import done_or_full
from .wheels import write_wheel

KILLED = killing(
    ["from orbit.core.console import Silent", "from orbit.env.materialize import materialize"],
    ("open", "mkdir", "rename", "replace", "symlink", "unlink", "utime", "rmdir", "chmod"),
    "materialize(Path(sys.argv[2]), jobs=1, progress=Silent())",
)


@pytest.fixture(autouse=True)
def no_cache_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def make_linked(folder: Path) -> tuple[Path, Path]:
    """An environment with every kind of link, and the cache it leans on."""
    cache, root = folder / "cache", folder / "env"
    site = root / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (root / "bin" / "python").symlink_to("/bin/sh")
    archive = cache / "archive-v0" / "abc"
    for name in ("a.py", "b.py", "native.so", "deep/c.py", "deep/data/d.txt"):
        path = archive / "pkg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} = 1\n")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (archive / "pkg" / "native.so").chmod(0o755)
    (archive / "pkg" / "deep" / "alias.py").symlink_to("c.py")
    (archive / "pkg" / "deep" / "out.py").symlink_to("../a.py")
    (cache / CACHE_TAG).write_bytes(CACHE_TAG_HEAD + b"\n")
    (site / "pkg").mkdir()
    for name in ("a.py", "native.so"):
        (site / "pkg" / name).symlink_to(archive / "pkg" / name)
    (site / "pkg" / "deep").symlink_to(archive / "pkg" / "deep")
    os.link(archive / "pkg" / "b.py", site / "pkg" / "b.py")
    (site / "pkg" / "inside.py").symlink_to("a.py")
    (site / "pkg" / "absolute.py").symlink_to(site / "pkg" / "a.py")
    (root / "lib64").symlink_to("lib")
    (site / "one.txt").write_text("shared inside")
    os.link(site / "one.txt", site / "two.txt")
    return root, cache


def contents(root: Path) -> dict[str, bytes]:
    """Content of every file as a reader of the environment sees it, through links."""
    found = {}
    for base, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if Path(base, name) != root / "lib64"]
        found.update({os.path.relpath(Path(base, name), root): Path(base, name).read_bytes() for name in names})
    return found


def test_the_environment_stands_by_itself_when_the_cache_is_gone(tmp_path: Path) -> None:
    root, cache = make_linked(tmp_path)
    before = contents(root)
    done = materialize(root, progress=Silent())
    shutil.rmtree(cache)
    assert contents(root) == before
    assert (done.links, done.hard_links) == (3, 1)
    site = root / "lib" / "python3.12" / "site-packages"
    for name in ("a.py", "native.so", "b.py", "deep/c.py"):
        path = site / "pkg" / name
        assert not path.is_symlink()
        assert (path.stat().st_nlink, path.stat().st_mtime) == (1, 1_600_000_000), name
    assert (site / "pkg" / "native.so").stat().st_mode & 0o777 == 0o755
    assert os.readlink(site / "pkg" / "inside.py") == "a.py"
    assert os.readlink(site / "pkg" / "deep" / "alias.py") == "c.py"
    assert not (site / "pkg" / "deep" / "out.py").is_symlink()  # it led out of the folder that was copied
    assert (site / "one.txt").stat().st_nlink == 2
    assert done.kept == ("bin/python -> /bin/sh",)
    assert not (root / LOCK).exists()


def test_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    root, _ = make_linked(tmp_path)
    materialize(root, progress=Silent())
    again = materialize(root, progress=Silent())
    assert (again.links, again.hard_links, again.bytes) == (0, 0, 0)
    assert again.inside == 4
    assert again.kept == ("bin/python -> /bin/sh",)


def test_the_survey_lists_exactly_what_would_be_copied_and_changes_nothing(tmp_path: Path) -> None:
    root, _ = make_linked(tmp_path)
    before = {path: os.lstat(path) for path in root.rglob("*")}
    found = survey(check_environment(root))
    site = "lib/python3.12/site-packages/pkg"
    assert [(link.path, link.kind) for link in found.links] == [
        (f"{site}/a.py", "file"),
        (f"{site}/b.py", "hard"),
        (f"{site}/deep", "folder"),
        (f"{site}/native.so", "file"),
    ]
    assert {path: os.lstat(path) for path in root.rglob("*")} == before


def test_a_cache_without_a_tag_is_one_when_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, cache = make_linked(tmp_path)
    (cache / CACHE_TAG).unlink()
    assert [link.kind for link in survey(root).links] == ["hard"]
    assert len(survey(root).kept) == 4
    assert len(survey(root, [cache]).links) == 4
    monkeypatch.setenv("UV_CACHE_DIR", str(cache))
    assert len(survey(root).links) == 4


def test_links_to_nothing_are_refused_with_their_list(tmp_path: Path) -> None:
    root, cache = make_linked(tmp_path)
    (cache / "archive-v0" / "abc" / "pkg" / "a.py").unlink()
    with pytest.raises(RefusedError, match=r"(?s)3 link\(s\) lead to nothing.*absolute\.py -> .*inside\.py -> a\.py"):
        materialize(root, progress=Silent())
    assert (root / "lib/python3.12/site-packages/pkg/native.so").is_symlink()
    with pytest.raises(RefusedError):
        refuse_dangling(root, survey(root))


def test_environments_of_the_store_are_never_edited(tmp_path: Path) -> None:
    root, _ = make_linked(tmp_path)
    (tmp_path / RECORD_NAME).write_text("{}")
    with pytest.raises(RefusedError, match="Orbit's store"):
        materialize(root, progress=Silent())


def test_what_is_no_environment_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for place in (tmp_path / "x", tmp_path / "nothing"):
        with pytest.raises(InputError):
            materialize(place, progress=Silent())


def test_a_disk_that_is_too_small_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, _ = make_linked(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=3))
    with pytest.raises(RefusedError, match="of free disk"):
        materialize(root, progress=Silent())
    assert (root / "lib/python3.12/site-packages/pkg/a.py").is_symlink()


def test_killed_at_any_moment_everything_can_be_read_and_the_next_run_finishes(tmp_path: Path) -> None:
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "xdg")}

    def start(point: int, root: Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", KILLED, str(point), str(root)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=env)

    root, _ = make_linked(tmp_path / "whole")
    wanted = contents(root)
    calls = int(start(0, root).stdout)
    assert calls > 20
    for point in sorted(random.Random(11).sample(range(1, calls), 12)):
        root, cache = make_linked(tmp_path / str(point))
        assert start(point, root).returncode == -signal.SIGKILL
        seen = contents(root)
        assert {path: seen.get(path) for path in wanted} == wanted, point
        materialize(root, progress=Silent())
        shutil.rmtree(cache)
        assert contents(root) == wanted, point


def test_a_disk_that_fills_up_at_any_point_leaves_every_file_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = make_linked(tmp_path / "whole")
    wanted = contents(root)
    disk = Disk(monkeypatch)
    disk.count()
    materialize(root, jobs=1, progress=Silent())
    calls, failed = disk.calls, 0
    for point in range(calls):
        root, cache = make_linked(tmp_path / str(point))
        disk.count(full_at=point)
        failed += not done_or_full(functools.partial(materialize, root, jobs=1, progress=Silent()))
        disk.count()
        assert contents(root) == wanted, point
        assert not [path for path in root.rglob("*") if "orbit-materialize" in path.name], point
        materialize(root, progress=Silent())
        shutil.rmtree(cache)
        assert contents(root) == wanted, point
    assert failed >= calls // 2


def test_a_link_that_was_moved_aside_goes_back(tmp_path: Path) -> None:
    """Where a file system cannot exchange two names, a kill may come between the two renames."""
    root, cache = make_linked(tmp_path)
    wanted = contents(root)
    deep = root / "lib/python3.12/site-packages/pkg/deep"
    os.rename(deep, deep.with_name(".deep.orbit-materialize.old"))
    shutil.copytree(cache / "archive-v0/abc/pkg/deep", deep.with_name(".deep.orbit-materialize"))
    materialize(root, progress=Silent())
    shutil.rmtree(cache)
    assert contents(root) == wanted


@pytest.mark.integration
@pytest.mark.parametrize("mode", ["symlink", "hardlink"])
def test_a_real_environment_of_uv_outlives_its_cache(tmp_path: Path, mode: str) -> None:
    """Made by uv from a wheel, with links into its cache; its compiled files stay valid."""
    wheel = write_wheel(tmp_path / "w", "hello", "1.0", {"hello/__init__.py": b"VALUE = 42\n"}, {"hello": "hello:x"})
    env = {"UV_CACHE_DIR": str(tmp_path / "uv-cache"), "UV_LINK_MODE": mode}
    uv = tools.uv()
    run([uv, "venv", "--python", sys.executable, tmp_path / "venv"], doing="venv", env=env)
    python = tmp_path / "venv" / "bin" / "python"
    run([uv, "pip", "install", "--offline", "--compile-bytecode", "--python", python, wheel.path], doing="pip", env=env)
    site = next((tmp_path / "venv" / "lib").glob("python3.*")) / "site-packages" / "hello"
    assert (site / "__init__.py").is_symlink() == (mode == "symlink")
    done: Materialized = materialize(tmp_path / "venv", [tmp_path / "uv-cache"], progress=Silent())
    assert (done.links if mode == "symlink" else done.hard_links) >= 1
    shutil.rmtree(tmp_path / "uv-cache")
    assert not (site / "__init__.py").is_symlink()
    pyc = next((site / "__pycache__").glob("*.pyc"))
    before = pyc.read_bytes(), pyc.stat().st_mtime_ns
    program = "import hello; print(hello.VALUE, hello.__cached__)"
    said = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, env=clean_env()).stdout
    assert said.split() == ["42", str(pyc)]
    assert (pyc.read_bytes(), pyc.stat().st_mtime_ns) == before
