"""foreign-extension: every extension module can be imported by the interpreter of the environment.

``name.cpython-310-x86_64-linux-gnu.so`` is invisible to any interpreter but CPython 3.10, whatever its wheel's tag
promises. A file with the right tag beside it makes it a harmless extra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.audit.facts import Environment
from orbit.audit.loader import native_machine
from orbit.audit.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "foreign-extension"
TITLE = "every extension module can be imported by the interpreter"
TAGGED = re.compile(r"^(?P<stem>.+)\.(?P<abi>(?:cpython-\d+[a-z]*|pypy\d+-pp\d+)(?:-(?P<platform>[\w-]+))?)\.so$")
ABI3_TAG = re.compile(r"^cp3(\d+)-abi3-")
PLATFORMS = {62: "x86_64-linux-gnu", 183: "aarch64-linux-gnu"}
"""Platform part of the extension suffix by ``e_machine``."""


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per extension module that the interpreter cannot import."""
    major, minor = env.layout.python
    own = f"cpython-{major}{minor}"
    platform = PLATFORMS.get(native_machine(env), "")
    names = {item.path for item in env.objects}
    for item in env.objects:
        folder, _, name = item.path.rpartition("/")
        match = TAGGED.match(name)
        if match is None or (match["abi"].startswith(own) and match["abi"] in (own, f"{own}-{platform}")):
            continue
        lead = f"{folder}/" if folder else ""
        right = (f"{lead}{match['stem']}.{own}-{platform}.so", f"{lead}{match['stem']}.abi3.so")
        if not any(path in names for path in right):
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=env.in_site(item.path),
                message=f"made for {match['abi']}: Python {major}.{minor} of this environment cannot import it",
                evidence={"expected": f"{own}-{platform}", "distribution": env.owners.get(item.path, "")},
                fix="use a wheel built for this interpreter, or waive it when nothing imports the module",
            )
    yield from _stable_abi(env, minor)


def _stable_abi(env: Environment, minor: int) -> Iterator[Finding]:
    """Wheels of the stable ABI whose floor is above the interpreter."""
    for dist in env.dists:
        floors = [int(match[1]) for tag in dist.tags if (match := ABI3_TAG.match(tag))]
        if floors and min(floors) > minor:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=dist.name,
                message=f"its wheel asks for Python 3.{min(floors)} or newer, this environment has 3.{minor}",
                evidence={"tags": " ".join(dist.tags)},
                fix="lock a release with a wheel for this interpreter",
            )
