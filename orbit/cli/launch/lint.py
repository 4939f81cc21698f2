"""Judge manifests: those of a recipe on a site, or any others.

With --site the one argument is a recipe: what `orbit launch render` would write is judged. Without it arguments are
files and folders: Kubernetes or compose YAML, submit files, batch scripts, scripts with docker lines. The same as
`orbit audit FILE`. Exit status 1 when there is an error among the findings.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, add_profile_option

if TYPE_CHECKING:
    from orbit.audit.reports.report import TargetReport

FORMATS = ("text", "json", "sarif", "junit", "html")
LEVELS = ("error", "warning", "note", "never")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="manifests or folders of them; with --site one recipe")
    parser.add_argument(
        "--site", metavar="SITE", help="render the recipe for this site (a name or a path) and judge that"
    )
    parser.add_argument("--form", default="", metavar="FORM", help="with --site: a spelling of the scheduler's")
    parser.add_argument("--ray-version", metavar="VERSION", help="Ray's version in the images that are named")
    parser.add_argument("--rule", action="append", metavar="RULE", help="run this rule only; repeatable")
    parser.add_argument("--skip", action="append", metavar="RULE", help="do not run this rule; repeatable")
    parser.add_argument("--expectations", action="append", metavar="FILE", help="waivers of your own; repeatable")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the result (default: text, on stderr)")
    parser.add_argument(
        "--fail-on", choices=LEVELS, default="error", metavar="LEVEL", help="error (default), warning, note or never"
    )
    parser.add_argument("--verbose", action="store_true", help="text: every subject, and what is waived")
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Judge, print, and say by the exit status whether anything is wrong."""
    from orbit import __version__
    from orbit.audit.reports.formats import render
    from orbit.audit.reports.report import AuditReport
    from orbit.audit.reports.text import render_reports
    from orbit.errors import ExitCode

    report = AuditReport(orbit=__version__, reports=_reports(args))
    sys.stderr.write(render_reports(report, verbose=args.verbose))
    form = "json" if args.json else args.format
    if form != "text":
        sys.stdout.write(render(form, report).decode())
    return ExitCode.FINDINGS if report.fails_at(args.fail_on) else ExitCode.OK


def _reports(args: argparse.Namespace) -> tuple[TargetReport, ...]:
    from orbit.audit.known.policy import load_policy
    from orbit.errors import InputError
    from orbit.launch.lint.known import known_image
    from orbit.launch.lint.report import lint_target
    from orbit.launch.lint.rules import RULES
    from orbit.profile.model import load_profile

    for name in (*(args.rule or ()), *(args.skip or ())):
        if name not in RULES:
            raise InputError(f"no rule named {name!r} for manifests", fix='"orbit audit explain" lists the rules')
    rules = frozenset(args.rule or RULES) - frozenset(args.skip or ())
    extra = tuple(Path(name) for name in args.expectations or ())
    policy = load_policy(load_profile(args.profile), extra=extra)
    if not args.site:
        known = known_image(args.ray_version or "")
        return tuple(lint_target(name, policy, known, rules) for name in args.files)
    if len(args.files) != 1:
        raise InputError(f"--site with {len(args.files)} recipes", fix="name one recipe")
    return (_rendered(args, rules),)


def _rendered(args: argparse.Namespace, rules: frozenset[str]) -> TargetReport:
    """What a recipe becomes on a site, judged before it is written anywhere."""
    from orbit.audit.known.policy import load_policy
    from orbit.launch.job import load_job
    from orbit.launch.lint.known import known_image
    from orbit.launch.lint.report import report_of
    from orbit.launch.lint.run import lint_files_of
    from orbit.launch.plan import make_plan
    from orbit.launch.render import render
    from orbit.launch.site.model import load_site
    from orbit.profile.model import load_profile

    plan = make_plan(load_job(Path(args.files[0])), load_site(args.site))
    files = render(plan, args.form)
    known = known_image(args.ray_version or "", image=plan.job.digest)
    linted = lint_files_of(((file.name, file.text.encode()) for file in files), known, rules=rules)
    policy = load_policy(load_profile(args.profile), extra=tuple(Path(name) for name in args.expectations or ()))
    return report_of(f"{args.files[0]} on {plan.site.name}", linted, policy, rules)
