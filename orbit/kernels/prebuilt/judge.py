"""Hold one published wheel against what the audit knows: its rules, and the libraries of the build environment.

A wheel alone cannot say whether torch defines what it wants. The libraries of the build environment can: they are put
beside the wheel's, as if it were installed there, and the audit's rules on symbols judge the whole.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from orbit.audit.archives.wheels import read_wheels
from orbit.audit.deep.depth import Depth, depth_rows
from orbit.audit.deep.depth_sources import read_target_depth
from orbit.audit.evaluate import evaluate
from orbit.audit.facts import Environment, SharedObject
from orbit.audit.files.objects import families_defined_by, needed_exports, read_objects
from orbit.audit.installed.dists import installed_dists
from orbit.audit.installed.tree import find_layout, read_tree
from orbit.audit.known.knowledge import symbol_family, symbols
from orbit.audit.known.policy import Policy, load_policy
from orbit.audit.rules import RULES, depth_rules
from orbit.audit.rules.abi.foreign_extension import PLATFORMS, STABLE, TAGGED, is_importable
from orbit.audit.targets import Target
from orbit.core.console import Progress
from orbit.core.findings import Finding, Skipped
from orbit.kernels.prebuilt.record import Loaded
from orbit.profile.model import Profile

ALONE = (
    "wheel-archive", "damaged-binary", "record-hash", "required-artifact", "hollow-package", "arch-coverage",
    "arch-feature", "build-manifest", "foreign-extension", "python-floor",
)  # fmt: skip
"""Rules that judge what is in the wheel itself."""
LINKED = ("undefined-symbol", "cxx11-abi", "symbol-version")
"""Rules that ask the libraries it is loaded with."""
LEFT_OUT = {
    "wheel-tag": "what the tag promises to other systems; symbol-version asks the base that this profile ships on",
    "stable-abi": "what it promises to other Pythons; foreign-extension asks the one of this profile",
    "needs-library": "the whole environment is not there; the audit of the environment asks",
    "expectation": "the whole environment is not there; the audit of the environment asks",
}
"""What is not judged here, and why."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the audit says of one wheel."""

    facts: Environment
    """Of the wheel alone."""
    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    declared: tuple[str, ...]
    """See :class:`orbit.kernels.prebuilt.record.Verified`."""
    loaded: tuple[Loaded, ...]
    symbols: dict[str, int]
    modules: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def judge_wheel(
    wheel: Path,
    profile: Profile,
    *,
    environment: Path | None,
    others: tuple[Path, ...] = (),
    progress: Progress,
    today: dt.date | None = None,
) -> Judged:
    """Read ``wheel`` front to back, then the images that the targets would load, and judge it.

    ``environment``: prefix of the build environment, or None. ``others``: wheels it is loaded with besides.

    Raises :class:`orbit.errors.InputError` when it is not a wheel at all.
    """
    policy = load_policy(profile, today=today)
    facts = read_wheels((wheel,), profile, progress)
    depth = read_target_depth(Target("wheels", str(wheel), (wheel,)), facts, profile, progress)
    deep = depth_rules(depth, None)
    findings = evaluate(facts, policy, [*(RULES[name] for name in ALONE), *deep])
    skipped = [Skipped(what=name, reason=reason) for name, reason in LEFT_OUT.items()]
    rules = (*ALONE, *(rule.id for rule in deep))
    counts: dict[str, int] = {}
    if environment is None:
        skipped += [Skipped(what=name, reason="there is no build environment to ask") for name in LINKED]
    else:
        together = read_wheels((wheel, *others), profile, progress) if others else facts
        linked = beside(together, environment, profile)
        findings += evaluate(linked, policy, [RULES[name] for name in LINKED])
        counts, unasked = satisfied(linked, facts.objects)
        rules += LINKED
        skipped += unasked
    return Judged(
        facts=facts,
        findings=findings,
        rules=rules,
        declared=tuple(_declared(facts, policy)),
        loaded=tuple(_loaded(facts, depth)),
        symbols=counts,
        modules=importable(facts),
        skipped=tuple(skipped),
    )


