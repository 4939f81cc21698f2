"""interpreter-link: the interpreter that an environment starts is there, is the right one, and is everybody's.

``bin/python`` of a virtual environment is a link to an interpreter elsewhere, and every script names one in its first
line. Copied into an image, or used by another user, both lead to a place that is not there or is closed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Environment, join
from orbit.audit.installed.tree import End, follow
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.access import counted, some
from orbit.audit.rules.integrity.dangling_link import is_interpreter
from orbit.audit.rules.integrity.data import artifacts
from orbit.core.findings import Finding, Severity

ID = "interpreter-link"
TITLE = "the interpreter that links and scripts name is there and is the right one"
VERSION = re.compile(r"/python(\d+)\.(\d+)[a-z]*$")
CONFIG = re.compile(rb"^version(?:_info)?\s*=\s*(\d+)\.(\d+)", re.MULTILINE)
EXEC = re.compile(rb"^#!\s*/bin/sh\s*\n'''exec'[ \t]+\"?(/[^\"'\n ]*)")
SHEBANG = re.compile(rb"^#!\s*(/[^\s\0]+)(?:[ \t]+(\S+))?")
SYSTEM = ("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/")


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per place that interpreter links lead to, one for the version, one per interpreter of scripts."""
    yield from _links(env)
    yield from _config(env)
    yield from _scripts(env, policy)


def _links(env: Environment) -> Iterator[Finding]:
    groups: dict[tuple[Severity, str, str], list[str]] = defaultdict(list)
    for path in env.tree.links:
        if is_interpreter(env, path) and "pypy" not in path:
            end = follow(env.tree, path)
            if problem := _problem(end):
                groups[*problem, end.path].append(path)
            if end.how != "missing" and (wrong := _other_version(env, path, end)):
                groups[Severity.ERROR, wrong, end.path].append(path)
    for (severity, message, place), paths in sorted(groups.items()):
        yield Finding(
            rule=ID,
            severity=severity,
            subject=env.in_site(min(paths)),
            message=message,
            evidence={"links": some(env, paths), "leads to": place},
            fix="orbit env create puts the interpreter inside; or make the environment anew where it is used",
        )


def _problem(end: End) -> tuple[Severity, str] | None:
    if end.how == "here":
        return None
    if end.how == "circle":
        return Severity.ERROR, "the interpreter is a link in a circle"
    if end.how == "missing":
        return Severity.ERROR, "the interpreter that it leads to is not there"
    if private := private_part(end.path):
        return (
            Severity.WARNING,
            f"the interpreter is borrowed from {private}: others may not enter it, an image lacks it",
        )
    return Severity.WARNING, "the interpreter is borrowed from outside the environment"


def private_part(path: str) -> str:
    """The user's or build machine's folder that an absolute path lies in, or empty."""
    for part in artifacts().hosts:
        at = path.find(part)
        if at == 0 or (at > 0 and part.startswith(("/.", "/mini", "/ana", "/mamba", "/micro", "/hosted"))):
            return path[: at + len(part) - 1]
    return ""


def _other_version(env: Environment, path: str, end: End) -> str:
    """How the version in a link's name or end differs from the one of site-packages, or empty."""
    own = env.layout.python
    for name in (f"/{end.path}", f"/{path}"):
        match = VERSION.search(name)
        if match and (int(match[1]), int(match[2])) != own:
            if name == f"/{path}" and end.how == "here":
                return ""  # a second interpreter beside the right one
            return f"leads to Python {match[1]}.{match[2]}, the packages are installed for {own[0]}.{own[1]}"
    return ""


def _config(env: Environment) -> Iterator[Finding]:
    """The version and the home that pyvenv.cfg states."""
    path = join(env.layout.home, "pyvenv.cfg")
    text = env.texts.get(path)
    if text is None:
        return
    match = CONFIG.search(text)
    own = env.layout.python
    if match and (int(match[1]), int(match[2])) != own:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=path,
            message=f"made by Python {int(match[1])}.{int(match[2])}, the packages are installed for {own[0]}.{own[1]}",
            fix="make the environment anew with one interpreter",
        )
    home = env.layout.base_interpreter
    if env.tree.rooted and home.startswith("/") and follow(env.tree, home).how != "here":
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=path,
            message="the interpreter that the virtual environment borrows is not in the image",
            evidence={"home": home},
            fix="copy the interpreter into the image at the same path, or make the environment inside the image",
        )


def interpreter_of(head: bytes) -> str:
    """The absolute path of the interpreter that a script's first line names; empty when it names none by path."""
    match = EXEC.match(head) or SHEBANG.match(head)
    return match[1].decode("utf-8", "surrogateescape") if match else ""


def _scripts(env: Environment, policy: Policy) -> Iterator[Finding]:
    if env.kind == "wheels":
        return  # installers write the first line
    folder = join(env.layout.home, "bin")
    groups: dict[tuple[Severity, str, str], list[str]] = defaultdict(list)
    for path, head in env.texts.items():
        named = interpreter_of(head) if path.rpartition("/")[0] == folder else ""
        if named and (problem := _script_problem(env, policy, named)):
            groups[*problem, named].append(path)
    for (severity, message, named), paths in sorted(groups.items()):
        yield Finding(
            rule=ID,
            severity=severity,
            subject=named,
            message=f"named by {counted(len(paths), 'script')} in {folder}: {message}",
            evidence={"scripts": some(env, paths)},
            fix="install the distributions anew at the final path, or start them with python -m",
        )


def _script_problem(env: Environment, policy: Policy, named: str) -> tuple[Severity, str] | None:
    if env.tree.rooted:
        end = follow(env.tree, named)
        return None if end.how == "here" else (Severity.ERROR, "it is not in the image (bad interpreter)")
    home = policy.profile.image.prefix
    for root in (*env.tree.roots, home):
        if named.startswith(f"{root}/"):
            end = follow(env.tree, named[len(root) :])
            # where it leads outside is the links' matter
            return (Severity.ERROR, "it is not there (bad interpreter)") if end.how in ("missing", "circle") else None
    if named.startswith(SYSTEM) or (env.layout.base_interpreter and named.startswith(env.layout.base_interpreter)):
        return None
    if not env.layout.site:
        return None  # a bare site-packages folder: its scripts lie elsewhere
    return Severity.ERROR, "it lies outside the environment, which was moved or copied: bad interpreter elsewhere"
