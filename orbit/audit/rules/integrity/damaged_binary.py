"""damaged-binary: every file that says it is an ELF file can be read as one, and something was there to read.

A truncated library is a finding, not a crash; an audit that saw no distribution or no shared object saw nothing and
must not pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.facts import Environment
from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "damaged-binary"
TITLE = "every ELF file can be read"


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per damaged file; one when there is nothing to audit."""
    for path, reason in sorted(env.damaged.items()):
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=env.in_site(path),
            message="not readable as a wheel: nothing in it was checked"
            if path.endswith(".whl")
            else "not readable as the ELF file it claims to be: its device code and symbols were not checked",
            evidence={"reason": reason, "distribution": env.owners.get(path, "")},
            fix="install its distribution again",
        )
    # a wheel of plain Python is a whole wheel; an environment without a shared object is not the one people mean
    objects = env.objects or env.kind == "wheels"
    for what, seen in (("installed distributions", env.dists), ("shared objects", objects)):
        if not seen:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=env.layout.site or ".",
                message=f"no {what} in it: there was nothing to audit",
                fix="give the folder of a complete environment",
            )
