"""Check the lockfile against the policy in env/lock-policy.toml, or explain why each version is what it is."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from orbit.cli import add_json_option, add_profile_option

if TYPE_CHECKING:
    from orbit.profile.check import LockReport
    from orbit.profile.explain import Detail, Details, Table

HELP = "check the lockfile, or explain its versions"
WIDTH = 100
SHOWN_PATHS = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    check = actions.add_parser(
        "check",
        help="is the lock fresh, from the right sources, of one CUDA release, and explained?",
        description="Exit status: 0 clean, 1 findings, 2 unreadable input, 3 freshness cannot be told (no index).",
    )
    add_profile_option(check)
    add_json_option(check)
    explain = actions.add_parser(
        "explain",
        help="the pin table: package, version, source, wheel or built, why",
        description="Without PACKAGE: all that is declared or held. With it: also who requires it and its rules.",
    )
    explain.add_argument("packages", nargs="*", metavar="PACKAGE")
    explain.add_argument("--all", action="store_true", help="every package the profile installs")
    add_profile_option(explain)
    add_json_option(explain)


def run(args: argparse.Namespace) -> int:
    """Check or explain."""
    return _check(args) if args.action == "check" else _explain(args)


def _check(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.errors import ExitCode
    from orbit.profile.check import check_lock
    from orbit.profile.model import load_profile

    report = check_lock(load_profile(args.profile), checkout_root())
    if args.json:
        _print_json(report)
    _show_report(report)
    return ExitCode.OK if report.clean else ExitCode.FINDINGS


def _explain(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.errors import ExitCode, InputError
    from orbit.profile.explain import explain_packages, pin_table
    from orbit.profile.lock import read_lock
    from orbit.profile.model import load_profile
    from orbit.profile.policy import load_policy

    if args.packages and args.all:
        raise InputError("--all together with package names", fix="give one or the other")
    root = checkout_root()
    lock, policy, profile = read_lock(root / "uv.lock"), load_policy(root), load_profile(args.profile)
    if args.packages:
        details = explain_packages(lock, policy, profile, args.packages)
        _print_json(details) if args.json else _show_details(details)
    else:
        table = pin_table(lock, policy, profile, everything=args.all)
        _print_json(table) if args.json else _show_table(table)
    return ExitCode.OK


def _print_json(value: Any) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _show_report(report: LockReport) -> None:
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
        f"{megabytes(report.download_bytes)} to download, {len(report.built)} to build",
        file=sys.stderr,
    )


def _show_table(table: Table) -> None:
    """Folded to the terminal's width; in a pipe one line for each package, so that grep and cut work."""
    lines = [(r.name, r.version, r.source, r.made, megabytes(r.size_bytes), r.why) for r in table.rows]
    if sys.stdout.isatty():
        _show_folded(lines)
    else:
        heads = ("PACKAGE", "VERSION", "SOURCE", "FILE", "SIZE", "WHY")
        widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(5)]
        for line in (heads, *lines):
            cells = [cell.ljust(width) for cell, width in zip(line[:4], widths[:4], strict=True)]
            print("  ".join([*cells, line[4].rjust(widths[4]), line[5]]))
    print(
        f"{len(table.rows)} of {table.packages} packages; {megabytes(table.download_bytes)} to download in all; "
        f"lock {table.lock_sha256[:12]}",
        file=sys.stderr,
    )


def _show_folded(lines: list[tuple[str, str, str, str, str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table as Grid

    console = Console()
    console.width = min(console.width, WIDTH + 20)
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for head in ("PACKAGE", "VERSION", "SOURCE", "FILE"):
        grid.add_column(head, no_wrap=True)
    grid.add_column("SIZE", justify="right", no_wrap=True)
    grid.add_column("WHY", overflow="fold", min_width=20)
    for line in lines:
        grid.add_row(*line)
    console.print(grid, markup=False)


def _show_details(details: Details) -> None:
    for number, detail in enumerate(details.packages):
        if number:
            print()
        _show_detail(detail, details.profile)


def _show_detail(detail: Detail, profile: str) -> None:
    row = detail.row
    print(f"{row.name} {row.version}" + ("" if detail.installed else f"  (not installed by profile {profile})"))
    facts = {
        "source": row.source,
        "url": detail.url,
        "file": f"{row.made}  {detail.filename}  {megabytes(row.size_bytes)}" if detail.filename else row.made,
        "sha256": detail.sha256,
        "held by": row.held,
        "why": row.why,
    }
    for name, value in [*facts.items(), *(("rule", said) for said in detail.rules)]:
        if value:
            print(_field(name, value))
    if detail.paths:
        print(f"  required by {len(detail.paths)}:")
        for path in detail.paths[:SHOWN_PATHS]:
            print(f"    {' > '.join(path)}")
        if len(detail.paths) > SHOWN_PATHS:
            print(f"    and {len(detail.paths) - SHOWN_PATHS} more (--json lists all)")


def _field(name: str, value: str) -> str:
    """One indented line ``name  value``, folded at :data:`WIDTH`; a URL is never broken."""
    import textwrap

    return textwrap.fill(
        value,
        width=WIDTH,
        initial_indent=f"  {name:<8} ",
        subsequent_indent=" " * 11,
        break_long_words=False,
        break_on_hyphens=False,
    )


def megabytes(count: int) -> str:
    """Bytes as people read them: ``12.3 MB`` (10^6), below that ``45 kB``, above ``4.44 GB``."""
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{-(-count // 1000)} kB"
