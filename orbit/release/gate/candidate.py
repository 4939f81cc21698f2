"""What shall be had again: the image of a run that was made from one commit and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orbit.core.records import load_json
from orbit.errors import InputError, RefusedError
from orbit.profile.model import Profile
from orbit.release.evidence import Summary
from orbit.release.seal import Seal, read_seal


@dataclass(frozen=True, slots=True)
class Candidate:
    """What shall be had again."""

    run: Path
    """The folder of the run."""
    digest: str
    commit: str
    tier: str


def read_candidate(run: Path, profile: Profile) -> Candidate:
    """The candidate in a run's folder.

    Raises :class:`InputError` for a run without seal, summary or image, or of another profile, and
    :class:`RefusedError` for one that no clone can give again: made from changed files, or from no commit.
    """
    if not run.is_dir():
        raise InputError(f"{run}: no such folder", fix=f"make a run first: ./orbitw ship --profile {profile.name}")
    seal, summary = read_seal(run), load_json(run / "summary.json", Summary)
    if not seal.image or seal.profile != profile.name:
        raise InputError(
            f"{run}: {'has no image' if not seal.image else f'is of profile {seal.profile}'}",
            fix=f"./orbitw ship --profile {profile.name}",
        )
    require_clean(seal)
    kernels = next((stage for stage in summary.stages if stage.stage == "kernels"), None)
    tier = str(kernels.inputs.get("tier", "core")) if kernels else "core"
    return Candidate(run=run, digest=seal.image, commit=seal.checkout.commit, tier=tier)


def require_clean(seal: Seal) -> None:
    """Raises :class:`RefusedError` for a run that was not made from a commit alone."""
    made = seal.checkout
    if made.clean:
        return
    if made.commit:
        what = f"was made from a checkout with {made.changes} changed file(s): {', '.join(made.changed)}"
    else:
        what = f"was made from no commit: {made.reason}"
    raise RefusedError(f"run {seal.run} {what}", fix="commit, then ./orbitw ship: only a commit can be cloned")
