"""The audit of an environment: reads all of its files."""

from __future__ import annotations

from pathlib import Path

from orbit.audit.run import Options, audit_targets
from orbit.audit.targets import detect
from orbit.core.console import Progress
from orbit.core.findings import Finding
from orbit.core.store import cache_root
from orbit.profile.model import Profile


class Audit:
    """For the GPUs that ``profile`` is for."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def findings(self, prefix: Path, progress: Progress) -> tuple[Finding, ...]:
        """What the audit says of the environment at ``prefix``. Raises :class:`orbit.errors.InputError`."""
        options = Options(self._profile, cache=cache_root() / "facts")
        report = audit_targets([detect(str(prefix))], options, progress)
        return tuple(finding for each in report.reports for finding in each.findings if not finding.waiver)
