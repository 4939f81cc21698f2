"""kernel-stub: a kernel that works on one target does not do nothing on another.

The compiler keeps the name of a kernel whose body was switched off (``#if __CUDA_ARCH__``): coverage is complete, the
launch succeeds, and nothing is computed. That is right for a kernel written for other devices, which its name
(``Sm90``, ``mxfp8``) or its own message says; for the rest the expectations say it ([[stubs]]).
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from orbit.audit.binary.cubin import Kernel
from orbit.audit.deep.depth import ContainerDepth, Depth
from orbit.audit.facts import Environment
from orbit.audit.known.device import is_for_others
from orbit.audit.known.policy import Policy, Stub
from orbit.audit.rules.depth import arch_guard
from orbit.audit.rules.depth.matrix import archs, examples, registering
from orbit.core.findings import Finding, Severity
from orbit.profile.model import GpuTarget

ID = "kernel-stub"
TITLE = "a kernel that works on one target works on the others"
HOW = {
    "empty": "were compiled away: a launch succeeds and computes nothing",
    "trap": "only stop the device",
    "message": "only print or assert something and end",
}
FIX = (
    "build with the options or the architecture that the body's #if asks for ({feature}); if these kernels are never "
    "launched on {target}, declare them with the reason in kernels/expectations/ ([[stubs]])"
)


def check(env: Environment, policy: Policy, depth: Depth) -> Iterator[Finding]:
    """One finding per file, target and kind of stub that nothing explains, and per [[stubs]] entry that is not true."""
    targets = [target for target in policy.profile.targets if target.name in depth.targets]
    for name, boxes in registering(env, policy, depth):
        for target in targets:
            found = [(box, kernel) for box in boxes for kernel in stubs(box, target)]
            declared = [
                entry for entry in policy.expectations.stubs if (entry.file, entry.target) == (name, target.name)
            ]
            counts = [sum(_covers(entry, kernel) for _box, kernel in found) for entry in declared]
            if boxes:
                yield from (
                    _differs(entry, count)
                    for entry, count in zip(declared, counts, strict=True)
                    if count != entry.count
                )
            left = [(box, kernel) for box, kernel in found if not any(_covers(entry, kernel) for entry in declared)]
            for how in HOW:
                if mine := [(box, kernel) for box, kernel in left if kernel.stub == how]:
                    yield _finding(name, target, how, mine)


def stubs(box: ContainerDepth, target: GpuTarget) -> Iterator[Kernel]:
    """Kernels of a container that do nothing on ``target``, work on another target, and are not for others by their
    own word (those for ``target`` itself are :mod:`arch_guard`'s)."""
    image = box.loaded.get(target.name)
    if image is None:
        return
    others = [other for name, other in box.loaded.items() if name != target.name]
    for kernel in image.kernels.values():
        if (
            kernel.stub
            and any(kernel.name in other.kernels and not other.kernels[kernel.name].stub for other in others)
            and not is_for_others(kernel.name, kernel.says, target.capability)
            and not arch_guard.is_guarded(box, kernel, target)
        ):
            yield kernel


def _covers(entry: Stub, kernel: Kernel) -> bool:
    return any(fnmatchcase(kernel.name, pattern) for pattern in entry.kernels)


def _differs(entry: Stub, count: int) -> Finding:
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=entry.file,
        message=f"{count} kernels do nothing on {entry.target} where {entry.count} were declared",
        evidence={"target": entry.target, "kernels": " ".join(entry.kernels), "reason": entry.reason},
        fix="look at what changed, then correct or remove the [[stubs]] entry in kernels/expectations/",
    )


def _finding(name: str, target: GpuTarget, how: str, found: list[tuple[ContainerDepth, Kernel]]) -> Finding:
    boxes = [box for box, _kernel in found]
    kernels = [kernel for _box, kernel in found]
    first, sample = found[0]
    working = max(
        (
            (image.kernels[sample.name].code_bytes, image.arch)
            for image in first.loaded.values()
            if sample.name in image.kernels
        ),
        default=(0, ""),
    )
    says = list(dict.fromkeys(kernel.says for kernel in kernels if kernel.says))
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=name,
        message=f"{len(kernels)} kernels that work on other targets {HOW[how]} on {target.name}",
        evidence={
            "target": target.name,
            "kind": how,
            "loaded": archs(boxes, target.name),
            "first": f"{first.section}[{first.index}]: {sample.code_bytes} bytes of code, {working[0]} in {working[1]}",
            "kernels": examples([kernel.name for kernel in kernels]),
        }
        | ({"they say": "; ".join(says[:3])} if says else {}),
        fix=FIX.format(feature=target.feature, target=target.name),
    )