def beside(facts: Environment, prefix: Path, profile: Profile) -> Environment:
    """Wheels as if they were installed in the environment at ``prefix``; nothing there is executed or changed."""
    layout = find_layout(prefix, profile.python)
    tree = read_tree(layout.prefix)
    own = {item.path for item in facts.objects}
    others, _damaged = read_objects(layout.prefix, tree)
    objects = (*facts.objects, *(item for item in others if item.path not in own))
    exports, _damaged = needed_exports(layout.prefix, objects)
    return replace(
        facts,
        objects=tuple(sorted(objects, key=lambda item: item.path)),
        exports={**exports, **facts.exports},
        tree=replace(facts.tree, entries={**tree.entries, **facts.tree.entries}, links=tree.links),
        dists=(*facts.dists, *installed_dists(layout)),
        derived={},
    )


def satisfied(linked: Environment, objects: tuple[SharedObject, ...]) -> tuple[dict[str, int], list[Skipped]]:
    """(symbols that ``objects`` leave undefined and that a product of the environment defines, counted by product;
    products that are not there to be asked)."""
    found: dict[str, int] = {}
    skipped = []
    wanted: dict[str, set[str]] = {}
    for item in objects:
        for symbol in item.dynamic.undefined if item.dynamic else ():
            if name := symbol_family(symbol):
                wanted.setdefault(name, set()).add(symbol)
    defined = {export.name for item in linked.objects for export in linked.exports.get(item.path, ())}
    for family in symbols().families:
        if family.name not in wanted:
            continue
        names = wanted[family.name]
        providers = [item for item in linked.objects if family.name in families_defined_by(item)]
        if not providers:
            reason = f"{len(names)} symbols; nothing in the build environment defines them"
            skipped.append(Skipped(what=f"symbols of {family.name}", reason=reason))
            continue
        dist = next((dist for dist in linked.dists if fnmatchcase(dist.name, family.dist)), None)
        found[f"{family.name} {dist.version}" if dist else family.name] = len(names & defined)
    return dict(sorted(found.items())), skipped


def importable(facts: Environment) -> tuple[str, ...]:
    """Extension modules by dotted name: files that the profile's Python finds under a tagged or plain name."""
    found = set()
    for item in facts.objects:
        folder, _, name = facts.in_site(item.path).rpartition("/")
        tagged, stable = TAGGED.match(name), STABLE.match(name)
        if tagged and is_importable(name, facts.layout.python, PLATFORMS.get(item.machine, "")):
            found.add(".".join((*folder.split("/"), tagged["stem"])).strip("."))
        elif stable:
            found.add(".".join((*folder.split("/"), stable["stem"])).strip("."))
    return tuple(sorted(found))


def image_bytes(objects: tuple[SharedObject, ...]) -> dict[str, int]:
    """Bytes of device code in the files, by architecture."""
    found: Counter[str] = Counter()
    for item in objects:
        for container in item.containers:
            for image in container.images:
                found[image.arch] += image.size
    return dict(sorted(found.items()))


def _declared(facts: Environment, policy: Policy) -> Iterator[str]:
    """The declared gaps of files of the wheel (that each is still true is arch-coverage's judgement)."""
    present = {facts.in_site(item.path) for item in facts.objects}
    for gap in policy.expectations.gaps:
        if gap.file in present:
            yield f"{gap.file}: {gap.containers} containers have {gap.result} for {gap.target}: {gap.reason}"


def _loaded(facts: Environment, depth: Depth) -> Iterator[Loaded]:
    for library in depth_rows(depth, facts.in_site):
        for row in library.targets:
            yield Loaded(
                file=library.file, target=row.target, kernels=row.kernels, stubs=row.stubs, code_bytes=row.code_bytes
            )
