"""arch-guard: kernels written for a target's own instructions were compiled with them.

CUTLASS, CuTe and others put code that needs wgmma or tcgen05 under ``#if`` on the feature architecture (``sm_90a``).
Compiled for ``sm_90`` the build passes, the container covers the target, and every launch prints "Arch conditional
MMA instruction used without targeting ..." or does nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from orbit.audit.binary.cubin import Kernel
from orbit.audit.deep.depth import ContainerDepth, Depth
from orbit.audit.facts import Environment
from orbit.audit.known.device import guard_pattern, is_for_others, own_capability, stated_capability
from orbit.audit.known.policy import Policy
from orbit.audit.rules.depth.matrix import archs, examples, registering
from orbit.core.findings import Finding, Severity
from orbit.profile.model import GpuTarget

ID = "arch-guard"
TITLE = "kernels for a target's own instructions are compiled with them"


def check(env: Environment, policy: Policy, depth: Depth) -> Iterator[Finding]:
    """One finding per file and target."""
    for name, boxes in registering(env, policy, depth):
        for target in policy.profile.targets:
            found = [
                (box, kernel)
                for box in boxes
                if target.name in box.loaded
                for kernel in box.loaded[target.name].kernels.values()
                if is_guarded(box, kernel, target)
            ]
            if found:
                yield _finding(name, target, found)


def is_guarded(box: ContainerDepth, kernel: Kernel, target: GpuTarget) -> bool:
    """Whether ``kernel``, as ``target`` loads it, is switched off although it is meant for that target.

    It is meant for it when its name says so; without a mark in the name, when its guard text speaks of the target or
    no other target has it without the guard.
    """
    if not kernel.stub and not kernel.says:
        return False
    guarded = _guarded(kernel)
    own = own_capability(kernel.name)
    if own == target.capability:
        # a body that is gone under the right architecture was taken out by something else: kernel-stub's matter
        return guarded or (kernel.stub != "" and box.loaded[target.name].arch != target.feature)
    if own or not guarded or is_for_others(kernel.name, kernel.says, target.capability):
        return False
    if stated_capability(kernel.says) == target.capability:
        return True
    others = [image.kernels.get(kernel.name) for name, image in box.loaded.items() if name != target.name]
    return all(other is None or other.stub or _guarded(other) for other in others)


def _guarded(kernel: Kernel) -> bool:
    return bool(kernel.says) and _guards().search(kernel.says) is not None


@functools.cache
def _guards() -> re.Pattern[str]:
    return re.compile(guard_pattern())


def _finding(name: str, target: GpuTarget, found: list[tuple[ContainerDepth, Kernel]]) -> Finding:
    boxes = [box for box, _kernel in found]
    kernels = [kernel for _box, kernel in found]
    loaded = archs(boxes, target.name)
    says = list(dict.fromkeys(kernel.says for kernel in kernels if kernel.says))
    what = "only say so" if all(kernel.stub for kernel in kernels) and says else "do not do their work"
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=name,
        message=(
            f"{len(kernels)} kernels for {target.name}'s own instructions were compiled for {loaded} without them and "
            f"{what} when launched"
        ),
        evidence={
            "target": target.name,
            "loaded": loaded,
            "needed": target.feature,
            "first": f"{boxes[0].section}[{boxes[0].index}]",
            "kernels": examples([kernel.name for kernel in kernels]),
        }
        | ({"they say": "; ".join(says[:3])} if says else {}),
        fix=f"compile for {target.feature} (not {loaded}): only that architecture has the instructions in question",
    )
