"""orbit.env.create: whole environments, from hand-made wheels (offline) and, marked so, from the real lock."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.files import sha256_file, tree_hash
from orbit.core.paths import checkout_root
from orbit.core.proc import ca_bundle
from orbit.core.store import Entry, Store
from orbit.env import install, interpreter
from orbit.env.create import copy_out, create_environment
from orbit.env.installed import digest_of, read_installed
from orbit.env.record import Wheel, read_environment
from orbit.env.relocate import find_paths
from orbit.env.takeover import SITE
from orbit.env.tree import MANIFEST, damage
from orbit.errors import CheckFailed, InputError, MissingError, RefusedError
from orbit.profile.model import Profile, load_profile
from tests.profile.locks import lock_text
from tests.pythons import require_copyable

from .wheels import House, write_wheel

CODE = b"import sys\ndef main():\n    print('ran', sys.prefix)\n"
NOBODY = 65534
MODULES = "ssl, sqlite3, lzma, bz2, ctypes, readline"


class Lines(Silent):
    """Progress that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="session", autouse=True)
def copyable() -> None:
    require_copyable()


@pytest.fixture(scope="session")
def profile() -> Profile:
    return load_profile("probe")


def make_root(folder: Path) -> tuple[Path, House]:
    """A checkout whose lock is empty, and three wheels built by hand, two of which contest a file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "uv.lock").write_text(lock_text())
    wheels = [
        write_wheel(folder / "w", "hello", "1.0", {"hello/__init__.py": CODE}, {"hello": "hello:main"}),
        write_wheel(folder / "w", "aaa", "1", {"aaa.py": b"", "shared.py": b"WHOSE = 'aaa'\n"}),
        write_wheel(folder / "w", "zzz", "1", {"zzz.py": b"", "shared.py": b"WHOSE = 'zzz'\n", "old.py": b"print 1\n"}),
    ]
    return folder, House(wheels=wheels)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> tuple[Entry, Path, House, Store]:
    folder = tmp_path_factory.mktemp("made")
    folder.chmod(0o755)
    root, house = make_root(folder / "root")
    store = Store(folder / "store")
    return create_environment(profile, root, house, store, progress=Silent()), root, house, store


@pytest.mark.integration
def test_the_record_says_what_is_inside(made: tuple[Entry, Path, House, Store]) -> None:
    entry = made[0]
    record = read_environment(entry.path / "prefix")
    assert [(d.name, d.version, d.origin) for d in record.distributions] == [
        ("aaa", "1", "wheelhouse"),
        ("hello", "1.0", "wheelhouse"),
        ("zzz", "1", "wheelhouse"),
    ]
    assert record.identity == entry.record.key == entry.record.outputs["identity"]
    assert record.uncompiled == (f"{SITE}/old.py",)
    assert [(c.path, c.kept, c.dropped) for c in record.contested] == [(f"{SITE}/shared.py", "zzz", ("aaa",))]
    assert "libc.so.6" in record.system_libraries


@pytest.mark.integration
def test_a_contested_file_is_the_last_owners(made: tuple[Entry, Path, House, Store]) -> None:
    assert (made[0].path / "prefix" / SITE / "shared.py").read_bytes() == b"WHOSE = 'zzz'\n"


@pytest.mark.integration
def test_record_files_agree_with_the_disk(made: tuple[Entry, Path, House, Store]) -> None:
    site = made[0].path / "prefix" / SITE
    owned = set()
    for dist in read_installed(site):
        for line in dist.lines:
            path = Path(os.path.normpath(site / line.path))
            owned.add(path)
            assert path.is_file(), line.path
            if line.digest:
                assert (line.digest, line.size) == digest_of(path), line.path
    assert {path for path in site.rglob("*") if path.is_file()} == owned - {site.parents[2] / "bin" / "hello"}


@pytest.mark.integration
def test_it_runs_elsewhere_as_anybody(made: tuple[Entry, Path, House, Store]) -> None:
    with tempfile.TemporaryDirectory() as place:  # the test's own folder lets nobody else in
        os.chmod(place, 0o755)
        moved = Path(place) / "an other place"
        copy_out(made[0].path / "prefix", moved, progress=Silent())
        assert damage(moved, made[0].path / MANIFEST) == ""
        program = f"import hello, {MODULES}; hello.main()"
        for command in (["bin/hello"], ["bin/python3.12", "-c", program]):
            out = subprocess.run(
                [moved / command[0], *command[1:]],
                capture_output=True,
                text=True,
                check=True,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                user=NOBODY if os.geteuid() == 0 else None,
            ).stdout
            assert out == f"ran {moved}\n"
        with pytest.raises(RefusedError, match="exists already"):
            copy_out(made[0].path / "prefix", moved, progress=Silent())


@pytest.mark.integration
def test_no_file_names_this_machine(made: tuple[Entry, Path, House, Store]) -> None:
    source = interpreter.running()
    needles = {*source.spellings, *source.build_folders, str(made[0].path), str(made[3].root), str(made[1])}
    needles |= {str(checkout_root()), f"{os.path.expanduser('~')}/.cache", str(Path(sys.prefix))}
    assert list(find_paths(made[0].path / "prefix", map(os.fsencode, needles))) == []


@pytest.mark.integration
def test_another_machine_gets_the_same_bytes(
    made: tuple[Entry, Path, House, Store], tmp_path: Path, profile: Profile
) -> None:
    root, house = make_root(tmp_path / "a different root")
    other = create_environment(profile, root, house, Store(tmp_path / "other store"), progress=Silent())
    assert not other.reused
    assert sha256_file(other.path / MANIFEST) == sha256_file(made[0].path / MANIFEST)
    none: frozenset[str] = frozenset()
    assert tree_hash(other.path / "prefix", skip=none) == tree_hash(made[0].path / "prefix", skip=none)


@pytest.mark.integration
def test_a_second_run_reuses_and_a_damaged_one_is_made_again(profile: Profile, tmp_path: Path) -> None:
    root, house = make_root(tmp_path / "root")
    store = Store(tmp_path / "store")
    lines = Lines()
    first = create_environment(profile, root, house, store, progress=lines)
    before = sha256_file(first.path / MANIFEST)
    assert create_environment(profile, root, house, store, progress=lines).reused
    victim = first.path / "prefix" / SITE / "hello" / "__init__.py"
    victim.write_bytes(CODE.replace(b"ran", b"RAN"))
    lines.said.clear()
    again = create_environment(profile, root, house, store, progress=lines)
    assert not again.reused
    assert "hello/__init__.py was changed): made again" in lines.said[0]
    assert sha256_file(again.path / MANIFEST) == before
    assert damage(again.path / "prefix", again.path / MANIFEST) == ""


def spoil_wheel(root: Path, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(house.wheels[0].path).write_bytes(b"PK cut short")


def lose_lock(root: Path, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "uv.lock").unlink()


def fill_disk(root: Path, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(total=10, used=9, free=1))


def other_python(root: Path, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    source = interpreter.running()
    wrong = interpreter.Source(source.prefix, source.spellings, source.build_folders, "3.11.7")
    monkeypatch.setattr(interpreter, "running", lambda: wrong)


@pytest.mark.parametrize(
    ("harm", "kind", "says"),
    [
        (spoil_wheel, InputError, "damaged wheel of hello"),
        (lose_lock, MissingError, r"uv\.lock: no such file"),
        (fill_disk, RefusedError, "the environment needs"),
        (other_python, InputError, r"wants CPython 3\.12, Orbit runs on 3\.11\.7"),
    ],
)
def test_bad_input_is_named_and_leaves_nothing(
    harm: Callable[[Path, House, pytest.MonkeyPatch], None],
    kind: type[Exception],
    says: str,
    profile: Profile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, house = make_root(tmp_path / "root")
    harm(root, house, monkeypatch)
    store = Store(tmp_path / "store")
    with pytest.raises(kind, match=says):
        create_environment(profile, root, house, store, progress=Silent())
    assert not (store.root / "entries" / "env").exists()
    assert list((store.root / "tmp").glob("*")) == []


def edit_installed(prefix: Path) -> None:
    with (prefix / SITE / "hello" / "__init__.py").open("ab") as file:
        file.write(b"# a certificate of this host\n")


@pytest.mark.integration
def test_what_was_written_into_uvs_cache_is_mended(
    made: tuple[Entry, Path, House, Store], profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_built = install.install_built

    def poisoned(wheels: Sequence[Wheel], prefix: Path) -> None:
        install_built(wheels, prefix)
        edit_installed(prefix)

    monkeypatch.setattr(install, "install_built", poisoned)
    lines = Lines()
    entry = create_environment(profile, made[1], made[2], Store(tmp_path / "store"), progress=lines)
    assert (entry.path / "prefix" / SITE / "hello" / "__init__.py").read_bytes() == CODE
    assert (entry.path / MANIFEST).read_bytes() == (made[0].path / MANIFEST).read_bytes()
    assert any(line.startswith("hello:") and "fetching it again" in line for line in lines.said)


@pytest.mark.integration
def test_files_that_keep_changing_are_refused(
    made: tuple[Entry, Path, House, Store], profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_built, reinstall = install.install_built, install.reinstall

    def poisoned(wheels: Sequence[Wheel], prefix: Path) -> None:
        install_built(wheels, prefix)
        edit_installed(prefix)

    def poisoned_again(plan: install.Plan, name: str, prefix: Path, scratch: Path, *, cached: bool = True) -> None:
        reinstall(plan, name, prefix, scratch, cached=cached)
        edit_installed(prefix)

    monkeypatch.setattr(install, "install_built", poisoned)
    monkeypatch.setattr(install, "reinstall", poisoned_again)
    with pytest.raises(CheckFailed, match="differ from the wheel even when fetched again"):
        create_environment(profile, made[1], made[2], Store(tmp_path / "store"), progress=Silent())
    assert not (tmp_path / "store" / "entries" / "env").exists()


@pytest.mark.integration
def test_a_wheel_that_names_this_machine_is_refused(profile: Profile, tmp_path: Path) -> None:
    root, _ = make_root(tmp_path / "root")
    leak = os.fsencode(interpreter.running().prefix)
    wheel = write_wheel(root / "w", "leaky", "1", {"leaky.so": b"\0" * 100 + leak + b"/include\0"})
    with pytest.raises(Exception, match=r"leaky\.so") as caught:
        create_environment(profile, root, House(wheels=[wheel]), Store(tmp_path / "store"), progress=Silent())
    assert "name paths of this machine" in str(caught.value)
    assert not (tmp_path / "store" / "entries" / "env").exists()


def test_a_store_that_cannot_be_written_is_a_sentence(profile: Profile, tmp_path: Path) -> None:
    root, house = make_root(tmp_path / "root")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"Not a directory|File exists") as caught:
        create_environment(profile, root, house, Store(tmp_path / "file" / "store"), progress=Silent())
    assert caught.value.filename  # orbit.cli turns it into a sentence with this path


PROGRAM = """
import sys
from pathlib import Path
import msgspec
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.env.create import create_environment
from orbit.profile.model import load_profile
from tests.env.wheels import Built, House
root, store, wheels = sys.argv[1:]
house = House(wheels=msgspec.json.decode(wheels, type=list[Built]))
create_environment(load_profile("probe"), Path(root), house, Store(Path(store)), progress=Silent())
"""


@pytest.mark.integration
def test_killed_at_any_moment_the_next_run_ends_the_same(
    made: tuple[Entry, Path, House, Store], tmp_path: Path, profile: Profile
) -> None:
    root, house = make_root(tmp_path / "root")
    store = Store(tmp_path / "store")
    wheels = msgspec.json.encode(list(house.wheels)).decode()
    killed = 0
    for delay_s in (0.4, 0.7, 1.0, 1.4, 1.9):
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(root), str(store.root), wheels], cwd=checkout_root()
        )
        time.sleep(delay_s)
        killed += child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        for path in (store.root / "entries" / "env").glob("*"):
            assert damage(path / "prefix", path / MANIFEST) == ""
    assert killed >= 3
    with store.writer("test"):
        store.sweep()
        entry = create_environment(profile, root, house, store, progress=Silent())
    assert sha256_file(entry.path / MANIFEST) == sha256_file(made[0].path / MANIFEST)
    assert list((store.root / "tmp").glob("*")) == []


@pytest.mark.integration
@pytest.mark.network
def test_the_real_probe_environment(profile: Profile, tmp_path: Path) -> None:
    first = create_environment(profile, checkout_root(), House(), Store(tmp_path / "one"), progress=Silent())
    second = create_environment(profile, checkout_root(), House(), Store(tmp_path / "two"), progress=Silent())
    assert sha256_file(first.path / MANIFEST) == sha256_file(second.path / MANIFEST)
    prefix = first.path / "prefix"
    assert tree_hash(prefix, skip=frozenset()) == tree_hash(second.path / "prefix", skip=frozenset())
    assert all(path.lstat().st_nlink == 1 for path in prefix.rglob("*") if path.is_file() and not path.is_symlink())
    source = interpreter.running()
    needles = {os.fsencode(path) for path in (*source.spellings, str(tmp_path), str(checkout_root()))}
    assert list(find_paths(prefix, needles)) == []
    program = "import msgspec, packaging, rich, zstandard; print(msgspec.__file__)"
    out = subprocess.run([prefix / "bin/python3.12", "-I", "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout == f"{prefix}/{SITE}/msgspec/__init__.py\n"
    bundle = ca_bundle()
    if bundle is not None:
        host = set(re.findall(r"[A-Za-z0-9+/]{64}\n[A-Za-z0-9+/]{64}\n", bundle.read_text(errors="replace")))
        known = set(prefix.rglob("cacert.pem"))
        for path in prefix.rglob("*"):
            if path.suffix in (".pem", ".crt", ".cer", ".bundle") and path not in known:
                assert not any(part in path.read_text(errors="replace") for part in host), path
