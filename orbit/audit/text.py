"""An audit report as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.report import TargetReport
from orbit.core.findings import Finding


def render_text(report: TargetReport) -> str:
    """The report for people: coverage table, declared exceptions, findings grouped by rule, summary."""
    lines = [f"audit of {report.target} (profile {report.profile}, as uid {report.uid})", ""]
    lines += _coverage_lines(report)
    if report.expected:
        lines += ["declared exceptions:"]
        for expected in report.expected:
            lines += [f"  {expected.subject}: {expected.what}", f"      {expected.reason}"]
        lines.append("")
    lines += _finding_lines(report)
    facts = report.facts
    lines.append(
        f"{facts['files']} files, {facts['distributions']} distributions, {facts['shared_objects']} shared objects; "
        f"{facts['containers']} containers of device code in {facts['files_with_device_code']} files; "
        f"{facts['verified_files']} files ({facts['verified_bytes'] / 1e9:.2f} GB) compared with RECORD"
    )
    if facts["remembered_digests"]:
        lines.append(
            f"{facts['remembered_digests']} of the {facts['verified_files']} digests are from the fact cache (files "
            "unchanged since they were last hashed); --hash reads every file"
        )
    if report.driver_libraries:
        listed = ", ".join(f"{name} ({count})" for name, count in report.driver_libraries.items())
        lines.append(f"from the GPU driver of the host (number of files that need it): {listed}")
    waived = sum(bool(finding.waiver) for finding in report.findings)
    fatal = sum(finding.fatal for finding in report.findings)
    lines.append(
        f"{'FAILED' if report.failed else 'clean'}: {fatal} errors, {len(report.findings) - fatal - waived} others, "
        f"{waived} waived, {len(report.expected)} declared exceptions; {report.seconds:.2f} s"
    )
    return "\n".join(lines) + "\n"


def _coverage_lines(report: TargetReport) -> Iterator[str]:
    if not report.coverage:
        yield "no device code"
        yield ""
        return
    width = max(len(item.file) for item in report.coverage)
    names = [target.target for target in report.coverage[0].targets]
    head = "".join(f"  {name:>16}" for name in names)
    yield f"{'device code':{width}}  mode  containers      MB{head}"
    yield f"{'':{width}}  {'':4}  {'':10}  {'':6}{'     sass/ptx/none' * len(names)}"
    for item in report.coverage:
        cells = "".join(f"  {f'{t.sass}/{t.ptx_jit}/{t.none}':>16}" for t in item.targets)
        yield (
            f"{item.file:{width}}  {'file' if item.mode == 'dispatching' else 'each'}"
            f"  {item.containers:>10}  {item.payload_bytes / 1e6:6.1f}{cells}"
        )
    yield "mode each: every container must have machine code for every target; file: the file as a whole"
    yield ""


def _finding_lines(report: TargetReport) -> Iterator[str]:
    groups: dict[str, list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault(finding.rule, []).append(finding)
    for rule, findings in groups.items():
        yield f"{rule} ({len(findings)}; docs/rules.md#{rule})"
        for finding in findings:
            mark = "waived" if finding.waiver else finding.severity.value
            yield f"  {mark}: {finding.subject}: {finding.message}"
            for key, value in finding.evidence.items():
                if value:
                    yield f"      {key}: {value}"
            if finding.waiver:
                yield f"      waiver: {finding.waiver}"
        for fix in dict.fromkeys(finding.fix for finding in findings if finding.fix and not finding.waiver):
            yield f"  fix: {fix}"
        yield ""
