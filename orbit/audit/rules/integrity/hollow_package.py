"""hollow-package: a package that still imports, or seems installed, but is empty inside.

When ``pkg/__init__.py`` disappears (a cleaned cache that links pointed into, a half-copied layer) while other files of
the package stay, Python makes a namespace package of what is left: the import works, every attribute is missing. The
same happens for a user who may not enter the folder that the file is in.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from orbit.audit.facts import Distribution, Environment, RecordRow, join
from orbit.audit.installed.tree import End, follow, resolve
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.access import Access, counted, outermost, some
from orbit.audit.rules.integrity.dangling_link import MESSAGES, Group, cause_of
from orbit.core.digests import record_digest
from orbit.core.findings import Finding, Severity

ID = "hollow-package"
TITLE = "no package is an empty namespace"
FIX = "install {name} again as real files, not as links"
INIT = "/__init__.py"
MODULE = (".py", ".so")
MAX_ZEROS = 1 << 22
"""Files up to this size are compared with zeros."""


@dataclass(slots=True)
class Lost:
    """Packages that share a cause with those of other distributions."""

    linked: dict[Group, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    """(distribution, package) by where their links lead."""
    closed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Packages by the folder that the user cannot enter."""


def is_gone(env: Environment, dist: Distribution) -> bool:
    """Whether nothing of a distribution but metadata and compiled files is left, although RECORD lists something."""
    lead = f"{dist.folder}/"
    entries = env.tree.entries
    seen = False
    for row in dist.rows:
        if row.path.startswith(lead) or row.path.endswith(".pyc"):
            continue
        if row.path in entries and row.path not in env.tree.links:
            return False
        if resolve(env.tree, row.path):
            return False
        seen = True
    return seen


