"""foreign-extension: every extension module can be imported by the interpreter of the environment.

``name.cpython-310-x86_64-linux-gnu.so`` is invisible to any interpreter but CPython 3.10, whatever its wheel's tag
promises; so are the modules of debug (``312d``) and free-threaded (``313t``) builds and of PyPy to an ordinary CPython.
A file for another machine is seen and cannot be loaded. A file with the right tag beside it makes it a harmless extra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.audit.facts import Environment, SharedObject
from orbit.audit.known.policy import Policy
from orbit.audit.models.loader import native_machine
from orbit.core.findings import Finding, Severity

ID = "foreign-extension"
TITLE = "every extension module can be imported by the interpreter"
TAGGED = re.compile(
    r"^(?P<stem>.+?)\.(?P<abi>(?:cpython-\d+[a-z]*|pypy\d+-pp\d+|graalpy[\w-]*?)(?:-(?P<platform>[\w-]+))?)\.so$"
)
"""A module's file name with an interpreter in it (PEP 3149)."""
STABLE = re.compile(r"^(?P<stem>.+?)\.abi3\.so$")
ABI3_TAG = re.compile(r"^cp3(\d+)-abi3-")
PLATFORMS = {
    62: "x86_64-linux-gnu",
    183: "aarch64-linux-gnu",
    3: "i386-linux-gnu",
    40: "arm-linux-gnueabihf",
    21: "powerpc64le-linux-gnu",
    22: "s390x-linux-gnu",
    243: "riscv64-linux-gnu",
}
"""Platform part of the extension suffix by ``e_machine``."""


def is_importable(name: str, python: tuple[int, int], platform: str) -> bool:
    """Whether an ordinary CPython of that version on that platform looks for a file of this tagged name."""
    own = f"cpython-{python[0]}{python[1]}"
    match = TAGGED.match(name)
    return match is not None and match["abi"] in (own, f"{own}-{platform}")


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per extension module that the interpreter cannot import."""
    machine = native_machine(env)
    platform = PLATFORMS.get(machine, "")
    native = {item.path for item in env.objects if item.machine == machine}
    for item in env.objects:
        name = item.path.rpartition("/")[2]
        match = TAGGED.match(name) or STABLE.match(name)
        if match is None or _has_twin(env, item.path, match["stem"], platform, native):
            continue
        if match.re is TAGGED and not is_importable(name, env.layout.python, platform):
            yield _finding(env, item, f"made for {match['abi']}{_what(match['abi'])}", f"{_own(env)}-{platform}")
        elif item.machine != machine:
            yield _finding(env, item, f"a file for another machine (e_machine {item.machine})", f"e_machine {machine}")
    yield from _stable_abi(env, env.layout.python[1])


def _own(env: Environment) -> str:
    return "cpython-{}{}".format(*env.layout.python)


def _has_twin(env: Environment, path: str, stem: str, platform: str, native: set[str]) -> bool:
    """Whether a native file that the interpreter finds under the same module name lies beside it."""
    folder, _, _name = path.rpartition("/")
    lead = f"{folder}/" if folder else ""
    own = _own(env)
    names = (f"{stem}.{own}-{platform}.so", f"{stem}.{own}.so", f"{stem}.abi3.so", f"{stem}.so")
    return any(f"{lead}{name}" in native for name in names if f"{lead}{name}" != path)


def _what(abi: str) -> str:
    """What people call such a build."""
    if abi.startswith("cpython-"):
        flags = abi.split("-")[1].lstrip("0123456789")
        words = [word for flag, word in (("d", "a debug build"), ("t", "a free-threaded build")) if flag in flags]
        return f" ({' and '.join(words)})" if words else ""
    return f" ({'PyPy' if abi.startswith('pypy') else 'GraalPy'})"


def _finding(env: Environment, item: SharedObject, what: str, expected: str) -> Finding:
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=env.in_site(item.path),
        message=f"{what}: Python {'{}.{}'.format(*env.layout.python)} of this environment cannot import it",
        evidence={"expected": expected, "distribution": env.owners.get(item.path, "")},
        fix="use a wheel built for this interpreter, or waive it when nothing imports the module",
    )


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
