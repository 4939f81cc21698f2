"""Write what the scheduler of a site is told of a job.

The same recipe, site and form give the same bytes. Nothing is submitted, nothing is asked of the scheduler, and no
secret is read: files name secrets, they do not hold them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """The recipe, the site and the form: the same for render and submit."""
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help="TOML file with a table [launch]")
    parser.add_argument("--site", required=True, metavar="SITE", help="a shipped site by name, or the path of a file")
    parser.add_argument(
        "--form", default="", metavar="FORM", help="a spelling of the scheduler's (default: what the site names)"
    )


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_job_options(parser)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write the files there (default: print them)")
    parser.add_argument("--dry-run", action="store_true", help="with --out: say which files, and write none")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Render and print or write."""
    import sys

    from orbit.core.files import write_atomic
    from orbit.launch.job import load_job
    from orbit.launch.plan import make_plan
    from orbit.launch.render import render
    from orbit.launch.site.model import load_site

    plan = make_plan(load_job(args.recipe), load_site(args.site))
    files = render(plan, args.form)
    if args.out and not args.dry_run:
        for file in files:
            write_atomic(args.out / file.name, file.text.encode(), mode=file.mode)
    if args.json:
        print_json({"name": plan.name, "identity": plan.identity, "scheduler": plan.site.scheduler, "files": files})
    elif args.out:
        print("\n".join(str(args.out / file.name) for file in files))
    else:
        for file in files:
            if len(files) > 1:
                print(f"# --- {file.name} ---")
            sys.stdout.write(file.text)
    return 0
