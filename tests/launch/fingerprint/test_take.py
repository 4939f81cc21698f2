"""Fingerprints that are really taken here."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from orbit.core.records import dump_json
from orbit.env.record import RECORD_PATH, Distribution, EnvironmentRecord
from orbit.errors import CheckFailed, InputError
from orbit.launch.fingerprint import take as module
from orbit.launch.fingerprint.compare import differences
from orbit.launch.fingerprint.take import orbit_hash, own_prefix, python_of, take, take_self
from orbit.smoke.machine import Gpu, MachineFacts

GPU = Gpu(name="NVIDIA H200", capability="9.0", memory_bytes=1)
MACHINE = MachineFacts(
    system="", cpu="", cores=1, memory_bytes=1, driver="580.65.06", driver_cuda="13.0", gpus=(GPU, GPU)
)
BARE = dataclasses.replace(MACHINE, driver="", driver_cuda="", gpus=())


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("ORBIT_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("ORBIT_PREFIX", raising=False)
    monkeypatch.delenv("ORBIT_IMAGE_DIGEST", raising=False)


def make_prefix(folder: Path, **modules: str) -> Path:
    """An environment that starts, with modules of this text in it: a virtual one of the Python that runs the tests."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3.12").symlink_to(os.path.realpath(sys.executable))
    home = Path(os.path.realpath(sys.executable)).parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    return folder


def record(**changed: Any) -> EnvironmentRecord:
    plain: dict[str, Any] = {
        "schema": 1, "identity": "e" * 64, "profile": "probe", "lock": "1" * 64, "prefix": "/opt/orbit",
        "python": "3.12.8", "interpreter": "", "system_libraries": (), "distributions": (), "skipped": (),
        "contested": (), "uncompiled": (),
    }  # fmt: skip
    return EnvironmentRecord(**(plain | changed))


def test_an_environment_tells_its_own_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = make_prefix(tmp_path / "p")
    monkeypatch.setenv("ORBIT_IMAGE_DIGEST", "sha256:" + "9" * 64)
    built = Distribution(name="flash", version="1", origin="wheelhouse", wheel="f.whl", sha256="7" * 64)
    dump_json(prefix / RECORD_PATH, record(distributions=(built,)))
    found = take(prefix, loaded=False, machine=MACHINE)
    assert (found.environment, found.lock, found.image) == ("e" * 64, "1" * 64, "sha256:" + "9" * 64)
    assert found.interpreter.startswith("3.12.8 sha256:")
    assert (found.driver, found.devices) == ("580.65.06, CUDA 13.0", ("NVIDIA H200 9.0",) * 2)
    assert found.libraries == ()
    other = dataclasses.replace(MACHINE, driver="570.1")
    assert take(prefix, loaded=False, machine=other).agreed == found.agreed
    rebuilt = Distribution(name="flash", version="1", origin="wheelhouse", wheel="f.whl", sha256="8" * 64)
    dump_json(prefix / RECORD_PATH, record(distributions=(rebuilt,)))
    assert take(prefix, loaded=False, machine=MACHINE).kernels != found.kernels != ""


def test_where_nothing_is_told_nothing_is_made_up(tmp_path: Path) -> None:
    found = take(make_prefix(tmp_path / "p"), loaded=False, machine=BARE)
    assert (found.image, found.environment, found.lock, found.kernels) == ("", "", "", "")
    assert (found.driver, found.devices) == ("", ())
    assert found.interpreter.startswith(sys.version.split()[0])


def test_another_interpreter_program_shows(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "p")
    first = take(prefix, loaded=False, machine=BARE)
    program = prefix / "bin" / "python3.12"
    program.unlink()
    program.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} "$@"\n')
    program.chmod(0o755)
    second = take(prefix, loaded=False, machine=BARE)
    assert "  interpreter" in differences([("a", first), ("b", second)])


