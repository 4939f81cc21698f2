"""python-floor: the interpreter is one that every distribution says it runs on.

Installers refuse such a distribution; it gets in by copying, by an image built for another interpreter, by an upgrade
of the interpreter under an environment, or by ``--ignore-requires-python``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from orbit.audit.facts import Environment
from orbit.audit.known.policy import Policy
from orbit.audit.models.requirements import full_version, groups
from orbit.core.findings import Finding, Severity

ID = "python-floor"
TITLE = "every distribution supports the interpreter"
SHOWN = 8


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per bound that excludes the interpreter, with the distributions that state it."""
    for group in groups(env):
        if group.python is None:
            continue
        release = ".".join(str(number) for number in group.python)
        version = full_version(env, group.site, group.python)
        excluded: dict[str, list[str]] = defaultdict(list)
        for dist in group.dists:
            if dist.requires_python and not _allows(dist.requires_python, version, release):
                excluded[dist.requires_python].append(f"{dist.name} {dist.version}")
        for bound, names in sorted(excluded.items()):
            rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=", ".join(names[:SHOWN]) + rest,
                message=f"made for Python {bound}; this is Python {release}",
                evidence={"requires": bound, "interpreter": version},
                fix="install releases for this interpreter, or use another interpreter",
            )


def _allows(bound: str, version: str, release: str) -> bool:
    """Whether some patch release of the interpreter is allowed; a bound that cannot be read excludes nothing."""
    try:
        allowed = SpecifierSet(bound)
        return any(allowed.contains(candidate, prereleases=True) for candidate in (version, f"{release}.0"))
    except ValueError:  # no bound, or a number of thousands of digits
        return True
