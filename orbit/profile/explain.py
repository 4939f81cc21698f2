"""``orbit lock explain``: the pin table, and for one package who brings it and why it has that version."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from orbit.core.records import Record
from orbit.errors import InputError
from orbit.profile.lock import Lock, Package
from orbit.profile.model import Profile
from orbit.profile.policy import Policy

type Node = tuple[Package, str]
"""A package with one of its extras; ``""`` is the package itself."""


class Row(Record, frozen=True, kw_only=True):
    """One package of the pin table."""

    name: str
    version: str
    source: str
    """``index``, ``git 0123456789ab`` or ``checkout``."""
    made: str
    """``wheel``, or ``built`` when no published wheel is usable."""
    size_bytes: int
    """Of the wheel, or of the sdist when it is built."""
    held: str
    """How the version is held: ``override ==1``, ``stack ==1`` (an extra), ``group dev ==1``; empty: by nothing."""
    why: str


class Table(Record, frozen=True, kw_only=True):
    """The pin table of a profile."""

    schema: str = "orbit.lock-table/1"
    profile: str
    lock_sha256: str
    packages: int
    """How many the profile installs; the rows may be fewer."""
    download_bytes: int
    rows: tuple[Row, ...]


class Detail(Record, frozen=True, kw_only=True):
    """All that is known of one package."""

    row: Row
    installed: bool
    """Whether the profile installs it."""
    filename: str
    sha256: str
    url: str
    rules: tuple[str, ...]
    """What the policy says of it beyond the pin: source, CUDA release, families."""
    paths: tuple[tuple[str, ...], ...]
    """The shortest way from the project to each package that requires it; that package is the last but one entry."""


class Details(Record, frozen=True, kw_only=True):
    """Answer of ``orbit lock explain PACKAGE ...``."""

    schema: str = "orbit.lock-detail/1"
    profile: str
    lock_sha256: str
    packages: tuple[Detail, ...]


def pin_table(lock: Lock, policy: Policy, profile: Profile, *, everything: bool = False) -> Table:
    """Rows for what is declared, held or built, or for ``everything`` the profile installs."""
    installed = lock.closure(profile.extras)
    needed_by = dependents(lock, profile.extras)
    declared = {r.name for r in lock.root.requires if not r.group and r.extra in ("", *profile.extras)}
    shown = [p for p in installed if everything or p.built or p.name in declared or p.name in lock.overrides]
    return Table(
        profile=profile.name,
        lock_sha256=lock.sha256,
        packages=len(installed),
        download_bytes=sum(size_bytes(package) for package in installed),
        rows=tuple(make_row(lock, policy, package, needed_by) for package in shown),
    )


def explain_packages(lock: Lock, policy: Policy, profile: Profile, names: Sequence[str]) -> Details:
    """Everything about ``names``. Raises :class:`InputError` for a name the lock does not have, with near ones."""
    installed = {package.name for package in lock.closure(profile.extras)}
    needed_by = dependents(lock, profile.extras)
    details = []
    for name in names:
        package = lock.find(name)
        if package is None:
            raise unknown_package(lock, policy, name)
        artifact = package.wheel or package.sdist
        details.append(
            Detail(
                row=make_row(lock, policy, package, needed_by),
                installed=package.name in installed,
                filename=artifact.filename if artifact else "",
                sha256=artifact.sha256 if artifact else "",
                url=artifact.url if artifact else package.source.url,
                rules=policy_says(policy, profile, package.name),
                paths=paths_to(lock, profile.extras, package),
            )
        )
    return Details(profile=profile.name, lock_sha256=lock.sha256, packages=tuple(details))


def unknown_package(lock: Lock, policy: Policy, name: str) -> InputError:
    """The error for a name that is not locked: what the policy says of it, else names that look like it."""
    rule = policy.source(canonicalize_name(name))
    if rule is not None:
        where = " ".join(part for part in (rule.source, rule.url, rule.commit, rule.version) if part)
        return InputError(f"{name} is not in the lock ({rule.reason})", fix=f"allowed source: {where}")
    near = difflib.get_close_matches(name, [package.name for package in lock.packages], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`orbit lock explain --all` lists what is installed"
    return InputError(f"{name} is not in the lock", fix=hint)


def make_row(lock: Lock, policy: Policy, package: Package, needed_by: dict[str, tuple[str, ...]]) -> Row:
    """The pin table's row of one package; ``needed_by`` is the answer of :func:`dependents`."""
    pin = policy.pin(package.name)
    return Row(
        name=package.name,
        version=package.version,
        source=source_label(package),
        made="built" if package.built else "wheel",
        size_bytes=size_bytes(package),
        held=held_by(lock, package.name),
        why=pin.reason if pin else _why_unpinned(lock, package.name, needed_by),
    )


