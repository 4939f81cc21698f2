"""Detectors: pure functions from facts to what is wrong, by the name that the catalogue calls them by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping

from orbit.doctor.detect import gpus, libraries, loaded, packages, running
from orbit.doctor.detect.seen import Seen
from orbit.doctor.facts import Facts

type Detector = Callable[[Facts], Iterator[Seen]]

DETECTORS: Mapping[str, Detector] = {
    name: function
    for module in (packages, libraries, loaded, gpus, running)
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_")
}
"""Every public function of the modules beside this one."""
