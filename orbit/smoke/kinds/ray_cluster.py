"""Whether Ray starts a local cluster here and runs a task and an actor in other processes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from orbit.smoke.model import CheckError, Context

OBJECT_STORE_BYTES = 80_000_000
"""Ray's minimum is 75 MiB; the smoke's /dev/shm holds it."""
NUMBERS = 1000


def check_ray(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Start a cluster of one node, pass an object through the object store, run a task and a stateful actor, stop.

    The folder has a short name because Ray puts sockets in it and a socket's path is limited to 107 bytes.
    """
    del parameters, context
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    try:
        ray.init(
            num_cpus=2,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=folder,
            logging_level="warning",
            log_to_driver=False,
        )
        facts = _use_cluster(ray)
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    return {"summary": f"ray {ray.__version__}: a task and an actor answered from other processes", **facts}


def _use_cluster(ray: Any) -> dict[str, Any]:
    @ray.remote  # type: ignore[untyped-decorator]
    def total(numbers: list[int]) -> tuple[int, int]:
        return sum(numbers), os.getpid()

    class Counter:
        def __init__(self) -> None:
            self.value = 0

        def add(self, amount: int) -> int:
            self.value += amount
            return self.value

    value, pid = ray.get(total.remote(ray.put(list(range(NUMBERS)))), timeout=90)
    if value != NUMBERS * (NUMBERS - 1) // 2:
        raise CheckError(f"a task summed 0..{NUMBERS - 1} to {value}")
    if pid == os.getpid():
        raise CheckError("the task ran in the driver's own process: no cluster was started")
    counter = ray.remote(Counter).remote()
    counts = ray.get([counter.add.remote(amount) for amount in (1, 2, 3)], timeout=90)
    if counts != [1, 3, 6]:
        raise CheckError(f"an actor that adds 1, 2, 3 in turn answered {counts}")
    return {"ray": str(ray.__version__)}
