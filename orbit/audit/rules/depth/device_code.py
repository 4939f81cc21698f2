"""device-code: what is in a container is what its headers say.

Coverage trusts the headers. Here the images that some target would load are unpacked and read: a damaged payload, or
code for another architecture than the entry states, fails on the device when its module is loaded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.deep.depth import Depth, ImageDepth
from orbit.audit.facts import Environment
from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "device-code"
TITLE = "the images that a target would load are sound and for the architecture they state"
FIX = "the file is damaged or was patched: install its distribution again"


def check(env: Environment, policy: Policy, depth: Depth) -> Iterator[Finding]:  # noqa: ARG001 - one signature for all
    """One finding per file and kind of damage."""
    for item in depth.files:
        name = env.in_site(item.path)
        if item.problem:
            yield _finding(name, item.problem, ["the whole file"])
        wrong: dict[str, list[str]] = defaultdict(list)
        for box in item.containers:
            for image in {id(image): image for image in box.loaded.values()}.values():
                if problem := problem_of(image):
                    wrong[problem].append(f"{box.section}[{box.index}] {image.arch}")
        for problem, places in wrong.items():
            yield _finding(name, problem, places)


def problem_of(image: ImageDepth) -> str:
    """What is wrong with an image; empty when it is sound.

    Content that does not name its suffix (cubins of CUDA 13 without ptxas' note) is compared by number alone.
    """
    if image.problem:
        return image.problem
    stated, arch = image.stated, image.arch
    if not stated or stated == arch or stated == f"{arch.rstrip('af')}*":
        return ""
    return f"holds code for {stated.rstrip('*')}"


def _finding(name: str, problem: str, places: list[str]) -> Finding:
    rest = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=name,
        message=f"device code that a target would load cannot be used: {problem}",
        evidence={"where": f"{places[0]}{rest}", "images": str(len(places))},
        fix=FIX,
    )