def source_label(package: Package) -> str:
    """Where it comes from, in a word or two."""
    match package.source.kind:
        case "registry":
            return "index"
        case "git":
            return f"git {package.source.commit[:12]}"
        case "editable" | "virtual" | "directory":
            return "checkout"
        case kind:
            return kind


def size_bytes(package: Package) -> int:
    """Download size of the file that is used."""
    artifact = package.wheel or package.sdist
    return artifact.size if artifact else 0


def held_by(lock: Lock, name: str) -> str:
    """How pyproject.toml holds the version; an override goes before a requirement."""
    if name in lock.overrides:
        return f"override {lock.overrides[name]}"
    for requirement in lock.root.requires:
        if requirement.name == name and requirement.specifier:
            where = requirement.extra or (f"group {requirement.group}" if requirement.group else "orbit")
            return f"{where} {requirement.specifier}"
    return ""


def policy_says(policy: Policy, profile: Profile, name: str) -> tuple[str, ...]:
    """The policy's other sentences about ``name``."""
    said = []
    if (rule := policy.source(name)) is not None:
        said.append(f"source: {rule.source} {rule.version}".rstrip() + f" ({rule.reason})")
    table = policy.release(profile.cuda)
    if table is not None and (component := table.component(name)) is not None:
        said.append(f"CUDA {table.release}: {component.version or 'any version'} ({component.reason})")
    said += [f"family {f.name}: {', '.join(f.members)} ({f.reason})" for f in policy.families if f.matches(name)]
    return tuple(said)


def paths_to(lock: Lock, extras: Sequence[str], package: Package) -> tuple[tuple[str, ...], ...]:
    """The shortest path from the project to each package that requires ``package``, ending in ``package``."""
    start: list[Node] = [(lock.root, extra) for extra in ("", *extras)]
    before: dict[tuple[str, str], tuple[str, ...]] = {_key(node): (_label(node),) for node in start}
    found: dict[str, tuple[str, ...]] = {}
    queue = list(start)
    for node in queue:
        path = before[_key(node)]
        for target, wanted in lock.targets(*node):
            if target.name == package.name:
                found.setdefault(node[0].name, (*path, target.name))
            for extra in wanted:
                step = (target, extra)
                if _key(step) not in before:
                    before[_key(step)] = (*path, _label(step))
                    queue.append(step)
    return tuple(sorted(found.values(), key=lambda path: (len(path), path)))


def _key(node: Node) -> tuple[str, str]:
    return node[0].name, node[1]


def _label(node: Node) -> str:
    return f"{node[0].name}[{node[1]}]" if node[1] else node[0].name


def dependents(lock: Lock, extras: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For every installed package, the names of those that require it directly."""
    found: dict[str, set[str]] = {}
    queue: list[Node] = [(lock.root, extra) for extra in ("", *extras)]
    seen = {_key(node) for node in queue}
    for package, extra in queue:
        for target, wanted in lock.targets(package, extra):
            found.setdefault(target.name, set()).add(package.name)
            fresh = [(target, part) for part in wanted if (target.name, part) not in seen]
            seen.update(_key(node) for node in fresh)
            queue.extend(fresh)
    return {name: tuple(sorted(names)) for name, names in found.items()}


def _why_unpinned(lock: Lock, name: str, needed_by: dict[str, tuple[str, ...]]) -> str:
    if any(r.name == name and not r.group for r in lock.root.requires):
        return "declared by the project"
    direct = needed_by.get(name, ())
    if not direct:
        return "not installed by this profile"
    more = f" and {len(direct) - 3} more" if len(direct) > 3 else ""
    return f"needed by {', '.join(direct[:3])}{more}"
