"""orbit.env.interpreter: what can be copied, what is refused and why, and that the copy stands on its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core.files import tree_hash
from orbit.core.store import Store
from orbit.env import interpreter
from orbit.env.interpreter import Source
from orbit.env.relocate import find_paths, run_paths
from orbit.errors import InputError, MissingError
from tests.pythons import require_copyable

MODULES = ("ssl", "sqlite3", "lzma", "bz2", "ctypes", "readline", "zlib", "hashlib", "curses", "uuid", "sysconfig")


def make_source(prefix: Path, version: str = "3.12.7") -> Source:
    for name in ("bin/python3.12", "lib/python3.12/os.py"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text("")
    return Source(prefix=prefix, spellings=(str(prefix),), build_folders=(), version=version)


def test_a_whole_installation_of_the_right_version_is_accepted(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    interpreter.check_source(source, "3.12")
    with pytest.raises(InputError, match=r"wants CPython 3\.12, Orbit runs on 3\.11\.9"):
        interpreter.check_source(make_source(tmp_path, "3.11.9"), "3.12")
    with pytest.raises(InputError, match=r"python = '3\.13' is not supported"):
        interpreter.check_source(make_source(tmp_path, "3.13.0"), "3.13")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: (p / "lib/python3.12/dist-packages").mkdir(), "the distribution's own Python cannot be copied"),
        (lambda p: (p / "conda-meta").mkdir(), "conda or Nix Python cannot be copied alone"),
        (lambda p: (p / "lib/python3.12/os.py").unlink(), "no whole CPython"),
        (lambda p: (p / "bin/python3.12").unlink(), "no whole CPython"),
    ],
)
def test_what_cannot_be_copied_is_refused_with_a_way_out(tmp_path: Path, change: object, says: str) -> None:
    source = make_source(tmp_path)
    change(tmp_path)  # type: ignore[operator]
    with pytest.raises(MissingError, match=says) as caught:
        interpreter.check_source(source, "3.12")
    assert "./orbitw" in caught.value.fix


@pytest.mark.parametrize("store", ["/nix/store", "/srv/store"])
def test_nix_s_is_refused_wherever_its_store_is(store: str, tmp_path: Path) -> None:
    prefix = tmp_path / store[1:] / "hls1d0xxprn12ab089yp97dg00snllh1-python3-3.12.7"
    with pytest.raises(MissingError, match="Nix Python cannot be copied alone"):
        interpreter.check_source(make_source(prefix), "3.12")
    interpreter.check_source(
        make_source(tmp_path / "hls1d0xxprn12ab089yp97dg00snlle1-python3"), "3.12"
    )  # no e in the alphabet


def test_the_system_python_is_refused() -> None:
    source = Source(prefix=Path("/usr"), spellings=("/usr",), build_folders=(), version="3.12.3")
    with pytest.raises(MissingError, match="distribution's own Python"):
        interpreter.check_source(source, "3.12")


def test_selection_is_data(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    extra = [
        "bin/pip3.12", "bin/idle3.12", "lib/python3.12/test/test_os.py", "lib/python3.12/json/__init__.py",
        "lib/python3.12/site-packages/pip/__init__.py", "lib/python3.12/__pycache__/os.cpython-312.pyc",
        "lib/python3.12/lib-dynload/_tkinter.cpython-312-x86_64-linux-gnu.so", "lib/libpython3.12.so.1.0",
        "lib/python3.12/lib-dynload/_ssl.cpython-312-x86_64-linux-gnu.so", "include/python3.12/Python.h",
        "lib/python3.12/config-3.12-x86_64-linux-gnu/Makefile", "lib/libtcl8.6.so", "lib/pkgconfig/python-3.12.pc",
        "lib/python3.12/config-3.12-x86_64-linux-gnu/libpython3.12.a", "share/man/man1/python3.12.1",
        "lib/python3.12/unittest/__init__.py", "lib/python3.12/ensurepip/__init__.py",
    ]  # fmt: skip
    for name in extra:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert list(interpreter.selected_files(source, interpreter.load_selection())) == [
        "bin/python3.12",
        "include/python3.12/Python.h",
        "lib/libpython3.12.so.1.0",
        "lib/pkgconfig/python-3.12.pc",
        "lib/python3.12/config-3.12-x86_64-linux-gnu/Makefile",
        "lib/python3.12/json/__init__.py",
        "lib/python3.12/lib-dynload/_ssl.cpython-312-x86_64-linux-gnu.so",
        "lib/python3.12/os.py",
        "lib/python3.12/unittest/__init__.py",
    ]


def test_the_running_interpreter_is_the_one_behind_the_virtual_environment() -> None:
    source = interpreter.running()
    assert source.prefix == Path(sys.base_prefix).resolve()
    assert str(source.prefix) in source.spellings
    assert not any(folder.startswith(str(source.prefix)) for folder in source.build_folders)


def test_a_standard_prefix_tells_nothing_about_a_machine() -> None:
    source = Source(Path("/usr/local"), ("/home/ann/py", "/usr/local"), (), "3.12.7")
    assert source.telling == ("/home/ann/py",)


def test_only_configuration_files_are_rewritten() -> None:
    yes = ["lib/python3.12/_sysconfigdata__linux_x86_64-linux-gnu.py", "lib/pkgconfig/python-3.12.pc",
           "lib/python3.12/config-3.12-x86_64-linux-gnu/Makefile"]  # fmt: skip
    no = ["lib/python3.12/mimetypes.py", "lib/python3.12/sysconfig.py", "lib/python3.12/logging/config.py"]
    assert [name for name in (*yes, *no) if interpreter.CONFIGURATION.search(name)] == yes


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The running CPython, made relocatable; skips where it is one that cannot be."""
    source = interpreter.running()
    require_copyable()
    folder = tmp_path_factory.mktemp("interpreter")
    folder.chmod(0o755)
    entry = interpreter.obtain_interpreter(Store(folder / "store"), source, "/opt/orbit")
    assert entry.record.outputs["tree"] == tree_hash(entry.path / "prefix")
    return entry.path / "prefix"


