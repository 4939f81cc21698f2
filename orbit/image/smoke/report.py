"""What a smoke says: results per list and user, the engine that ran it, and what could not be run."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding, Severity, Skipped
from orbit.core.junit import Case, Suite, to_xml
from orbit.core.records import Record
from orbit.errors import ExitCode
from orbit.smoke.machine import MachineFacts
from orbit.smoke.model import FAILED, RESULTS, SKIPPED, CheckResult
from orbit.smoke.report import SCHEMA, VERSION, suite

TAIL_LINES = 8


class SmokeRun(Record, frozen=True, kw_only=True):
    """One list run as one user."""

    list: str
    uid: int
    seconds: float
    results: tuple[CheckResult, ...]


class SmokeReport(Record, frozen=True, kw_only=True):
    """The answer of ``orbit image smoke``."""

    schema: str = SCHEMA
    version: int = VERSION
    profile: str
    image: str
    """Digest of the manifest that was run; in place: what the caller said it is (``--image``)."""
    engine: str
    """``docker``, ``podman``, ``bubblewrap`` or ``unshare``; ``in-place`` for what ran without one; empty when none
    could be used."""
    engine_version: str
    real_ids: bool
    """Whether user ids inside were the kernel's own, so that file modes were really tested by running."""
    runs: tuple[SmokeRun, ...]
    not_run: tuple[Skipped, ...] = ()
    """Lists that were not run at all, each with the reason."""
    reused: bool = False
    """True when this very image had passed these very lists before and nothing was run now."""
    environment: str = ""
    """Identity of the environment inside, which the image's label ``io.orbit.environment`` names, too."""
    started: str = ""
    """When the checks began: UTC, ISO 8601. Of a reused report: when they were really run."""
    machine: MachineFacts | None = None
    """What they ran on."""

    def counts(self) -> dict[str, int]:
        """How many checks ended how, over all runs: one key per result kind, and ``seconds``."""
        counts = dict.fromkeys(RESULTS, 0)
        for _, result in self._all():
            counts[result.result] += 1
        return {**counts, "runs": len(self.runs), "seconds": round(sum(run.seconds for run in self.runs))}

    def findings(self) -> tuple[Finding, ...]:
        """One finding per failed check."""
        return tuple(
            Finding(
                rule="smoke-check",
                severity=Severity.ERROR,
                subject=f"{run.list}/{result.check} as uid {run.uid}",
                message=result.detail or "failed",
                evidence={"output": result.tail} if result.tail else {},
                fix="run that check alone and read its output (docs/smoke.md, section 'When a check fails')",
            )
            for run, result in self._all()
            if result.result == FAILED
        )

    def skipped(self) -> tuple[Skipped, ...]:
        """Everything that was not checked: whole lists and single checks."""
        checks = tuple(
            Skipped(what=f"smoke {run.list}/{result.check} as uid {run.uid}", reason=result.detail)
            for run, result in self._all()
            if result.result == SKIPPED
        )
        return (*self.not_run, *checks)

    @property
    def passed(self) -> bool:
        """Whether something ran and nothing failed (what was skipped is told by :meth:`skipped`)."""
        return bool(self.runs) and not self.findings()

    @property
    def exit_code(self) -> ExitCode:
        """0 all good, 1 something failed, 3 nothing failed but something could not be checked."""
        if self.findings():
            return ExitCode.FINDINGS
        return ExitCode.OK if self.runs and not self.skipped() else ExitCode.MISSING

    def _all(self) -> Iterator[tuple[SmokeRun, CheckResult]]:
        for run in self.runs:
            for result in run.results:
                yield run, result


def render(report: SmokeReport) -> str:
    """The report for people."""
    engine = f"{report.engine} {report.engine_version}".strip() or "no engine"
    lines = [f"smoke of {report.image} ({report.profile}) with {engine}" + (", reused" if report.reused else "")]
    for run in report.runs:
        lines.append(f"{run.list} as uid {run.uid}: {run.seconds:.0f} s")
        for result in run.results:
            detail = f": {result.detail}" if result.detail else ""
            lines.append(f"  {result.result:12} {result.seconds:7.1f}s  {result.check}{detail}")
            if result.result == FAILED and result.tail:
                lines.extend(f"  | {line}" for line in result.tail.rstrip().splitlines()[-TAIL_LINES:])
    lines.extend(f"skipped {item.what}: {item.reason}" for item in report.not_run)
    counts = report.counts()
    lines.append(", ".join(f"{counts[kind]} {kind}" for kind in RESULTS if counts[kind]) or "nothing was run")
    return "\n".join(lines)


def to_junit(report: SmokeReport) -> bytes:
    """The report as JUnit XML: a suite for each list and user, a case for each check."""
    engine = f"{report.engine} {report.engine_version}".strip() or "none"
    properties = {"profile": report.profile, "image": report.image, "engine": engine}
    suites = [suite(run.list, run.uid, run.seconds, run.results, properties) for run in report.runs]
    for item in report.not_run:
        cases = (Case(group="orbit.smoke", name=item.what, skipped=item.reason),)
        suites.append(Suite(name=item.what, cases=cases, properties=properties))
    return to_xml("orbit image smoke", suites)
