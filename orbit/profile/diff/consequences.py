"""Consequences that data alone cannot tell: each function looks at both sides and says what follows, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from orbit.core.amounts import format_bytes
from orbit.profile.diff.records import Change
from orbit.profile.diff.rules import Rules
from orbit.profile.diff.view import GapFact, RecipeFact, View, bytes_of, is_binary, size, version
from orbit.profile.lock import Package

SHOWN = 12
COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-nvvm", "nvidia-cuda-crt")


@dataclass(frozen=True, slots=True)
class Compared:
    """All that the functions look at."""

    a: View
    b: View
    rules: Rules
    changes: tuple[Change, ...]

    def named(self, keep: Callable[[Change], bool]) -> tuple[str, ...]:
        """Names of the changes that ``keep`` takes."""
        return tuple(change.name for change in self.changes if keep(change))


@dataclass(frozen=True, slots=True)
class Follows:
    """What one function found; nothing follows when there is neither line nor package."""

    lines: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


def targets(seen: Compared) -> Follows:
    """Targets that are gone, new, or compiled for otherwise."""
    old, new = seen.a.targets, seen.b.targets
    lines = [f"{name} ({old[name].capability}) is no target any more" for name in old if name not in new]
    lines += [f"{name} ({new[name].capability}) is a target now" for name in new if name not in old]
    lines += [
        f"{name}: compiled for {old[name].feature} -> {new[name].feature}"
        for name in old
        if name in new and old[name].feature != new[name].feature
    ]
    return Follows(tuple(lines))


def coverage(seen: Compared) -> Follows:
    """Gaps that only the second side declares: libraries without machine code for a target that had it before."""
    both = [name for name in seen.b.targets if name in seen.a.targets]
    old, new = _gaps(seen.a.gaps, both), _gaps(seen.b.gaps, seen.b.targets)
    lost = [(target, file, gap) for (file, target), gap in new.items() if (file, target) not in old]
    lines = [f"{target}: {file}: {gap.result} ({gap.reason})" for target, file, gap in lost]
    return Follows(tuple(sorted(lines)))


def coverage_gained(seen: Compared) -> Follows:
    """Gaps that only the first side declares, of targets that the second has."""
    old, new = _gaps(seen.a.gaps, seen.b.targets), _gaps(seen.b.gaps, seen.b.targets)
    closed = [(file, target) for file, target in old if (file, target) not in new]
    return Follows(tuple(sorted(f"{target}: {file}" for file, target in closed)))


def driver(seen: Compared) -> Follows:
    """Another CUDA runtime, and what that asks of the host."""
    old, new = seen.a.cuda, seen.b.cuda
    packages = seen.named(lambda change: change.name.startswith("nvidia-cuda-runtime"))
    if old == new and not packages:
        return Follows()
    lines = [f"CUDA {old or 'none'} -> {new or 'none'}"] if old != new else [f"another patch release of CUDA {new}"]
    before, after = seen.rules.driver(old), seen.rules.driver(new)
    if old != new and before and after:
        lines.append(f"oldest driver that runs its machine code: {before.minimum} -> {after.minimum}")
        lines.append(f"driver of the release, for PTX and what is new in it: {before.own} -> {after.own}")
    elif old != new and new:
        lines.append("env/lock-diff.toml does not say which driver it needs: add a [[drivers]] entry")
    return Follows(tuple(lines), packages)


def compiler(seen: Compared) -> Follows:
    """nvcc from elsewhere; another release of it from the same place is only another build environment."""
    words = {"lock": "wheels of the lock", "host": "a toolkit of the host (ORBIT_CUDA_TOOLKIT), not in the image"}
    old, new = seen.a.profile.toolkit, seen.b.profile.toolkit
    if old == new:
        return Follows()
    lines = (f"nvcc comes from {words[old]} -> {words[new]}",)
    return Follows(lines, seen.named(lambda change: change.name in COMPILER or change.was in COMPILER))


def namespaces(seen: Compared) -> Follows:
    """CUDA libraries that have another name now."""
    renamed = [change for change in seen.changes if change.kind == "renamed" and "nvidia-" in change.name]
    return Follows((), tuple(change.name for change in renamed))


def torch_abi(seen: Compared) -> Follows:
    """Another torch, and the wheels with machine code that say they need torch."""
    old, new = (version(view.packages.get("torch", ())) for view in (seen.a, seen.b))
    if old.partition("+")[0] == new.partition("+")[0]:
        return Follows()
    bound = {name for view in (seen.a, seen.b) for name in _bound_to(view, "torch")}
    settled = {change.name for change in seen.changes} | {r.dist for r in seen.b.recipes if r.mode == "source"}
    unmoved = sorted(bound & seen.b.installed.keys() - settled)
    lines = [f"torch {old or 'none'} -> {new or 'none'}"]
    if unmoved:
        lines.append(f"the same as before, with machine code and a need for torch: {_listed(unmoved)}")
    return Follows(tuple(lines), ("torch", *seen.named(lambda change: change.name in bound)))


def recompile(seen: Compared) -> Follows:
    """Recipes of the second side whose source, build environment or targets are others."""
    old = {recipe.name for recipe in seen.a.recipes}
    lines = []
    for recipe in seen.b.recipes:
        if recipe.mode != "source":
            continue
        why = _why_rebuilt(seen, recipe) if recipe.name in old else ["not a kernel of the first profile"]
        if why:
            name = f"{recipe.name} {version(seen.b.packages.get(recipe.dist, ()))}".strip()
            lines.append(f"{name}: {'; '.join(why)}")
    return Follows(tuple(lines))


def verify(seen: Compared) -> Follows:
    """Published wheels with kernels that are others."""
    changed = {change.name for change in seen.changes if change.kind != "removed"}
    return Follows((), tuple(r.dist for r in seen.b.recipes if r.mode != "source" and r.dist in changed))


def sources(seen: Compared) -> Follows:
    """Other bytes under one version, and packages that come from another kind of place."""
    moved = []
    for change in seen.changes:
        before, after = seen.a.packages.get(change.was or change.name), seen.b.packages.get(change.name)
        kinds = [{package.source.kind for package in packages} for packages in (before, after) if packages]
        if change.kind == "replaced" or (len(kinds) == 2 and kinds[0] != kinds[1]):
            moved.append(change.name)
    return Follows((), tuple(moved))


def python(seen: Compared) -> Follows:
    """Another Python."""
    old, new = seen.a.lock.requires_python, seen.b.lock.requires_python
    return Follows((f"{old} -> {new}",)) if old != new else Follows()


def glibc(seen: Compared) -> Follows:
    """Another oldest glibc."""
    old, new = (max(view.floors.items(), default=None) for view in (seen.a, seen.b))
    if (old and old[0]) == (new and new[0]):
        return Follows()
    words = [f"{each[0][0]}.{each[0][1]} ({_listed(each[1], 3)})" if each else "none" for each in (old, new)]
    return Follows((f"{words[0]} -> {words[1]}",))


def download(seen: Compared) -> Follows:
    """How much more or less there is to download, and to fetch for whoever has the first."""
    if not seen.changes:
        return Follows()
    old, new = (sum(size(packages) for packages in view.installed.values()) for view in (seen.a, seen.b))
    fetched = format_bytes(fetch_bytes(seen.a, seen.b))
    return Follows((f"{format_bytes(old)} -> {format_bytes(new)}; {fetched} of it is not in the first",))


def fetch_bytes(a: View, b: View) -> int:
    """Bytes of the files of ``b`` that ``a`` does not have."""
    known = {bytes_of(packages) for packages in a.packages.values()}
    return sum(size(packages) for packages in b.installed.values() if bytes_of(packages) not in known)


def binaries(seen: Compared) -> Follows:
    """Filled by :mod:`orbit.profile.diff.compare`: what is left over and has machine code."""
    return Follows((), seen.named(lambda change: change.binary))


def python_only(seen: Compared) -> Follows:
    """Filled by :mod:`orbit.profile.diff.compare`: what is left over and has none."""
    return Follows((), seen.named(lambda change: not change.binary))


COMPUTED: dict[str, Callable[[Compared], Follows]] = {
    "targets": targets,
    "coverage": coverage,
    "coverage-gained": coverage_gained,
    "driver": driver,
    "compiler": compiler,
    "namespaces": namespaces,
    "torch-abi": torch_abi,
    "recompile": recompile,
    "verify": verify,
    "sources": sources,
    "python": python,
    "glibc": glibc,
    "download": download,
    "binaries": binaries,
    "python-only": python_only,
}
"""By id, as in ``env/lock-diff.toml``."""
LEFT_OVER = frozenset({"binaries", "python-only"})
"""Those that hold only what no other consequence holds."""


def _why_rebuilt(seen: Compared, recipe: RecipeFact) -> list[str]:
    why = []
    old, new = (bytes_of(view.packages.get(recipe.dist, ())) for view in (seen.a, seen.b))
    if old != new:
        why.append("another source")
    if seen.a.group(recipe.group) != seen.b.group(recipe.group):
        why.append(f"another build environment ({recipe.group})")
    archs = [tuple(target.feature for target in view.profile.targets) for view in (seen.a, seen.b)]
    if archs[0] != archs[1]:
        why.append("other architectures")
    if seen.a.profile.toolkit != seen.b.profile.toolkit:
        why.append("another nvcc")
    return why


def _gaps(gaps: Sequence[GapFact], targets: Iterable[str]) -> dict[tuple[str, str], GapFact]:
    wanted = set(targets)
    return {(gap.file, gap.target): gap for gap in gaps if gap.target in wanted}


def _bound_to(view: View, name: str) -> Iterator[str]:
    """Distributions with machine code that require ``name`` themselves."""
    for each, packages in view.packages.items():
        if each != name and is_binary(packages) and any(_requires(view, package, name) for package in packages):
            yield each


def _requires(view: View, package: Package, name: str) -> bool:
    return any(target.name == name for target, _extras in view.lock.targets(package))


def _listed(names: Sequence[str], count: int = SHOWN) -> str:
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
