"""Whether what is installed is what the lock says: every distribution, both ways."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from orbit.smoke.model import CheckError, Context

SHOWN = 12
BUILT = "wheelhouse"
"""Origin of what Orbit compiled. Its own sources (orbit-probe) are no package of the lock; all others are."""


def check_versions(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Compare the installed distributions with the environment's own record, and with the caller's lock when given.

    ``ignore``: distributions that are in the image but not in the environment (orbit itself, its own layer).
    """
    ignore = {normal(name) for name in parameters.get("ignore", ())}
    record = Path(context.prefix or sys.prefix) / "share" / "orbit" / "environment.json"
    said = json.loads(record.read_text(encoding="utf-8"))
    recorded = {normal(dist["name"]): str(dist["version"]) for dist in said["distributions"]}
    own = {normal(dist["name"]) for dist in said["distributions"] if dist.get("origin") == BUILT}
    skipped = {normal(item["what"].split()[0]) for item in said.get("skipped", ())}
    site = [path for path in sys.path if path.endswith("site-packages")]
    found = [(normal(dist.metadata["Name"]), dist.version) for dist in metadata.distributions(path=site)]
    problems = [*differences(found, recorded, ignore)]
    if context.lock:
        problems.extend(off_lock(recorded, context.lock, ignore | (own - set(context.lock)), skipped))
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise CheckError("; ".join(problems[:SHOWN]) + more)
    against = "environment.json and the lock" if context.lock else "environment.json"
    return {"summary": f"{len(recorded)} distributions equal {against}", "distributions": len(recorded)}


def differences(found: Iterable[tuple[str, str]], recorded: Mapping[str, str], ignore: set[str]) -> list[str]:
    """Installed against recorded: missing, unexpected, another version, and one name installed twice."""
    pairs = [pair for pair in found if pair[0] not in ignore]
    installed = dict(pairs)
    problems = [
        f"{name}: installed twice" for name, count in sorted(Counter(pair[0] for pair in pairs).items()) if count > 1
    ]
    if not recorded:
        problems.append("environment.json names no distribution")
    for name, version in sorted(recorded.items()):
        if name in ignore:
            continue
        if name not in installed:
            problems.append(f"{name}: {version} is recorded, nothing is installed")
        elif installed[name] != version:
            problems.append(f"{name}: {version} is recorded, {installed[name]} is installed")
    problems.extend(
        f"{name}: {version} is installed, but not recorded" for name, version in pairs if name not in recorded
    )
    return problems


def off_lock(
    recorded: Mapping[str, str], lock: Mapping[str, tuple[str, ...]], ignore: set[str], skipped: set[str]
) -> list[str]:
    """Recorded distributions whose version the lock does not have, and locked ones that are not there.

    ``skipped``: what the environment says it lacks, with its reason in its own record (kernels that were not built).
    """
    problems = [
        f"{name}: {version} is installed, the lock has {' or '.join(lock.get(name, ())) or 'no such package'}"
        for name, version in sorted(recorded.items())
        if name not in ignore and version not in lock.get(name, ())
    ]
    missing = sorted(set(lock) - set(recorded) - ignore - skipped)
    return problems + [f"{name}: {' or '.join(lock[name])} is locked, nothing is installed" for name in missing]


def normal(name: str) -> str:
    """A distribution name in its one comparable spelling (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
