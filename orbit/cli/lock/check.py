"""Is the lock fresh, from the right sources, of one CUDA release, and explained?

Exit status: 0 clean, 1 findings, 2 unreadable input, 3 no lock, or freshness cannot be told (no index).
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.core.amounts import format_bytes

if TYPE_CHECKING:
    from orbit.profile.check import LockReport


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Judge the lock of the profile."""
    from orbit.core.paths import checkout_root
    from orbit.errors import ExitCode
    from orbit.profile.check import check_lock
    from orbit.profile.model import load_profile

    report = check_lock(load_profile(args.profile), checkout_root())
    if args.json:
        print_json(report)
    _show(report)
    return ExitCode.OK if report.clean else ExitCode.FINDINGS


def _show(report: LockReport) -> None:
    """For people, on stderr."""
    for finding in report.findings:
        print(f"{finding.severity.value}: {finding.rule}: {finding.message}", file=sys.stderr)
        for key, value in finding.evidence.items():
            print(f"  {key}: {value.replace('\n', '\n    ')}", file=sys.stderr)
        if finding.fix:
            print(f"  fix: {finding.fix}", file=sys.stderr)
    verdict = "clean" if report.clean else f"{sum(finding.fatal for finding in report.findings)} finding(s)"
    print(
        f"lock {report.lock_sha256[:12]}, profile {report.profile}: {verdict}; {report.packages} packages, "
        f"{format_bytes(report.download_bytes)} to download, {len(report.built)} to build",
        file=sys.stderr,
    )