def test_the_loaded_form_lists_what_a_process_of_that_environment_maps(tmp_path: Path) -> None:
    prefix = make_prefix(
        tmp_path / "p", torch="import _bz2\n__version__ = '9.9'\nprint('noise on stdout')\n", ray="__version__ = '7'\n"
    )
    found = take(prefix, loaded=True, machine=BARE)
    assert found.versions == {"ray": "7", "torch": "9.9"}
    names = [each.name for each in found.libraries]
    assert "libc.so.6" in names
    assert any(name.startswith("_bz2") for name in names)
    assert not any(each.inside for each in found.libraries)
    assert all(len(each.sha256) == 64 for each in found.libraries)
    assert take(prefix, loaded=True, machine=BARE) == found
    assert take(prefix, loaded=True, machine=BARE, read=True) == found


def test_a_library_inside_that_differs_by_one_byte_shows_as_such(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "x.c"
    prints = []
    for node, value in (("a", 1), ("b", 2)):
        text = "import ctypes, os\nkept = ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libx.so'))\n"
        prefix = make_prefix(tmp_path / node, torch=text)
        (site,) = prefix.glob("lib/*/site-packages")
        source.write_text(f"int x(void) {{ return {value}; }}\n")
        module.run([compiler, "-shared", "-fPIC", "-o", str(site / "libx.so"), str(source)], doing="compiling")
        prints.append((node, take(prefix, loaded=True, machine=BARE)))
    lines = differences(prints)
    assert lines[:3] == ("--- 1 node: a", "+++ 1 node: b", "  libraries")
    assert [text.split(" sha256")[0] for text in lines[3:]] == ["- libx.so", "+ libx.so"]


def test_a_stack_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="import torch: RuntimeError: no libcudnn"):
        take(make_prefix(tmp_path / "p", torch="raise RuntimeError('no libcudnn')\n"), loaded=True, machine=BARE)
    dies = "import os, sys\nprint('last words', file=sys.stderr, flush=True)\nos.kill(os.getpid(), 11)\n"
    with pytest.raises(CheckFailed) as caught:
        take(make_prefix(tmp_path / "q", torch=dies), loaded=True, machine=BARE)
    assert "last words" in caught.value.what
    assert "-11" in caught.value.what


def test_a_folder_without_a_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no environment"):
        take(tmp_path, loaded=False, machine=BARE)
    with pytest.raises(InputError, match="no environment"):
        python_of(tmp_path / "none")


def test_a_running_process_tells_of_itself() -> None:
    found = take_self(machine=BARE)
    assert "libc.so.6" in {each.name for each in found.libraries}
    assert found.orbit == orbit_hash()
    assert found.interpreter == take(Path(sys.prefix), loaded=False, machine=BARE).interpreter


def test_an_edit_of_orbit_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("orbit", "env"):
        (tmp_path / folder / "sub").mkdir(parents=True)
        (tmp_path / folder / "sub" / "file").write_text("one")
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "orbit")
    monkeypatch.setattr(module, "data_root", lambda: tmp_path)
    first = orbit_hash()
    (tmp_path / "orbit" / "__pycache__").mkdir()
    (tmp_path / "orbit" / "__pycache__" / "x.pyc").write_text("compiled")
    assert orbit_hash() == first
    (tmp_path / "env" / "sub" / "file").write_text("two")
    second = orbit_hash()
    (tmp_path / "orbit" / "sub" / "file").write_text("two")
    assert len({first, second, orbit_hash()}) == 3


def test_the_active_environment_is_the_default() -> None:
    assert own_prefix({"ORBIT_PREFIX": "/opt/orbit"}) == Path("/opt/orbit")
    assert own_prefix({}) == Path(sys.prefix)


def test_variables_are_those_of_the_environment_unless_it_is_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = make_prefix(tmp_path / "p")
    dump_json(prefix / RECORD_PATH, record())
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    there = module._variables(prefix)
    assert (there["ORBIT_PREFIX"], "PYTHONPATH" in there) == (str(prefix), False)
    monkeypatch.setenv("ORBIT_PREFIX", str(prefix))
    assert module._variables(prefix)["PYTHONPATH"] == "/elsewhere"
