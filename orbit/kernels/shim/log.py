"""The log of a build's compiler calls: one JSON line per call and per step inside it.

Kinds of lines, by ``kind``:

* ``compile``, ``link``: one call of nvcc: ``sources``, ``requested`` and ``effective`` architectures, ``defines``
  (macros in force, see :mod:`.macros`), ``status``, ``seconds``, ``cpu_s``, ``peak_bytes``, ``cache``.
* ``host``: one C++ unit compiled without nvcc: ``sources``, ``defines``, ``status``, ``seconds``, ``cpu_s``,
  ``peak_bytes``, ``cache``.
* ``probe``: a build script that tries out its compiler (``sources`` is no part of the package); fields as above.
* ``step``: one program inside a unit: ``step``, ``source``, ``arch``, ``seconds``, ``cpu_s``, ``peak_bytes``,
  ``status``, ``cache``, ``bytes``.
* ``cache``: the unit cache could not be read or written (``error``); the build went on without.
* lines with ``error`` and without ``kind``: a call that was refused.

``bytes`` is the size of the cache entry that was found or made, 0 without one: of the step, or of the whole object.
``cache`` is ``object`` (the whole result was there), ``step`` (every cacheable step was there), ``miss``, ``off`` (not
cacheable, or no cache) or ``placeholder`` (not this machine's part).
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config import Config


def append(config: Config, line: Mapping[str, object]) -> None:
    """Add one line, in one write: parallel compilers append without mixing."""
    handle = os.open(config["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, (json.dumps(line, sort_keys=True) + "\n").encode())
    finally:
        os.close(handle)
