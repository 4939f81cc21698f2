"""What the rules of this room share: containers that every target loads something of, and how findings name kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orbit.audit.deep.depth import ContainerDepth, Depth
from orbit.audit.facts import Environment
from orbit.audit.known.device import readable_name
from orbit.audit.known.policy import Policy
from orbit.audit.rules.coverage import arch_coverage

SHOWN = 4
"""So many kernels are named in a finding."""


def registering(env: Environment, policy: Policy, depth: Depth) -> Iterator[tuple[str, tuple[ContainerDepth, ...]]]:
    """(name, containers that could be read) of every file that hands each of its containers to every device.

    Vendor libraries that choose among their containers are left out: what one container lacks another may have.
    """
    for item in depth.files:
        name = env.in_site(item.path)
        if not arch_coverage.is_dispatching(policy, name):
            sound = (box for box in item.containers if not any(image.problem for image in box.loaded.values()))
            yield name, tuple(sound)


def examples(names: Sequence[str]) -> str:
    """Some of the kernels, one of each family first."""
    shown = list(dict.fromkeys(readable_name(name) for name in names))[:SHOWN]
    rest = len(set(names)) - len(shown)
    return "; ".join(shown) + (f"; and {rest} more" if rest > 0 else "")


def archs(boxes: Sequence[ContainerDepth], target: str) -> str:
    """The architectures of the images that a target loads of some containers."""
    return " ".join(sorted({box.loaded[target].arch for box in boxes if target in box.loaded}))