def test_no_path_of_this_machine_is_left(copy: Path) -> None:
    source = interpreter.running()
    needles = {*map(os.fsencode, source.spellings), *map(os.fsencode, source.build_folders), os.fsencode(copy)}
    assert list(find_paths(copy, needles)) == []
    entries = {entry for found in run_paths(interpreter.binaries(copy)).values() for entry in found}
    assert all(entry.startswith("$ORIGIN") for entry in entries)


def test_the_copy_runs_from_another_folder_and_knows_its_version(copy: Path, tmp_path: Path) -> None:
    moved = tmp_path / "some where else"
    shutil.copytree(copy, moved, symlinks=True)
    program = "import sys, platform, {}; print(sys.prefix, platform.python_version(), sys.version.split()[0])"
    for name in ("python3.12", "python3", "python"):
        out = subprocess.run(
            [moved / "bin" / name, "-I", "-B", "-c", program.format(", ".join(MODULES))],
            capture_output=True, text=True, env={}, check=True,
        ).stdout  # fmt: skip
        version = sys.version.split()[0]
        assert out == f"{moved} {version} {version}\n"


def test_configuration_names_the_image(copy: Path) -> None:
    program = (
        "import sysconfig as s; print(s.get_config_var('LDFLAGS'), s.get_config_var('BINDIR'), s.get_path('include'))"
    )
    out = subprocess.run(
        [copy / "bin/python3.12", "-I", "-B", "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert str(interpreter.running().prefix) not in out
    assert out.split()[-1] == f"{copy}/include/python3.12"
    assert (copy / "include/python3.12/Python.h").is_file()


def test_libraries_of_the_base_are_named_and_own_ones_are_not(copy: Path) -> None:
    needed = interpreter.system_libraries(copy)
    assert "libc.so.6" in needed
    assert not any(name.startswith("libpython") for name in needed)


def test_a_second_copy_is_found_and_equal(copy: Path, tmp_path: Path) -> None:
    source = interpreter.running()
    store = Store(tmp_path / "elsewhere")
    first = interpreter.obtain_interpreter(store, source, "/opt/orbit")
    second = interpreter.obtain_interpreter(store, source, "/opt/orbit")
    assert (first.reused, second.reused) == (False, True)
    assert first.record.outputs["tree"] == tree_hash(copy)
