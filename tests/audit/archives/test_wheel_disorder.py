"""Wheels that contradict themselves, one kind of contradiction each, and sound ones that only look like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.archives.wheels import read_wheels
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from tests.writers.environment import record_digest
from tests.writers.wheels import Entry, write_wheel, zip_bytes

INFO = "demo-1.0.dist-info"


def disorders(path: Path) -> dict[str, tuple[str, ...]]:
    (dist,) = read_wheels([path], load_profile("probe"), Silent()).dists
    return {item.kind: item.names for item in dist.disorders}


def test_a_sound_wheel(tmp_path: Path) -> None:
    files = {"demo/__init__.py": b"", "demo/A.py": b"", "demo/sub/a.py": b"", "demo.py.txt": b""}
    assert disorders(write_wheel(tmp_path, "demo", files)) == {}


@pytest.mark.parametrize(
    ("extra", "kind", "names"),
    [
        ([Entry("demo/late.py", b"x")], "unlisted", ("demo/late.py",)),
        ([Entry("demo/a.py", b"y")], "duplicate", ("demo/a.py",)),
        ([Entry("demo/A.py", b"y")], "case", ("demo/A.py", "demo/a.py")),
        ([Entry("demo/a.py/b.py", b"y")], "collision", ("demo/a.py",)),
        ([Entry("demo-1.0.data/nowhere/x", b"y")], "scheme", ("demo-1.0.data/nowhere/x",)),
        ([Entry("other-2.dist-info/METADATA", b"y")], "dist-info", (INFO, "other-2.dist-info")),
        ([Entry("../x", b"y")], "unsafe", ("../x",)),
        ([Entry("demo/x", b"y", crc=1)], "damaged", ("demo/x",)),
    ],
)
def test_members(tmp_path: Path, extra: list[Entry], kind: str, names: tuple[str, ...]) -> None:
    assert disorders(write_wheel(tmp_path, "demo", {"demo/a.py": b"x"}, extra=extra))[kind] == names


def test_signatures_need_not_be_listed(tmp_path: Path) -> None:
    extra = [Entry(f"{INFO}/RECORD.jws", b"x"), Entry(f"{INFO}/RECORD.p7s", b"x")]
    assert disorders(write_wheel(tmp_path, "demo", {"demo/a.py": b"x"}, extra=extra)) == {}


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"metadata_name": "another"}, "name"),
        ({"metadata_version": "1.1"}, "version"),
        ({"tags": ("py3-none-linux_x86_64",), "file": "demo-1.0-py3-none-manylinux2014_x86_64.whl"}, "tags"),
        ({"file": "demo-1.1-py3-none-any.whl"}, "version"),
        ({"file": "another-1.0-py3-none-any.whl"}, "name"),
        ({"file": "demo.whl"}, "file-name"),
        ({"rows": ["demo/a.py,sha256=AAAA,1"]}, "two-rows"),
        ({"unlisted": ["demo/a.py"], "rows": ["demo/a.py,,"]}, "unhashed"),
    ],
)
def test_names_and_records(tmp_path: Path, parts: dict[str, object], kind: str) -> None:
    assert list(disorders(write_wheel(tmp_path, "demo", {"demo/a.py": b"x"}, **parts))) == [kind]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parts",
    [
        {"metadata_name": "Demo"},
        {"metadata_version": "1.0.0"},
        {"tags": ("py2.py3-none-any",), "file": "demo-1.0-py2.py3-none-any.whl"},
        {"tags": ("py3-none-any", "py2-none-any"), "file": "demo-1.0-py2.py3-none-any.whl"},
        {"file": "demo-1.0-2-py3-none-any.whl"},
    ],
)
def test_spellings_that_mean_the_same(tmp_path: Path, parts: dict[str, object]) -> None:
    assert disorders(write_wheel(tmp_path, "demo", {"demo/a.py": b"x"}, **parts)) == {}  # type: ignore[arg-type]


def test_an_archive_without_metadata(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(zip_bytes([Entry("demo/a.py", b"x")]))
    found = disorders(path)
    assert found["metadata"] == ("METADATA", "WHEEL", "RECORD")
    path.write_bytes(zip_bytes([]))
    assert disorders(path)["metadata"] == ("METADATA", "WHEEL", "RECORD")


def test_a_wheel_version_of_the_future(tmp_path: Path) -> None:
    text = b"Wheel-Version: 2.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    row = f"{INFO}/WHEEL,sha256={record_digest(text)},{len(text)}"
    path = write_wheel(
        tmp_path, "demo", {}, extra=[Entry(f"{INFO}/WHEEL", text)], unlisted=[f"{INFO}/WHEEL"], rows=[row]
    )
    assert disorders(path)["wheel-version"] == ("2.0",)
