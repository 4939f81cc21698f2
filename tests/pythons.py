"""Which CPython the tests run on."""

from __future__ import annotations

import pytest

from orbit.env import interpreter
from orbit.errors import MissingError


def require_copyable() -> None:
    """Skip where the running CPython cannot be copied into an environment: a distribution's, conda's, Nix's."""
    try:
        interpreter.check_source(interpreter.running(), interpreter.VERSION)
    except MissingError as error:
        pytest.skip(error.what)
