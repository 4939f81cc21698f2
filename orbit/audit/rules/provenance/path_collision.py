"""path-collision: a package is found in one folder of the import path, not pieced together from several.

A checkout on PYTHONPATH or in a .pth file lies beside the installed copy. Of two regular packages the first on the path
is imported; a regular package anywhere hides every folder of its name without ``__init__.py``; and two such folders are
merged, so that a stray checkout replaces or adds subpackages of an installed namespace (``megatron`` is one).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from orbit.audit.facts import Environment, join
from orbit.audit.installed.import_path import roots
from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "path-collision"
TITLE = "no package is imported from two places at once"
KINDS = frozenset(("environment", "image"))
ORDINARY = frozenset((
    "bench", "benchmarks", "bin", "build", "ci", "cmake", "conf", "csrc", "dev", "dist", "doc", "docker", "docs", "etc",
    "example", "examples", "include", "lib", "libs", "misc", "notebooks", "scripts", "setup", "share", "src", "test",
    "tests", "tools", "tutorials", "utils", "version",
))  # fmt: skip
"""Names that many checkouts have at their top and nobody imports from there."""


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per pair of folders and kind of collision."""
    order = roots(env)
    if len(order) < 2:
        return
    children = _children(env, order)
    for position, first in enumerate(order):
        for second in order[position + 1 :]:
            yield from _compare(env, children, first, second)


def _children(env: Environment, order: list[str]) -> Mapping[str, set[str]]:
    """Names of what lies directly in each folder of the path, and in each of their folders."""
    found: dict[str, set[str]] = defaultdict(set)
    leads = {f"{root}/" if root else "" for root in order}
    for path in env.tree.entries:
        for lead in leads:
            if path.startswith(lead):
                parts = path[len(lead) :].split("/", 3)
                if len(parts) <= 3:
                    found[lead + "/".join(parts[:-1]) if len(parts) > 1 else lead.rstrip("/")].add(parts[-1])
    return found


def _compare(env: Environment, children: Mapping[str, set[str]], first: str, second: str) -> Iterator[Finding]:
    regular, hidden, merged = [], [], []
    for name in sorted(_packages(children, first) & _packages(children, second)):
        one, two = join(first, name), join(second, name)
        kinds = "__init__.py" in children[one], "__init__.py" in children[two]
        if all(kinds):
            regular.append(name)
        elif any(kinds):
            hidden.append(name)
        else:
            shared = _packages(children, one) & _packages(children, two)
            merged += [f"{name}.{part}" for part in sorted(shared)]
    pair = f"{first or '.'} + {second or '.'}"
    if regular:
        yield _finding(env, pair, f"the copy in {first or 'the root'} is imported, the other never", regular)
    if hidden:
        yield _finding(env, pair, "a regular package hides a folder of the same name without __init__.py", hidden)
    if merged:
        yield _finding(
            env, pair, f"two namespaces are merged, and {first or 'the root'} wins for what both have", merged
        )


def _packages(children: Mapping[str, set[str]], folder: str) -> set[str]:
    """Folders in ``folder`` that could be packages: they hold Python files or further folders of such names."""
    return {
        name
        for name in children.get(folder, ())
        if name.isidentifier()
        and name not in ORDINARY
        and name != "__pycache__"
        and (inner := children.get(join(folder, name)))
        and any(child.endswith(".py") or child.isidentifier() for child in inner)
    }


def _finding(env: Environment, pair: str, message: str, names: list[str]) -> Finding:
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return Finding(
        rule=ID,
        severity=Severity.WARNING,
        subject=env.in_site(pair),
        message=message,
        evidence={"packages": ", ".join(names[:8]) + rest},
        fix="keep one copy: uninstall the distribution, or take the folder off PYTHONPATH and out of the .pth file",
    )
