"""fixed-address: no manifest names the address of one run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import WARNING, finding_at, who

ID = "fixed-address"
TITLE = "no manifest names the address of one run"
NAMES = ("RAY_ADDRESS", "MASTER_ADDR", "RAY_HEAD_IP", "HEAD_NODE_IP")
ADDRESS = re.compile(r"(?<![\d.])(?!127\.|0\.0\.0\.0)(\d{1,3}\.){3}\d{1,3}(?![\d.])")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Variables that say where the head is, by number."""
    for workload, pod, container in manifest.seats():
        if container.name != "batch" and manifest.form == "slurm":
            continue
        for env in container.env:
            if env.name in NAMES and env.value and ADDRESS.search(env.value):
                message = f"{env.name} is the address of one run: the next one waits for it, or joins another's cluster"
                fix = "name a Service, or take it from the scheduler when the job starts"
                name = who(workload, pod, container)
                yield finding_at(ID, WARNING, manifest, env.line, name, message, fix, value=env.value)
