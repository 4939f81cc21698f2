"""Compiled files: what in them differs."""

from __future__ import annotations

import importlib._bootstrap_external as external
import marshal
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.image.diff.bytecode import compare_bytecode, is_pyc

SOURCE = "def f(x):\n    return x + 1\n"


def pyc(source: str = SOURCE, *, name: str = "/a/b.py", time: int = 1, checked: bool | None = None) -> bytes:
    code = compile(source, name, "exec")
    if checked is not None:
        return bytes(external._code_to_hash_pyc(code, source.encode()[:8].ljust(8, b"_"), checked))
    return bytes(external._code_to_timestamp_pyc(code, time, len(source)))


def test_time_alone() -> None:
    causes, fields = compare_bytecode(pyc(), pyc(time=1_700_000_000))
    assert causes == ("pyc-time",)
    assert [(field.name, field.before, field.after) for field in fields] == [("source time", "1", "1700000000")]


def test_another_source() -> None:
    causes, fields = compare_bytecode(pyc(), pyc(SOURCE.replace("1", "22"), time=2))
    assert causes == ("pyc-time", "pyc-source", "bytecode")
    assert [field.name for field in fields] == ["source time", "source size"]


def test_hash_instead_of_time() -> None:
    causes, fields = compare_bytecode(pyc(), pyc(checked=False))
    assert causes == ("pyc-check",)
    assert [field.name for field in fields] == ["flags"]
    causes, fields = compare_bytecode(pyc(checked=False), pyc("y = 1\n", checked=False))
    assert causes == ("pyc-source", "bytecode")
    assert [field.name for field in fields] == ["source hash"]


def test_another_interpreter() -> None:
    other = struct.pack("<H", 3495) + pyc()[2:]
    causes, fields = compare_bytecode(pyc(), other)
    assert causes == ("interpreter",)
    assert fields[0].after == "3495"


@pytest.mark.parametrize("other", ["/c/d.py", "/elsewhere/much/longer/b.py"])
def test_the_folder_it_was_compiled_in(other: str) -> None:
    causes, _ = compare_bytecode(pyc(name="/a/b.py"), pyc(name=other.replace("d.py", "b.py")))
    assert causes == ("build-folder",)


def test_marks_of_references() -> None:
    """One object, written while somebody else held it and while nobody did."""
    alone, shared = b"\xa9\x01s\x03\0\0\0abc", b"\xa9\x01\xf3\x03\0\0\0abc"
    assert marshal.loads(alone) == marshal.loads(shared) == (b"abc",)
    assert compare_bytecode(pyc()[:16] + alone, pyc()[:16] + shared)[0] == ("pyc-refs",)
    assert compare_bytecode(pyc()[:16] + alone, pyc()[:16] + alone.replace(b"abc", b"abd"))[0] == ("bytecode",)


def test_what_can_be_one() -> None:
    assert is_pyc(pyc())
    assert not is_pyc(b"x" * 16)
    assert not is_pyc(pyc()[:15])


@given(st.binary(min_size=16), st.binary(min_size=16))
def test_any_bytes_have_a_cause_when_they_differ(left: bytes, right: bytes) -> None:
    causes, _ = compare_bytecode(left, right)
    assert bool(causes) is (left != right) or left[4:] == right[4:]


def test_fixture_is_what_the_interpreter_writes(tmp_path: Path) -> None:
    import py_compile

    (tmp_path / "b.py").write_text(SOURCE)
    made = py_compile.compile(str(tmp_path / "b.py"), doraise=True)
    assert Path(made).read_bytes()[:4] == pyc()[:4]
