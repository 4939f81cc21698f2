"""Where the real environment of the integration tests is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "ORBIT_TEST_ENV"


def environment() -> Path:
    """The prefix named by ORBIT_TEST_ENV; skips the test when it is not set or not there."""
    value = os.environ.get(VARIABLE)
    if not value:
        pytest.skip(f"{VARIABLE} is not set to an installed environment of the cu130 lock")
    if not Path(value).is_dir():
        pytest.skip(f"{VARIABLE}={value}: no such folder")
    return Path(value)


def site_packages() -> Path:
    """Its site-packages folder."""
    found = sorted(environment().glob("lib/python3.*/site-packages"))
    if not found:
        pytest.skip(f"{VARIABLE}: no lib/python3.*/site-packages in it")
    return found[0]
