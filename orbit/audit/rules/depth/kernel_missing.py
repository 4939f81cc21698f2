"""kernel-missing: each container has the same kernels for every target.

The host side registers every kernel of a translation unit on every device (``__cudaRegisterFunction``), and the
compiler writes each of them into each image, empty when its body was switched off: in the locked stack no container
of a registering file differs in names. One that does was put together from builds of different sources or options.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.deep.depth import ContainerDepth, Depth
from orbit.audit.facts import Environment
from orbit.audit.known.policy import Policy
from orbit.audit.rules.depth.matrix import archs, examples, registering
from orbit.core.findings import Finding, Severity

ID = "kernel-missing"
TITLE = "each piece of device code has the same kernels for every target"
FIX = (
    "build all architectures from the same sources and options; a kernel for one device only belongs under #if inside "
    "its body, or in a file of its own with a [[gaps]] entry"
)


def check(env: Environment, policy: Policy, depth: Depth) -> Iterator[Finding]:
    """One finding per file and target that lacks kernels which another target has in the same container."""
    for name, boxes in registering(env, policy, depth):
        for target in depth.targets:
            lacking = {}
            for box in boxes:
                if target in box.loaded and (missing := _missing(box, target)):
                    lacking[box.section, box.index] = box, missing
            if lacking:
                yield _finding(name, target, [box for box, _m in lacking.values()], [m for _b, m in lacking.values()])


def _missing(box: ContainerDepth, target: str) -> list[str]:
    here = box.loaded[target].kernels
    return [name for image in box.loaded.values() for name in image.kernels if name not in here]


def _finding(name: str, target: str, boxes: list[ContainerDepth], missing: list[list[str]]) -> Finding:
    names = [kernel for group in missing for kernel in group]
    first = boxes[0]
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=name,
        message=(
            f"{len(set(names))} kernels are not in what {target} loads, though other targets have them in the same "
            "container: using one fails there ('named symbol not found')"
        ),
        evidence={
            "target": target,
            "containers": str(len(boxes)),
            "first": f"{first.section}[{first.index}]",
            "loaded": archs(boxes, target),
            "kernels": examples(names),
        },
        fix=FIX,
    )
