"""Every command of `orbit kernels` is tried on an empty store."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.kernels import plan as plans


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of its own, and a plan that does not depend on this machine's compiler."""
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")
    return tmp_path / "store"
