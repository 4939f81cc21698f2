"""network-interface: no manifest names the network interface of a node, or switches a transport off."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from orbit.audit.models.settings import load_settings
from orbit.core.findings import Finding, Severity
from orbit.launch.lint.facts import Env, Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, NOTE, WARNING, finding_at, who

ID = "network-interface"
TITLE = "no manifest names a node's network interface or switches off a transport"
FIX = "remove it: the launcher derives it on each node from the route to the head"
OFF = frozenset(("1", "true", "yes", "on", "y"))


@functools.cache
def _group(member: str) -> frozenset[str]:
    """The variables that are listed with ``member`` in kernels/expectations/settings.toml."""
    return frozenset(name for item in load_settings().baked if member in item.names for name in item.names)


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """One finding per variable and file."""
    seen: set[tuple[str, str]] = set()
    for workload, pod, container in manifest.seats():
        for env in container.env:
            found = _judged(env)
            if found is None or (env.name, env.value or "") in seen:
                continue
            seen.add((env.name, env.value or ""))
            severity, message = found
            name = who(workload, pod, container)
            yield finding_at(
                ID, severity, manifest, env.line, name, f"{env.name} {message}", FIX, value=env.value or ""
            )


def _judged(env: Env) -> tuple[Severity, str] | None:
    value = (env.value or "").strip()
    if not value or "$" in value:
        return None
    if env.name in _group("NCCL_SOCKET_IFNAME"):
        if value == "lo":
            return ERROR, "names the loopback: no other node can be reached"
        if value.startswith("^"):
            return NOTE, "lists interfaces to leave out: the next node has others, and one without a route is chosen"
        return WARNING, "names a network interface: a node that calls it otherwise hangs or finds none"
    if env.name in _group("NCCL_P2P_DISABLE") and value.lower() in OFF:
        return WARNING, "switches off a transport on every node: collectives work and are many times slower"
    return None
