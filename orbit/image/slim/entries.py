"""Which entries of a fatbin container stay: the audit's loading model, asked once per entry and target.

There is no second model here: :func:`orbit.audit.binary.coverage.result_of` says who loads what. An entry that a target
could load stays even where the driver would prefer another one, so nothing depends on the driver's taste.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orbit.audit.binary.coverage import RELOCATABLE, container_archs, result_of
from orbit.audit.binary.fatbin import Container, Image
from orbit.image.slim.facts import Reason
from orbit.profile.model import SlimPolicy

KNOWN = re.compile(r"^(sm|compute)_(\d{2,3})([af]?)$")

type Verdict = tuple[bool, Reason]
"""Whether an entry stays, and why."""


def decide(
    container: Container, sizes: Sequence[int], capabilities: tuple[str, ...], policy: SlimPolicy
) -> list[Verdict]:
    """The verdict on each image of ``container``; ``sizes`` are the bytes of its entries, in the same order.

    At least one entry stays, and every target finds in the container what it found before: the same machine code, or
    the same PTX where there is none.
    """
    archs = container_archs(container)
    results = {capability: result_of(archs, capability) for capability in capabilities}
    if all(result == "none" for result in results.values()):
        return _without_use(container, sizes, policy)
    covered = all(result == "sass" for result in results.values())
    newest = max((_number(image) for image in container.images if image.kind == "ptx"), default=0)
    found: list[Verdict] = []
    for image in container.images:
        alone = frozenset((image.arch,))
        if image.kind == "ir":
            found.append((True, "links"))
        elif not KNOWN.match(image.arch):
            found.append((True, "unknown"))
        elif image.kind == "ptx":
            usable = any(result_of(alone, capability) == "ptx-jit" for capability in capabilities)
            if usable and container.section == RELOCATABLE:
                found.append((True, "links"))  # one part without machine code is compiled together with all others
            elif usable and not covered:
                found.append((True, "loads"))
            else:
                keep = not covered or policy.ptx == "keep" or (policy.ptx == "newest" and _number(image) == newest)
                found.append((True, "ptx") if keep else (False, "unused"))
        elif any(result_of(alone, capability) == "sass" for capability in capabilities):
            found.append((True, "loads"))
        else:
            found.append((False, "unused"))
    return found


def _without_use(container: Container, sizes: Sequence[int], policy: SlimPolicy) -> list[Verdict]:
    """Nothing in the container serves a target: all stays, or the smallest entry does.

    An empty container is not an option: what the driver makes of one is not written down anywhere.
    """
    known = all(image.kind != "ir" and KNOWN.match(image.arch) for image in container.images)
    if policy.others == "leave" or not known or container.section == RELOCATABLE:
        return [(True, "only-others")] * len(sizes)
    smallest = min(range(len(sizes)), key=sizes.__getitem__, default=0)
    return [(True, "only-others") if place == smallest else (False, "unused") for place in range(len(sizes))]


def _number(image: Image) -> int:
    """The architecture's number: 90 of ``compute_90a``."""
    match = KNOWN.match(image.arch)
    return int(match[2]) if match else 0
