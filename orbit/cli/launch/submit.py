"""Hand a job to the scheduler of a site.

What is rendered is judged first (`orbit launch lint`); a finding of severity error stops it, and there is no way round.
Values of secrets come from this shell; they are never printed and in no file that is kept. The job is found again by
its name with status, logs and cancel. Exit status 3: the scheduler cannot be reached; 4: refused.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.cli.launch.render import add_job_options
from orbit.errors import RefusedError

if TYPE_CHECKING:
    from orbit.core.findings import Finding
    from orbit.launch.plan import LaunchPlan
    from orbit.launch.render import File
    from orbit.launch.submit.model import JobRef


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_job_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="judge, and say what would be submitted")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Judge and submit."""
    from orbit.launch.job import load_job
    from orbit.launch.plan import make_plan
    from orbit.launch.render import default_form, render
    from orbit.launch.site.model import load_site
    from orbit.launch.submit.model import read_secrets

    plan = make_plan(load_job(args.recipe), load_site(args.site))
    form = args.form or default_form(plan)
    files = render(plan, form)
    findings = judged(files, plan.job.digest)
    secrets = read_secrets(plan.job.secrets)
    if args.dry_run:
        _tell(args, plan, form, files, findings)
        return 0
    ref = hand_over(plan, form, files, secrets)
    if args.json:
        print_json(ref)
    else:
        print(f"{ref.name}: submitted to {ref.scheduler} as {ref.id}")
        print(
            f"  orbit launch status {ref.name}; orbit launch logs --follow {ref.name}; orbit launch cancel {ref.name}"
        )
    return 0


def judged(files: tuple[File, ...], digest: str) -> list[Finding]:
    """What the lint says of ``files``, which run the image ``digest``; all of it on stderr.

    Raises :class:`RefusedError` for an error among it.
    """
    import sys

    from orbit.core.findings import Severity
    from orbit.launch.lint.known import known_image
    from orbit.launch.lint.run import lint_text

    known = known_image(image=digest)
    found = [finding for file in files for finding in lint_text(file.text, file.name, known=known)]
    shown = [finding for finding in found if finding.severity is not Severity.NOTE]
    for finding in shown:
        print(f"{finding.severity}: {finding.rule}: {finding.subject}: {finding.message}", file=sys.stderr)
        if finding.fix:
            print(f"  fix: {finding.fix}", file=sys.stderr)
    fatal = [finding for finding in found if finding.fatal]
    if fatal:
        raise RefusedError(
            f"not submitted: {len(fatal)} error(s), the first {fatal[0].rule} in {fatal[0].subject}",
            fix=fatal[0].fix or "orbit launch render and orbit launch lint show the line",
        )
    return found


def hand_over(plan: LaunchPlan, form: str, files: tuple[File, ...], secrets: dict[str, str]) -> JobRef:
    """Submit, and remember it. Raises :class:`RefusedError` while the last job of that name has not ended."""
    from orbit.core.files import exclusive
    from orbit.launch.submit.model import REF_NAME, job_folder, load_ref, open_scheduler, save_files, save_ref

    folder = job_folder(plan.name)
    with exclusive(folder.with_name(f".{plan.name}.lock"), f"submitting {plan.name}"):
        if (folder / REF_NAME).exists():
            last = load_ref(plan.name)
            status = open_scheduler(last.scheduler).status(last)
            if not status.phase.ended:
                raise RefusedError(
                    f"{plan.name}: a job of this name is {status.phase.value} ({last.scheduler} {last.id}, site "
                    f"{last.site})",
                    fix=f"orbit launch cancel {plan.name}, or another name in the recipe",
                )
        save_files(folder, files)
        ref = open_scheduler(plan.site.scheduler).submit(plan, form, files, folder, secrets)
        save_ref(ref)
    return ref


def _tell(
    args: argparse.Namespace, plan: LaunchPlan, form: str, files: tuple[File, ...], findings: list[Finding]
) -> None:
    """What would be submitted: names of files and secrets, no value."""
    said = {
        "name": plan.name,
        "scheduler": plan.site.scheduler,
        "form": form,
        "site": plan.site.name,
        "identity": plan.identity,
        "image": plan.image,
        "nodes": plan.job.nodes,
        "gpus per node": plan.job.gpus_per_node,
        "files": [file.name for file in files],
        "secrets": list(plan.job.secrets),
        "findings": len(findings),
    }
    if args.json:
        print_json(said | {"findings": findings})
        return
    for name, value in said.items():
        print(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
