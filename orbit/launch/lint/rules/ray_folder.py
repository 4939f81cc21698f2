"""ray-folder: Ray's folder is short enough for sockets and on a disk of the node."""

from __future__ import annotations

import os
from collections.abc import Iterator

from orbit.audit.models.settings import load_settings
from orbit.core.findings import Finding
from orbit.core.paths import SOCKET_PATH_BYTES
from orbit.env.activate import SOCKETS_BYTES
from orbit.launch.lint.facts import Manifest, Word, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, WARNING, finding_at, who
from orbit.launch.lint.programs import programs, script_programs

ID = "ray-folder"
TITLE = "Ray's folder is short enough for its sockets and on a disk of the node"
OWN_BYTES = 64
"""What Ray appends to --temp-dir itself: ``/session_<26>_<7>/sockets/plasma_store`` (Ray 2.55)."""


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """``temp-dir`` and ``RAY_TMPDIR``."""
    for workload in manifest.workloads:
        seen: set[tuple[str, int]] = set()
        for word, room in _folders(workload):
            if (word.text, word.line) in seen or not word.text.startswith("/"):
                continue
            seen.add((word.text, word.line))
            length = len(os.fsencode(word.text.rstrip("/")))
            if length > room and "$" not in word.text:
                message = (
                    f"{length} bytes: a socket's path below it gets longer than {SOCKET_PATH_BYTES}, Ray does not start"
                )
                fix = f"a folder of at most {room} bytes"
                yield finding_at(ID, ERROR, manifest, word.line, who(workload), message, fix, folder=word.text)
            elif word.text.startswith(load_settings().network):
                message = "is on what looks like a network file system: sockets and spilled objects belong on the node"
                fix = "a folder on a disk of the node"
                yield finding_at(ID, WARNING, manifest, word.line, who(workload), message, fix, folder=word.text)


def _folders(workload: Workload) -> Iterator[tuple[Word, int]]:
    found = list(script_programs(workload.script))
    for pod in workload.pods:
        if "temp-dir" in pod.params:
            yield pod.params["temp-dir"], SOCKET_PATH_BYTES - OWN_BYTES
        for container in pod.containers:
            found += programs(container)
            for name in ("RAY_TMPDIR", "RAY_TEMP_DIR"):
                env = container.variable(name)
                if env is not None and env.value:
                    yield Word(env.value, env.line), SOCKETS_BYTES
    for program in found:
        if program.kind == "ray start" and "temp-dir" in program.flags:
            yield program.flags["temp-dir"], SOCKET_PATH_BYTES - OWN_BYTES
