"""What takes longer: the whole preflight of a node, and the audit of an environment."""

from __future__ import annotations

import socket
from pathlib import Path

from orbit.audit.run import Options, audit_targets
from orbit.audit.targets import detect
from orbit.core.console import Progress
from orbit.core.findings import Finding
from orbit.core.store import cache_root
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.run import check_node
from orbit.profile.model import Profile


class Deep:
    """Both, for the GPUs that ``profile`` is for."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def checks(self, gpus: int, prefix: Path | None) -> tuple[Check, ...]:
        """Every check of a node with ``gpus`` GPUs, for a job that demands these and nothing else."""
        return check_node(Demand(gpus=gpus), rank=0, host=socket.gethostname(), prefix=prefix).checks

    def findings(self, prefix: Path, progress: Progress) -> tuple[Finding, ...]:
        """What the audit says of the environment at ``prefix``. Raises :class:`orbit.errors.InputError`."""
        options = Options(self._profile, cache=cache_root() / "facts")
        report = audit_targets([detect(str(prefix))], options, progress)
        return tuple(finding for each in report.reports for finding in each.findings if not finding.waiver)
