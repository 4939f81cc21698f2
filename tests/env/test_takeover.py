"""orbit.env.takeover: an environment that takes over from another is the one made from nothing, to the byte.

Each world is made from nothing in a store of its own; then one from another.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.files import tree_hash
from orbit.core.paths import checkout_root
from orbit.core.records import load_json
from orbit.core.store import RECORD_NAME, Entry, EntryRecord, Store
from orbit.env import create, install, takeover
from orbit.env.contents import CONTENTS, read_contents
from orbit.env.create import create_environment
from orbit.env.installed import Installed, Line, digest_of
from orbit.env.record import RECORD_PATH, Contested, EnvironmentRecord
from orbit.env.takeover import SITE, Source, Unusable, changed_folders, owners, source_of, to_link, to_renew
from orbit.env.tree import MANIFEST, damage
from orbit.errors import RefusedError
from orbit.profile.model import Profile, load_profile
from tests.pythons import require_copyable

from .test_create import Lines
from .worlds import WORLDS, make_world

TAKEN = {"upgraded": 5, "fewer": 4, "more": 1, "settled": 4, "rebuilt": 5, "empty": 0}
"""How many of their distributions these worlds take over from ``base``: aaa and zzz (contested) go together, and what
shares a path with something new is installed again."""

PAIRS = [
    *(pair for name in WORLDS[1:] for pair in (("base", name), (name, "base"))),
    *(("fewer", "more"), ("more", "settled"), ("upgraded", "rebuilt"), ("empty", "more")),
]


@pytest.fixture(scope="module", autouse=True)
def copyable() -> None:
    require_copyable()


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("probe")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> dict[str, Entry]:
    """Every world made from nothing, in a store of its own."""
    found = {}
    for name in WORLDS:
        folder = tmp_path_factory.mktemp(name)
        found[name] = obtain(profile, folder, name, Store(folder / "store"))
        assert found[name].record.outputs["taken_over"] == 0
    return found


def obtain(profile: Profile, folder: Path, name: str, store: Store, progress: Silent | None = None) -> Entry:
    root, house = make_world(folder / name, name)
    return create_environment(profile, root, house, store, progress=progress or Silent())


@pytest.fixture
def store(worlds: dict[str, Entry], tmp_path: Path) -> Store:
    """A store that holds nothing but ``base`` and its interpreter."""
    original = worlds["base"].path.parents[2]
    shutil.copytree(original, tmp_path / "store", symlinks=True)
    return Store(tmp_path / "store")


def assert_same(one: Entry, other: Entry) -> None:
    assert one.record.key == other.record.key
    assert (one.path / MANIFEST).read_bytes() == (other.path / MANIFEST).read_bytes()
    assert (one.path / CONTENTS).read_bytes() == (other.path / CONTENTS).read_bytes()
    none: frozenset[str] = frozenset()
    assert tree_hash(one.path / "prefix", skip=none) == tree_hash(other.path / "prefix", skip=none)


@pytest.mark.integration
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_taking_over_gives_what_making_from_nothing_gives(
    worlds: dict[str, Entry], tmp_path: Path, profile: Profile, old: str, new: str
) -> None:
    store = Store(worlds[old].path.parents[2])
    lines = Lines()
    entry = obtain(profile, tmp_path, new, store, lines)
    try:
        assert not entry.reused
        assert f"of environment {worlds[old].record.key[:12]}" in "".join(lines.said)
        assert_same(entry, worlds[new])
        assert damage(worlds[old].path / "prefix", worlds[old].path / MANIFEST) == ""
        assert damage(entry.path / "prefix", entry.path / MANIFEST) == ""
        if old == "base":
            assert entry.record.outputs["taken_over"] == TAKEN[new]
    finally:
        store.discard(entry.path)


@pytest.mark.integration
def test_what_is_taken_over_is_shared_and_the_rest_is_not(store: Store, tmp_path: Path, profile: Profile) -> None:
    prefix = obtain(profile, tmp_path, "upgraded", store).path / "prefix"

    def links(path: str) -> int:
        return (prefix / path).stat().st_nlink

    assert [links(f"{SITE}/{path}") for path in ("aaa.py", "tool/__init__.py", "aaa-1.dist-info/RECORD")] == [2, 2, 2]
    assert links("lib/python3.12/__pycache__/ast.cpython-312.pyc") == 2
    assert [links(path) for path in (f"{SITE}/hello/__init__.py", "bin/hello2", RECORD_PATH, "bin/python3.12")] == [
        1
    ] * 4


@pytest.mark.integration
def test_contents_are_what_is_on_the_disk(worlds: dict[str, Entry]) -> None:
    for entry in worlds.values():
        prefix = entry.path / "prefix"
        there = {
            os.fspath(path.relative_to(prefix)): digest_of(path)[0].removeprefix("sha256=")
            for path in prefix.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        assert read_contents(entry.path) == there


def edit(prefix: Path) -> None:
    with open(prefix / SITE / "aaa.py", "ab") as file:
        file.write(b"# edited\n")


def lose(prefix: Path) -> None:
    (prefix / SITE / "tool.data").unlink()


def forge_record(prefix: Path) -> None:
    with open(prefix / SITE / "hello-1.0.dist-info/RECORD", "ab") as file:
        file.write(b"hello/more.py,,\n")


def add_distribution(prefix: Path) -> None:
    (prefix / SITE / "added-1.dist-info").mkdir()
    (prefix / SITE / "added-1.dist-info" / "RECORD").write_bytes(b"")


def forge_notes(prefix: Path) -> None:
    os.utime(prefix / RECORD_PATH)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (edit, "aaa.py was changed"),
        (lose, "tool.data cannot be linked: No such file"),
        (forge_record, "hello-1.0.dist-info/RECORD was changed"),
        (add_distribution, "added-1.dist-info/RECORD was changed"),
        (forge_notes, "environment.json was changed"),
        (lambda prefix: (prefix.parent / CONTENTS).unlink(), None),
        (lambda prefix: (prefix.parent / MANIFEST).write_bytes(b""), None),
    ],
)
def test_a_damaged_environment_is_no_source(
    store: Store,
    worlds: dict[str, Entry],
    tmp_path: Path,
    profile: Profile,
    harm: Callable[[Path], None],
    says: str | None,
) -> None:
    harm(store.entry_path("env", worlds["base"].record.key) / "prefix")
    lines = Lines()
    entry = obtain(profile, tmp_path, "upgraded", store, lines)
    assert entry.record.outputs["taken_over"] == 0
    assert_same(entry, worlds["upgraded"])
    assert any("of the store is not used" in line and str(says) in line for line in lines.said) == (says is not None)


@pytest.mark.integration
def test_the_next_best_is_used_when_the_best_is_damaged(
    store: Store, worlds: dict[str, Entry], tmp_path: Path, profile: Profile
) -> None:
    second = obtain(profile, tmp_path, "fewer", store)
    shutil.copytree(second.path / "prefix", tmp_path / "unshared", symlinks=True)  # times too
    shutil.rmtree(second.path / "prefix")
    os.rename(tmp_path / "unshared", second.path / "prefix")
    edit(store.entry_path("env", worlds["base"].record.key) / "prefix")
    entry = obtain(profile, tmp_path, "upgraded", store)
    assert entry.record.outputs["taken_over"] == 3
    assert_same(entry, worlds["upgraded"])


@pytest.mark.integration
def test_a_file_that_changes_meanwhile_is_not_kept(
    store: Store, worlds: dict[str, Entry], tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = takeover.link

    def and_somebody_writes(source: Path, *what: Any) -> dict[str, str]:
        linked = link(source, *what)
        edit(source)
        return linked

    monkeypatch.setattr(takeover, "link", and_somebody_writes)
    entry = obtain(profile, tmp_path, "upgraded", store)
    assert entry.record.outputs["taken_over"] == 0
    assert_same(entry, worlds["upgraded"])


@pytest.mark.integration
@pytest.mark.parametrize("number", [errno.EPERM, errno.EMLINK, errno.ENOSPC])
def test_where_nothing_can_be_linked_it_is_made_from_nothing_and_a_full_disk_is_said(
    store: Store,
    worlds: dict[str, Entry],
    tmp_path: Path,
    profile: Profile,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    if number == errno.ENOSPC:
        with pytest.raises(OSError, match="No space left"):
            obtain(profile, tmp_path, "upgraded", store)
        assert [path.name for path in (store.root / "entries" / "env").iterdir()] == [worlds["base"].record.key]
        assert list((store.root / "tmp").iterdir()) == []
    else:
        assert_same(obtain(profile, tmp_path, "upgraded", store), worlds["upgraded"])


@pytest.mark.integration
def test_room_is_asked_for_what_is_new_only(
    store: Store, tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def almost_full(_path: object) -> SimpleNamespace:
        return SimpleNamespace(free=create.INTERPRETER_BYTES + 20_000_000)

    monkeypatch.setattr(shutil, "disk_usage", almost_full)
    monkeypatch.setattr(install.Plan, "sizes", lambda plan: dict.fromkeys(names(plan), 7_000_000))
    assert obtain(profile, tmp_path, "upgraded", store).record.outputs["taken_over"] == 5
    with pytest.raises(RefusedError, match="the environment needs"):
        obtain(profile, tmp_path, "upgraded", Store(tmp_path / "another"))


def names(plan: Any) -> list[str]:
    return [dist.name for dist in plan.distributions()]


@pytest.mark.integration
@pytest.mark.parametrize("name", [*takeover.DECIDING, "uv", "found_at"])
def test_nothing_is_taken_from_what_was_made_otherwise(
    store: Store, worlds: dict[str, Entry], tmp_path: Path, profile: Profile, name: str
) -> None:
    path = store.entry_path("env", worlds["base"].record.key) / RECORD_NAME
    record = load_json(path, EntryRecord)
    record = change(record, name)
    path.write_bytes(msgspec.json.encode(record))
    entry = obtain(profile, tmp_path, "upgraded", store)
    assert entry.record.outputs["taken_over"] == 0


def change(record: EntryRecord, name: str) -> EntryRecord:
    if name in takeover.DECIDING:
        return msgspec.structs.replace(record, inputs={**record.inputs, name: "another"})
    makers = {**record.outputs["makers"], name: "another"}
    return msgspec.structs.replace(record, outputs={**record.outputs, "makers": makers})


@pytest.mark.integration
def test_two_threads_make_one(store: Store, worlds: dict[str, Entry], tmp_path: Path, profile: Profile) -> None:
    made: list[Entry] = []
    root, house = make_world(tmp_path / "root", "upgraded")

    def make() -> None:
        made.append(create_environment(profile, root, house, store, progress=Silent()))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entry.reused for entry in made) == [False, True]
    assert_same(made[0], worlds["upgraded"])


PROGRAM = """
import sys
from pathlib import Path
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.profile.model import load_profile
from tests.env.test_takeover import obtain
obtain(load_profile("probe"), Path(sys.argv[1]), "upgraded", Store(Path(sys.argv[2])))
"""


@pytest.mark.integration
def test_killed_at_any_moment_neither_is_harmed(
    store: Store, worlds: dict[str, Entry], tmp_path: Path, profile: Profile
) -> None:
    base = store.entry_path("env", worlds["base"].record.key)
    killed = 0
    for delay_s in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        argv = [sys.executable, "-c", PROGRAM, str(tmp_path), str(store.root)]
        child = subprocess.Popen(argv, cwd=checkout_root())
        time.sleep(delay_s)
        killed += child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        for path in (store.root / "entries" / "env").iterdir():
            assert damage(path / "prefix", path / MANIFEST) == ""
    assert killed >= 2
    with store.writer("test"):
        store.sweep()
        entry = obtain(profile, tmp_path, "upgraded", store)
    assert_same(entry, worlds["upgraded"])
    assert entry.record.outputs["taken_over"] == TAKEN["upgraded"]
    assert damage(base / "prefix", base / MANIFEST) == ""
    assert list((store.root / "tmp").iterdir()) == []


@pytest.mark.integration
def test_an_environment_outlives_the_one_it_came_from(
    store: Store, worlds: dict[str, Entry], tmp_path: Path, profile: Profile
) -> None:
    entry = obtain(profile, tmp_path, "upgraded", store)
    store.discard(store.entry_path("env", worlds["base"].record.key))
    assert damage(entry.path / "prefix", entry.path / MANIFEST) == ""
    assert_same(entry, worlds["upgraded"])


@pytest.mark.integration
def test_an_edit_shows_in_both_and_both_are_made_again(
    store: Store, worlds: dict[str, Entry], tmp_path: Path, profile: Profile
) -> None:
    entry = obtain(profile, tmp_path, "upgraded", store)
    edit(entry.path / "prefix")
    for name in ("base", "upgraded"):
        lines = Lines()
        again = obtain(profile, tmp_path, name, store, lines)
        assert "aaa.py was changed): made again" in lines.said[0]
        assert_same(again, worlds[name])


# what decides, on small facts


def dist(name: str, *lines: str) -> Installed:
    rows = (line.partition("=") for line in lines)
    return Installed(name, Path(f"{name}-1.dist-info"), tuple(Line(path, digest, "") for path, _, digest in rows))


def fake(dists: Mapping[str, Installed], *, contested: tuple[Contested, ...] = (), uncompiled: str = "") -> Source:
    paths = [path for one in dists.values() for path in takeover.paths_of(one)]
    manifest = dict.fromkeys(paths, "100644\t1\t1")
    record = EnvironmentRecord(
        schema=1,
        identity="",
        profile="",
        lock="",
        prefix="",
        python="",
        interpreter="",
        system_libraries=(),
        distributions=(),
        skipped=(),
        contested=contested,
        uncompiled=(uncompiled,),
    )
    owned = {name: takeover.paths_of(one) for name, one in dists.items()}
    return Source("key", Path("/none"), record, frozenset(dists), dists, owned, manifest, {})


def test_a_path_that_something_new_brings_with_other_bytes_or_as_a_script() -> None:
    old = {
        "same": dist("same", "ns/__init__.py=1"),
        "other": dist("other", "a.py=1"),
        "script": dist("script", "../../../bin/x=1"),
        "free": dist("free", "b.py=1"),
        "over": dist("over", "../../../lib/python3.12/os.py=1"),
    }
    fresh = [dist("new", "ns/__init__.py=1", "a.py=2", "../../../bin/x=1")]
    renew = to_renew(fake(old), old.keys(), fresh, {"lib/python3.12/os.py"})
    assert renew == {"other", "script", "over"}


def test_owners_of_a_contested_path_go_together() -> None:
    old = {name: dist(name, f"{name}.py=1") for name in ("a", "b", "c")}
    item = Contested(path=f"{SITE}/x.py", kept="b", dropped=("a",))
    assert to_renew(fake(old, contested=(item,)), {"a", "b", "c"}, [], ()) == set()
    assert to_renew(fake(old, contested=(item,)), {"b", "c"}, [], ()) == {"b"}
    assert to_renew(fake(old, contested=(item,)), {"a", "b", "c"}, [dist("n", "x.py=1")], ()) == {"a", "b"}


def test_folders_with_other_sources_are_compiled_anew() -> None:
    pyc = "pkg/__pycache__/m.cpython-312.pyc="
    old = {"a": dist("a", "pkg/m.py=1", pyc, "top.py=1", "pkg/data=1"), "b": dist("b", "pkg/n.py=1", "q/data=1")}
    source = fake(old)
    assert changed_folders(source, {"a", "b"}, [f"{SITE}/q/data"]) == frozenset()
    changed = changed_folders(source, {"a"}, [f"{SITE}/new/x.py", "bin/x.py"])
    assert changed == {f"{SITE}/pkg", f"{SITE}/new"}
    files, folders = to_link(source, {"a"}, changed, frozenset(), ["lib/python3.12/os.py"])
    assert files == {f"{SITE}/{path}" for path in ("pkg/m.py", "top.py", "pkg/data")}
    assert folders == frozenset()
    files, _ = to_link(fake(old, uncompiled=f"{SITE}/pkg/m.py"), {"a"}, changed, frozenset(), [])
    assert f"{SITE}/{pyc[:-1]}" in files
    assert source_of(f"{SITE}/{pyc[:-1]}") == f"{SITE}/pkg/m.py"


def test_what_no_record_lists_belongs_to_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.12").mkdir(parents=True)
    (tmp_path / "lib/python3.12/os.py").write_bytes(b"")
    dists = [dist("a", "pkg/m.py=1"), dist("b", "ns/b/m.py=1", "ns/init=1"), dist("c", "ns/c/m.py=1", "ns/init=1")]
    manifest = {path: "100644\t1\t1" for one in dists for path in takeover.paths_of(one)}
    manifest |= dict.fromkeys(["lib", "lib/python3.12", SITE, f"{SITE}/pkg", f"{SITE}/ns"], "40755\t0\t1")
    manifest |= dict.fromkeys(["lib/python3.12/os.py", RECORD_PATH, "cuda/x"], "100644\t1\t1")
    manifest["lib/python3.12/__pycache__/os.cpython-312.pyc"] = "100644\t1\t1"
    stray = {f"{SITE}/pkg/deep/x": "100644\t1\t1", f"{SITE}/pkg/empty": "40755\t0\t1", f"{SITE}/ns/b/y": "100644\t1\t1"}
    owned = owners(dists, manifest | stray, tmp_path)
    assert owned["a"] == {f"{SITE}/pkg/m.py", f"{SITE}/pkg/deep/x", f"{SITE}/pkg/empty"}
    assert owned["b"] == {f"{SITE}/ns/b/m.py", f"{SITE}/ns/init", f"{SITE}/ns/b/y"}
    for path in (f"{SITE}/ns/x", f"{SITE}/x", "lib/x", "share/x", f"{SITE}/gone/x"):
        with pytest.raises(Unusable, match="nobody knows which distribution"):
            owners(dists, manifest | {path: "100644\t1\t1"}, tmp_path)