def count_own(dist: Distribution) -> int:
    """Number of files in RECORD that are neither metadata nor compiled by an installer."""
    return sum(not row.path.startswith(f"{dist.folder}/") and not row.path.endswith(".pyc") for row in dist.rows)


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per distribution and way of being hollow, per closed folder, per leftover of a removed package."""
    access = Access(env, policy)
    lost = Lost()
    for dist in env.dists:
        if not is_gone(env, dist):
            yield from _hollow(env, dist, access, lost)
        elif cause := _cause_of_all(env, dist):
            lost.linked[cause].append((dist.name, f"{dist.name} (everything)"))
        else:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=dist.name,
                message=f"all {count_own(dist)} files are gone, only the metadata says it is installed",
                evidence={"folder": dist.folder},
                fix=FIX.format(name=dist.name),
            )
    yield from _linked(env, lost.linked)
    yield from _closed(env, access, lost.closed)
    yield from _eggs(env)
    yield from _leftovers(env)


def _hollow(env: Environment, dist: Distribution, access: Access, lost: Lost) -> Iterator[Finding]:
    """Packages of one distribution without a usable ``__init__.py``, and its single-file modules that are gone."""
    found: dict[str, list[str]] = defaultdict(list)
    depth = len(dist.site) + 1 if dist.site else 0
    for row in dist.rows:
        if row.path.endswith(INIT):
            package = row.path.removesuffix(INIT)
            if state := _state(env, dist, row, access, lost):
                found[state].append(package)
        elif row.path.endswith(MODULE) and "/" not in row.path[depth:] and resolve(env.tree, row.path) is None:
            found["gone"].append(row.path)
    for state, packages in found.items():
        outer = outermost(packages)
        many = len(outer) > 1
        if state == "gone":
            message = f"{counted(len(outer), 'module')} of it {'are' if many else 'is'} gone: importing it fails"
        else:
            message = f"{'their' if many else 'its'} __init__.py is {state}"
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=dist.name if many else env.in_site(outer[0]),
            message=message,
            evidence={
                "distribution": dist.name,
                "packages": some(env, outer),
                "with those in them": str(len(packages)) if len(packages) > len(outer) else "",
            },
            fix=FIX.format(name=dist.name),
        )


def _state(env: Environment, dist: Distribution, row: RecordRow, access: Access, lost: Lost) -> str:
    """What is wrong with an ``__init__.py``, in words; empty when nothing is, or when it went into ``lost``."""
    fact = env.tree.entries.get(row.path)
    path = row.path
    if fact is None or fact.is_link:
        end = follow(env.tree, row.path)
        if end.how != "here":
            if _is_missing(row.path, end):
                return "missing: it imports as an empty namespace package"
            lost.linked[cause_of(env, end)].append((dist.name, row.path.removesuffix(INIT)))
            return ""
        path = end.path
        fact = env.tree.entries[path]
    if not fact.is_file:
        return "not a regular file: it imports as an empty namespace package"
    if row.size > 0 and fact.size == 0:
        return f"empty, RECORD says {row.size} bytes: importing it gives a module without content"
    if row.size == fact.size and is_zeros(env.digests.get(row.path, ""), row):
        return "filled with zeros: importing it fails"
    package = row.path.removesuffix(INIT)
    blocked = access.closed(path.rpartition("/")[0])
    if blocked is not None and (path != row.path or f"{package}/".startswith(f"{blocked}/")):
        inside = blocked.startswith(f"{env.layout.site}/") or path != row.path
        if inside:
            lost.closed[blocked].append(package)
    return ""


def _is_missing(path: str, end: End) -> bool:
    """Whether a recorded path ends where nothing is, without a link on the way."""
    return end.how == "missing" and f"{path}/".startswith(f"{end.path}/")


def _cause_of_all(env: Environment, dist: Distribution) -> Group | None:
    """Where the files of a distribution of which nothing is left lead; None when they were deleted."""
    lead = f"{dist.folder}/"
    for row in dist.rows:
        if not row.path.startswith(lead) and not row.path.endswith(".pyc"):
            end = follow(env.tree, row.path)
            if end.how != "here" and not _is_missing(row.path, end):
                return cause_of(env, end)
    return None


def _linked(env: Environment, linked: dict[Group, list[tuple[str, str]]]) -> Iterator[Finding]:
    """One finding for all packages whose links lead to one place: a cleaned cache empties hundreds at once."""
    for (cause, place), found in sorted(linked.items()):
        dists = sorted({dist for dist, _package in found})
        packages = outermost(package for _dist, package in found)
        one = len(dists) == 1
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=(env.in_site(packages[0]).removesuffix(" (everything)") if one else env.in_site(place)),
            message=(
                f"{counted(len(packages), 'package')} of {counted(len(dists), 'distribution')}: links that lead "
                f"{MESSAGES[cause]}; importing gives an empty namespace, or nothing"
            ),
            evidence={
                "packages": some(env, packages),
                "distributions": ", ".join(dists[:5]) + (f" and {len(dists) - 5} more" if len(dists) > 5 else ""),
                "leads to": env.in_site(place),
            },
            fix=FIX.format(name=dists[0] if one else "them"),
        )


def is_zeros(digest: str, row: RecordRow) -> bool:
    """Whether a file of the recorded size has a digest that only zeros have."""
    if not digest or digest == row.digest or row.algorithm != "sha256" or not 0 < row.size <= MAX_ZEROS:
        return False
    zeros = hashlib.sha256(bytes(row.size)).digest()
    return digest == record_digest(zeros)


def _closed(env: Environment, access: Access, closed: dict[str, list[str]]) -> Iterator[Finding]:
    for folder, packages in sorted(closed.items()):
        outer = outermost(packages)
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=env.in_site(folder),
            message=(
                f"uid {access.uid} cannot enter it: for that user {counted(len(outer), 'package')} "
                f"{'imports' if len(outer) == 1 else 'import'} as empty namespaces"
            ),
            evidence={"packages": some(env, outer), "mode": f"{env.tree.entries[folder].mode & 0o7777:04o}"},
            fix="open the folder (chmod -R a+rX), or replace the links that lead there by the files themselves",
        )


def _eggs(env: Environment) -> Iterator[Finding]:
    """Old-style installations (``*.egg-info`` with top_level.txt) of which nothing is left."""
    tops: set[str] | None = None
    for path, text in sorted(env.texts.items()):
        folder, _, name = path.rpartition("/")
        if name != "top_level.txt" or not folder.endswith(".egg-info"):
            continue
        site = folder.rpartition("/")[0]
        if site not in env.layout.sites:
            continue
        names = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
        tops = _stems(env) if tops is None else tops
        if names and not any(join(site, module) in tops for module in names):
            project = folder.rpartition("/")[2].removesuffix(".egg-info").partition("-")[0]
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=project.replace("_", "-").lower(),
                message="its modules are gone, only the egg-info says it is installed",
                evidence={"modules": ", ".join(names[:5]), "folder": env.in_site(folder)},
                fix="install it again, or remove the egg-info",
            )


def _stems(env: Environment) -> set[str]:
    """Everything at the top of a site-packages folder that can be reached, without what follows the first dot."""
    found: set[str] = set()
    for path in env.tree.entries:
        folder, _, name = path.rpartition("/")
        if folder in env.layout.sites and resolve(env.tree, path) is not None:
            found.add(join(folder, name.partition(".")[0]))
    return found


def _leftovers(env: Environment) -> Iterator[Finding]:
    """Top-level folders of a removed package in which only compiled files are left."""
    compiled: dict[str, int] = defaultdict(int)
    owners = env.owners
    for path in env.tree.entries:
        if path.endswith(".pyc") and path not in owners and (top := _top(env, path)):
            compiled[top] += 1
    leads = tuple(f"{top}/" for top in compiled)
    # with an owner, RECORD says what is missing: judged above
    for path in owners if compiled else ():
        if path.startswith(leads):
            compiled.pop(_top(env, path), None)
    for path, fact in env.tree.entries.items() if compiled else ():
        if path.startswith(leads) and not (fact.is_folder or path.endswith(".pyc")):
            compiled.pop(_top(env, path), None)
    for top, count in sorted(compiled.items()):
        yield Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject=env.in_site(top),
            message=f"only {counted(count, 'compiled file')} left of it: it imports as an empty package",
            fix="remove the folder",
        )


def _top(env: Environment, path: str) -> str:
    """The folder directly in site-packages that a path lies in; empty when it lies in none."""
    inner = env.in_site(path)
    if inner is path and env.layout.site:
        return ""
    top, slash, _rest = inner.partition("/")
    return path[: len(path) - len(inner)] + top if slash and top != "__pycache__" else ""
