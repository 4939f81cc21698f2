"""orbit.kernels.prebuilt.disassembler: the lock's own nvdisasm, once in the store."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.kernels.prebuilt import disassembler
from orbit.kernels.prebuilt.disassembler import locked_disassembler
from orbit.profile.lock import read_lock


def wheel(folder: Path, name: str) -> Path:
    path = folder / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "#!/bin/sh\necho listed\n")
    return path


def test_the_tool_is_unpacked_once_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, store = read_lock(checkout_root() / "uv.lock"), Store(tmp_path / "store")
    asked = []

    def obtain(source: object, *_args: object) -> Path:
        asked.append(source)
        return wheel(tmp_path, "nvidia/cu13/bin/nvdisasm")

    monkeypatch.setattr(disassembler, "obtain_wheel", obtain)
    tool = locked_disassembler(lock, store, Silent())
    assert tool.stat().st_mode & 0o111
    assert locked_disassembler(lock, store, Silent()) == tool
    assert len(asked) == 1


def test_a_wheel_without_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, store = read_lock(checkout_root() / "uv.lock"), Store(tmp_path / "store")
    monkeypatch.setattr(disassembler, "obtain_wheel", lambda *_: wheel(tmp_path, "bin/other"))
    with pytest.raises(InputError, match="no nvdisasm"):
        locked_disassembler(lock, store, Silent())
    assert not list((tmp_path / "store").glob("entries/tool/*"))
