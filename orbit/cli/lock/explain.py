"""The pin table: package, version, source, wheel or built, why.

Without PACKAGE: all that is declared or held. With it: also who requires it and its rules.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.core.amounts import format_bytes

if TYPE_CHECKING:
    from orbit.profile.explain import Detail, Details, Table

WIDTH = 100
SHOWN_PATHS = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="names in the lock, whose whole story is told")
    parser.add_argument("--all", action="store_true", help="every package the profile installs")
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the lock of the profile."""
    from orbit.core.paths import checkout_root
    from orbit.errors import ExitCode, InputError
    from orbit.profile.explain import explain_packages, pin_table
    from orbit.profile.model import load_profile
    from orbit.profile.place import profile_lock
    from orbit.profile.policy import load_policy

    if args.packages and args.all:
        raise InputError("--all together with package names", fix="give one or the other")
    root, profile = checkout_root(), load_profile(args.profile)
    lock, policy = profile_lock(profile, root), load_policy(root, profile.policies)
    if args.packages:
        details = explain_packages(lock, policy, profile, args.packages)
        print_json(details) if args.json else _show_details(details)
    else:
        table = pin_table(lock, policy, profile, everything=args.all)
        print_json(table) if args.json else _show_table(table)
    return ExitCode.OK


def _show_table(table: Table) -> None:
    """Folded to the terminal's width; in a pipe one line for each package, so that grep and cut work."""
    lines = [(r.name, r.version, r.source, r.made, format_bytes(r.size_bytes), r.why) for r in table.rows]
    if sys.stdout.isatty():
        _show_folded(lines)
    else:
        heads = ("PACKAGE", "VERSION", "SOURCE", "FILE", "SIZE", "WHY")
        widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(5)]
        for line in (heads, *lines):
            cells = [cell.ljust(width) for cell, width in zip(line[:4], widths[:4], strict=True)]
            print("  ".join([*cells, line[4].rjust(widths[4]), line[5]]))
    print(
        f"{len(table.rows)} of {table.packages} packages; {format_bytes(table.download_bytes)} to download in all; "
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
        "file": f"{row.made}  {detail.filename}  {format_bytes(row.size_bytes)}" if detail.filename else row.made,
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
