"""What the loader and the interpreter would find first, from made-up folders; compiled libraries from real ones."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from orbit.doctor.facts import Prefix
from orbit.doctor.look import paths

PREFIX = Prefix(path="/env", site="/env/site", modules=("sglang", "torch"))


def folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).touch()
    return path


def test_foreign_libraries_are_named_and_own_ones_are_not(tmp_path: Path) -> None:
    prefix = Prefix(path=str(tmp_path / "env"), site="x")
    foreign = folder(tmp_path / "cuda/lib64", "libcudnn.so.9", "libm.so.6")
    own = folder(tmp_path / "env/cuda/lib64", "libcudart.so.13")
    harmless = folder(tmp_path / "misc", "libm.so.6")
    env = {"LD_LIBRARY_PATH": f"{own}:{foreign}:{harmless}::{tmp_path}/gone"}
    assert paths.foreign_libraries(env, prefix) == {str(foreign): ("libcudnn.so.9",)}
    assert str(own) in paths.foreign_libraries(env, None)


def test_compat_drivers_are_found_by_variable_and_by_configuration(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "a/compat", "libcuda.so.1"), folder(tmp_path / "b/compat", "libcuda.so.1")
    empty = folder(tmp_path / "c/compat")
    folder(tmp_path / "etc/ld.so.conf.d")
    (tmp_path / "etc/ld.so.conf.d/zz.conf").write_text(f"# {one}\n{other}\n{empty}\n")
    env = {"LD_LIBRARY_PATH": f"/usr/lib:{one}"}
    assert paths.compat_drivers(env, tmp_path) == (str(one), str(other))
    assert paths.compat_drivers({}, tmp_path / "nothing") == ()


def test_shadowing_folders_of_pythonpath(tmp_path: Path) -> None:
    folder(tmp_path / "src/sglang", "__init__.py")
    folder(tmp_path / "src", "torch.py", "mine.py")
    folder(tmp_path / "src/empty")
    env = {"PYTHONPATH": f"{tmp_path}/src:{tmp_path}/gone"}
    assert paths.shadowing(env, PREFIX) == {f"{tmp_path}/src": ("sglang", "torch")}
    assert paths.shadowing(env, None) == {}


def test_a_toolkit_on_path(tmp_path: Path) -> None:
    folder(tmp_path, "nvcc")
    (tmp_path / "nvcc").chmod(0o755)
    assert paths.has_toolkit({"PATH": str(tmp_path)})


def test_compile_folders_follow_their_variables() -> None:
    assert [str(each) for each in paths.compile_folders({"HOME": "/home/ann"})] == [
        "/home/ann/.cache/flashinfer", "/home/ann/.cache/torch_extensions",
    ]  # fmt: skip
    env = {"HOME": "/h", "FLASHINFER_WORKSPACE_BASE": "/s/cache", "TORCH_EXTENSIONS_DIR": "/s/te"}
    assert [str(each) for each in paths.compile_folders(env)] == ["/s/cache/.cache/flashinfer", "/s/te"]


def test_compiled_libraries_say_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path(sys.modules["msgspec._core"].__file__ or "")
    shutil.copyfile(real, folder(tmp_path / "a") / "x.so")
    (tmp_path / "a/text.so").write_text("no ELF")
    (tmp_path / "a/broken.so").write_bytes(b"\x7fELF" + b"\xff" * 60)
    found, more = paths.read_cached((tmp_path, tmp_path / "gone"))
    assert [Path(each.path).name for each in found] == ["x.so"]
    assert any(name.startswith("libc.so") for name in found[0].needed)
    assert not more
    monkeypatch.setattr(paths, "MOST_LIBRARIES", 2)
    assert paths.read_cached((tmp_path,))[1]


def test_locks_have_an_age(tmp_path: Path) -> None:
    lock = folder(tmp_path / "te/foo", "lock", "foo.so") / "lock"
    (found,) = paths.read_locks((tmp_path / "fi", tmp_path / "te"), now=lock.stat().st_mtime + 90.5)
    assert (found.path, found.age_s) == (str(lock), 90)
