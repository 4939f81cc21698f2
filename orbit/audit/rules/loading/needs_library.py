"""needs-library: every library that a shared object needs comes from somewhere.

From the target, from the base image, or from the GPU driver of the host. Driver libraries are told apart because their
absence on a machine without a GPU is right. Optional plug-ins whose libraries are deliberately not shipped are declared
in the expectations ([[absent]]). Of wheels that are looked at alone only what none of their requirements can bring is
missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Environment
from orbit.audit.known.knowledge import libraries, matcher
from orbit.audit.known.policy import Absent, Policy, matches
from orbit.audit.known.vendor import Unshipped, unshipped
from orbit.audit.models.loader import loader_of
from orbit.core.findings import Finding, Severity

ID = "needs-library"
TITLE = "every needed library comes from somewhere"
SHOWN = 5


def missing(env: Environment, policy: Policy) -> dict[str, list[str]]:
    """Files (relative to site-packages) by the soname that nobody provides for them."""
    loader = loader_of(env, policy)
    found: dict[str, list[str]] = defaultdict(list)
    for item in env.objects:
        if item.machine == loader.machine:
            for soname, resolution in loader.needed(item):
                if resolution.how == "missing":
                    found[soname].append(env.in_site(item.path))
    return found


def declared(policy: Policy, name: str, soname: str, kind: str) -> Absent | Unshipped | None:
    """The [[absent]] entry, of the profile or of vendor.toml, that covers ``soname`` in the file ``name``, in a target
    of this ``kind``."""
    entries = policy.expectations.absent_in(kind)
    own = next((item for item in entries if matches(name, item.files) and matches(soname, item.sonames)), None)
    return own or unshipped(name, soname)


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per soname."""
    for soname, files in sorted(missing(env, policy).items()):
        open_files = sorted({name for name in files if declared(policy, name, soname, env.kind) is None})
        if open_files:
            yield _unrequired(soname, open_files) if env.kind == "wheels" else _missing(soname, open_files)


def _missing(soname: str, files: list[str]) -> Finding:
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=soname,
        message=f"needed by {len(files)} file{'s' if len(files) > 1 else ''}, provided by nothing: loading fails",
        evidence={"files": ", ".join(files[:SHOWN])},
        fix="add the distribution or the base image's package that has it (then list it in "
        "kernels/expectations/system.toml), or declare the files optional with [[absent]]",
    )


def _unrequired(soname: str, files: list[str]) -> Finding:
    """A wheel without a requirement that could bring it: a known library of another distribution is only a risk."""
    dist = next((item.dist for item in libraries().brought if matcher(item.sonames)(soname)), "")
    return Finding(
        rule=ID,
        severity=Severity.WARNING if dist else Severity.ERROR,
        subject=soname,
        message=f"needed by {len(files)} file{'s' if len(files) > 1 else ''}, and no requirement of the wheel brings it"
        + (f": {dist} has to be there already" if dist else ""),
        evidence={"files": ", ".join(files[:SHOWN])},
        fix=f"add {dist or 'what has it'} to the wheel's requirements, or put the library into it (auditwheel repair)",
    )
