"""The C sources of orbit-kernels against what the Python side binds, and the recipe that joins them. Needs no torch."""

from __future__ import annotations

import ast
import ctypes
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from orbit.kernels.recipe import load_recipe
from tests.source import ROOT

SOURCE = ROOT / "kernels" / "src" / "orbit_kernels"
DECLARED = re.compile(r"ORBIT_API\s+(int32_t|const char \*)\s*(\w+)\(([^)]*)\)", re.DOTALL)
BASE = {"orbit_kernels_abi", "orbit_kernels_error"}
"""Bound by hand in _library.py, because the error text of the others comes from them."""


@pytest.fixture
def package() -> ModuleType:
    """The package from the source tree."""
    return importlib.import_module("orbit_kernels")


def c_functions() -> dict[str, str]:
    """Exported name -> text of its parameters, of every CUDA source."""
    found: dict[str, str] = {}
    for path in sorted((SOURCE / "csrc").glob("*.cu")):
        text = path.read_text()
        here = DECLARED.findall(text)
        assert len(here) == text.count("ORBIT_API"), f"{path.name}: an export that this test cannot read"
        for _result, name, parameters in here:
            assert name not in found, f"{name}: exported twice"
            found[name] = " ".join(parameters.split())
    return found


def word_of(parameter: str) -> str:
    """What _library.py calls the type of a C parameter."""
    kind = parameter.strip().removeprefix("const ")
    if kind.startswith("int32_t *"):
        return "INT32_POINTER"
    if "*" in kind or kind.startswith("cudaStream_t"):
        return "POINTER"
    return {"int32_t": "INT32", "int64_t": "INT64", "float": "FLOAT"}[kind.split()[0]]


def python_declarations() -> dict[str, list[str]]:
    """Declared name -> words of its argument types, read from the modules as text: nothing is imported."""
    found = {}
    for path in sorted((SOURCE / "orbit_kernels").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("declare"):
                name, *arguments = node.args
                assert isinstance(name, ast.Constant)
                found[str(name.value)] = [ast.unparse(each).removeprefix("_library.") for each in arguments]
    return found


def test_python_binds_what_the_sources_export() -> None:
    exported, declared = c_functions(), python_declarations()
    assert set(exported) == set(declared) | BASE
    words = {name: [word_of(each) for each in text.split(",")] for name, text in exported.items() if name not in BASE}
    assert words == declared


def test_the_abi_number_is_one_number(package: ModuleType) -> None:
    text = (SOURCE / "csrc" / "library.cu").read_text()
    found = re.search(r"orbit_kernels_abi\(\) \{ return (\d+); \}", text)
    assert found is not None
    assert int(found[1]) == package._library.ABI


def test_python_counts_segments_like_the_forward_kernel() -> None:
    text = (SOURCE / "csrc" / "token_logprob.cu").read_text()
    threads, vectors = (
        int(re.findall(rf"#define ORBIT_LOGPROB_{word} (\d+)", text)[0]) for word in ("THREADS", "VECTORS")
    )
    python = (SOURCE / "orbit_kernels" / "_logprob_ops.py").read_text()
    assert f"\nSEGMENT_BYTES = {threads} * {vectors} * 16\n" in python
    assert "kVectorBytes = 16;" in text


def test_the_recipe_builds_every_source() -> None:
    recipe = load_recipe("orbit-kernels")
    assert recipe.shared_object is not None
    assert sorted(recipe.shared_object.sources) == sorted(
        str(path.relative_to(SOURCE)) for path in (SOURCE / "csrc").glob("*.cu")
    )
    assert recipe.device_units == len(recipe.shared_object.sources)
    assert recipe.source.folder == SOURCE.name
    assert (SOURCE / recipe.shared_object.package / "__init__.py").is_file()


def test_a_function_that_fails_says_so(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    library = package._library
    function = library.Function("orbit_nothing", (ctypes.c_int32,))
    monkeypatch.setattr(library, "_bound", lambda _function: lambda status: status)
    monkeypatch.setattr(library, "_error", lambda status: f"text of {status}")
    assert function(0) is None
    with pytest.raises(package.KernelError, match=r"orbit_nothing: text of -2 \(status -2\)"):
        function(-2)


def test_without_the_library_the_error_says_what_to_do(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = package._library
    library.library.cache_clear()
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "liborbit_kernels.so")
    with pytest.raises(package.KernelError, match="orbit kernels build"):
        library.library()


def test_importing_the_package_imports_no_torch(package: ModuleType) -> None:
    text = (SOURCE / "orbit_kernels" / "__init__.py").read_text() + (
        SOURCE / "orbit_kernels" / "_library.py"
    ).read_text()
    top = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in top if "torch" in ast.unparse(node)] == []
    assert "torch" not in vars(sys.modules["orbit_kernels._library"])
    assert set(package.__all__) <= set(dir(package))


def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing
