"""Versions as libraries tell them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from orbit.core.paths import PACKAGE
from orbit.launch.fingerprint.spoken import of_cuda, of_number, versions

SOURCES = {
    "libnccl.so.2": "int ncclGetVersion(int *v) { *v = 22703; return 0; }",
    "libcudnn.so.9": "unsigned long cudnnGetVersion(void) { return 91002; }",
    "libcublasLt.so.13": "unsigned long cublasLtGetVersion(void) { return 130401; }",
    "libcudart.so.13": "int cudaRuntimeGetVersion(int *v) { *v = 13000; return 0; }",
}
ASK = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
from orbit.launch.fingerprint.spoken import read_maps, versions
kept = [ctypes.CDLL(path) for path in sys.argv[2:]]
print(json.dumps(versions(read_maps())))
"""


def build(folder: Path, name: str, source: str) -> Path:
    """A library of that name."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder.mkdir(exist_ok=True)
    (folder / "x.c").write_text(source)
    words = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(folder / "x.c")]
    subprocess.run(words, check=True)
    return folder / name


def told(*libraries: Path) -> str:
    words = [sys.executable, "-I", "-c", ASK, str(PACKAGE.parent), *map(str, libraries)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_what_is_loaded_tells_its_version_and_what_is_not_is_not_loaded_for_it(tmp_path: Path) -> None:
    paths = [build(tmp_path, name, source) for name, source in SOURCES.items()]
    assert told(*paths) == '{"cublaslt": "13.4.1", "cuda-runtime": "13.0", "cudnn": "9.10.2", "nccl": "2.27.3"}'
    assert told() == "{}"


def test_two_versions_of_one_library_are_both_told(tmp_path: Path) -> None:
    one = build(tmp_path / "a", "libnccl.so.2", SOURCES["libnccl.so.2"])
    other = build(tmp_path / "b", "libnccl.so.2", SOURCES["libnccl.so.2"].replace("22703", "22801"))
    assert told(one, other) == '{"nccl": "2.27.3 and 2.28.1"}'


def test_a_library_that_refuses_or_lacks_the_call_tells_nothing(tmp_path: Path) -> None:
    refuses = build(tmp_path / "a", "libnccl.so.2", "int ncclGetVersion(int *v) { (void)v; return 3; }")
    lacks = build(tmp_path / "b", "libcudnn.so.9", "int other(void) { return 0; }")
    assert told(refuses, lacks) == "{}"


def test_a_stub_that_is_called_alike_is_not_asked(tmp_path: Path) -> None:
    assert told(build(tmp_path, "libnccl-net.so", SOURCES["libnccl.so.2"])) == "{}"


def test_modules_tell_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(__version__="2.9.1+cu130", version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="2.55.1"))  # type: ignore[arg-type]
    assert versions("") == {"ray": "2.55.1", "torch": "2.9.1+cu130", "torch-cuda": "13.0"}


@pytest.mark.parametrize(
    ("value", "said"), [(22703, "2.27.3"), (91002, "9.10.2"), (130401, "13.4.1"), (0, ""), (-1, "")]
)
def test_numbers_are_versions(value: int, said: str) -> None:
    assert of_number(value) == said


@pytest.mark.parametrize(("value", "said"), [(13000, "13.0"), (12080, "12.8"), (0, "")])
def test_cuda_counts_in_another_way(value: int, said: str) -> None:
    assert of_cuda(value) == said
