"""ray_cluster with a stand-in: what would be no proof does not pass."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from orbit.smoke.kinds.ray_cluster import check_ray
from orbit.smoke.model import CheckError, Context


class InlineRay(ModuleType):
    """A "cluster" that runs everything in the caller's own process."""

    __version__ = "0"

    def __init__(self, wrong: int = 0) -> None:
        super().__init__("ray")
        self.wrong = wrong
        self.stopped = False

    def init(self, **_options: Any) -> None:
        """Start nothing."""

    def shutdown(self) -> None:
        """Remember it."""
        self.stopped = True

    def remote(self, thing: Any) -> Any:
        """``thing.remote(...)`` calls it here."""
        return SimpleNamespace(remote=thing)

    def put(self, value: Any) -> Any:
        """The value itself."""
        return value

    def get(self, value: Any, timeout: float) -> Any:
        """The value itself, the sum off by ``wrong``."""
        return (value[0] + self.wrong, value[1]) if isinstance(value, tuple) else value


@pytest.mark.parametrize(("wrong", "says"), [(0, "no cluster was started"), (1, "summed 0")])
def test_work_in_the_drivers_own_process_is_no_cluster(monkeypatch: pytest.MonkeyPatch, wrong: int, says: str) -> None:
    ray = InlineRay(wrong)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(CheckError, match=says):
        check_ray({}, Context())
    assert ray.stopped
