"""What a release says of each GPU, from the decision of the gate; and its first line."""

from __future__ import annotations

from collections.abc import Iterable

from orbit.profile.model import GpuTarget, Profile
from orbit.release.bundle.model import EVIDENCE, TargetClaim
from orbit.release.gate.case import Judgement, Mark
from orbit.release.gate.decide import Decision

REQUIREMENT = "smoke-gpu"


def targets_of(decision: Decision, profile: Profile) -> tuple[TargetClaim, ...]:
    """A claim for each target of the profile: proven only when the decision says that it is met, and by which files."""
    judged = {item.subject: item for item in decision.judgements if item.requirement == REQUIREMENT}
    return tuple(_claim(target, judged.get(target.name)) for target in profile.targets)


def _claim(target: GpuTarget, judgement: Judgement | None) -> TargetClaim:
    proven = judgement is not None and judgement.mark is Mark.MET and bool(judgement.file)
    why = "" if proven else (judgement.reason if judgement else "the decision does not speak of it")
    return TargetClaim(
        name=target.name,
        devices=target.devices,
        capability=target.capability,
        feature=target.feature,
        state="proven" if proven else "unproven",
        evidence=tuple(EVIDENCE + name for name in judgement.file.split(", ")) if proven and judgement else (),
        why=why,
    )


def headline(name: str, version: str, targets: Iterable[TargetClaim]) -> str:
    """The first line of ``RELEASE.md``: on which GPUs it is proven to work, and every one on which nobody showed it."""
    listed = list(targets)
    words = [
        f"{word} {', '.join(f'{item.name} ({", ".join(item.devices)})' for item in some)}"
        for word, some in (
            ("proven on", [item for item in listed if item.state == "proven"]),
            ("UNPROVEN on", [item for item in listed if item.state == "unproven"]),
        )
        if some
    ]
    return f"# {name} {version}: {'; '.join(words)}"
