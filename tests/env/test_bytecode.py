"""orbit.env.bytecode: equal bytes wherever and in whatever company a file is compiled, and imports that use them."""

from __future__ import annotations

import importlib.util
import marshal
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.env.bytecode import Uncompiled, batches, compile_tree, compiled_path
from orbit.errors import CommandFailed

CONSTANTS = (
    b"def f(x):\n    return x in {'fp16', 'bf16'}\ndef g(x):\n    return x in {'fp16', 'bf16'}\nfrom os import *\n"
)


def make_prefix(prefix: Path, files: dict[str, bytes]) -> Path:
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python3.12").symlink_to(os.path.realpath(sys.executable))
    for name, data in files.items():
        path = prefix / "lib/python3.12" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return prefix


def pycs(prefix: Path) -> dict[str, bytes]:
    return {str(p.relative_to(prefix)): p.read_bytes() for p in sorted(prefix.rglob("*.pyc"))}


def test_two_folders_and_two_job_counts_give_equal_bytes(tmp_path: Path) -> None:
    files = {f"pkg{i}/m{j}.py": CONSTANTS + f"X{j} = 'name{i}'\n".encode() for i in range(6) for j in range(5)}
    first = make_prefix(tmp_path / "one", files)
    second = make_prefix(tmp_path / "a longer place" / "two", files)
    assert compile_tree(first, "/opt/orbit", jobs=1, progress=Silent()) == ()
    assert compile_tree(second, "/opt/orbit", jobs=3, progress=Silent()) == ()
    assert len(pycs(first)) == 30
    assert pycs(first) == pycs(second)


def test_only_the_folders_named_are_compiled_and_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    files = {f"{folder}/m{j}.py": CONSTANTS + b"X = 1\n" * j for folder in ("a", "a/b", "c") for j in range(3)}
    whole = make_prefix(tmp_path / "whole", files)
    compile_tree(whole, "/opt/orbit", progress=Silent())
    part = make_prefix(tmp_path / "part", files | {"top.py": b"X = 1\n"})
    stale = tmp_path / "stale"
    stale.write_bytes(b"of another environment")
    shared = part / compiled_path("lib/python3.12/a/m1.py")
    shared.parent.mkdir()
    os.link(stale, shared)
    assert compile_tree(part, "/opt/orbit", only=["a", "", "gone"], progress=Silent()) == ()
    made = pycs(part)
    assert sorted(made) == [compiled_path(f"lib/python3.12/{name}.py") for name in ("top", "a/m0", "a/m1", "a/m2")]
    assert all(data == pycs(whole).get(name, data) for name, data in made.items())
    assert stale.read_bytes() == b"of another environment"


def test_a_file_does_not_depend_on_other_folders(tmp_path: Path) -> None:
    alone = make_prefix(tmp_path / "alone", {"pkg/m.py": CONSTANTS})
    others = {f"aaa{i}/m.py": CONSTANTS + f"f.x = 'fp16', 'bf16', '*', {i}\n".encode() for i in range(20)}
    company = make_prefix(tmp_path / "company", {"pkg/m.py": CONSTANTS, **others})
    for prefix in (alone, company):
        compile_tree(prefix, "/opt/orbit", progress=Silent())
    name = "lib/python3.12/pkg/__pycache__/m.cpython-312.pyc"
    assert pycs(alone)[name] == pycs(company)[name]


def test_the_header_says_unchecked_hash_and_the_code_names_the_image(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path, {"pkg/m.py": b"X = 1\n"})
    compile_tree(prefix, "/opt/orbit", progress=Silent())
    data = (prefix / compiled_path("lib/python3.12/pkg/m.py")).read_bytes()
    assert data[:4] == importlib.util.MAGIC_NUMBER
    assert data[4:8] == b"\1\0\0\0"
    assert data[8:16] == importlib.util.source_hash(b"X = 1\n")
    assert marshal.loads(data[16:]).co_filename == "/opt/orbit/lib/python3.12/pkg/m.py"


def test_imports_use_the_compiled_file_without_looking_at_the_source(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path, {"m.py": b"X = 'compiled'\n"})
    compile_tree(prefix, "/opt/orbit", progress=Silent())
    (prefix / "lib/python3.12/m.py").write_bytes(b"X = 'edited'\n")
    program = f"import sys; sys.path.insert(0, {str(prefix / 'lib/python3.12')!r}); import m; print(m.X)"
    out = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout == "compiled\n"


def test_files_that_are_not_python_are_listed_and_not_fatal(tmp_path: Path) -> None:
    files = {
        "a/good.py": b"x = 1\n",
        "a/old.py": b"print 'two'\n",
        "b/latin.py": b"x = '\xe9'\n",
        "b/nul.py": b"x = 1\0\n",
        "c/deep.py": b"x = " + b"(" * 5000 + b"1" + b")" * 5000,
    }
    prefix = make_prefix(tmp_path, files)
    failed = compile_tree(prefix, "/opt/orbit", progress=Silent())
    assert [f.path.removeprefix("lib/python3.12/") for f in failed] == [
        "a/old.py",
        "b/latin.py",
        "b/nul.py",
        "c/deep.py",
    ]
    assert isinstance(failed[0], Uncompiled)
    assert failed[0].error.startswith("SyntaxError: Missing parentheses")
    assert not any(str(tmp_path) in f.error for f in failed)
    assert list(pycs(prefix)) == ["lib/python3.12/a/__pycache__/good.cpython-312.pyc"]


def test_a_folder_that_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path, {"pkg/m.py": b"x = 1\n"})
    (prefix / "lib/python3.12/pkg/__pycache__").write_text("a file in the way")
    with pytest.raises(CommandFailed) as caught:
        compile_tree(prefix, "/opt/orbit", progress=Silent())
    assert "lib/python3.12/pkg: File exists" in caught.value.tail


def test_batches_never_split_a_folder(tmp_path: Path) -> None:
    for name in ("a/1.py", "a/2.py", "a/3.py", "b/1.py", "b/__pycache__/x.py", "c/1.py", "c/readme"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    found = [[path.removeprefix(f"{tmp_path}/") for path in batch] for batch in batches(tmp_path, 2)]
    assert found == [["a/1.py", "a/2.py", "a/3.py"], ["b/1.py", "c/1.py"]]
