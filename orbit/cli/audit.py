"""Prove environments, wheels, images and locks without running anything in them.

TARGET is a wheel, a folder of wheels, an installed environment (a prefix, a virtual environment, a conda environment or
a site-packages folder), an OCI layout, an image archive (docker save or OCI tar), docker-daemon:NAME:TAG, podman:NAME,
a lock (uv.lock), or manifests: Kubernetes or compose YAML, submit files, batch scripts, docker lines, or a folder of
them. "orbit audit explain [RULE]" prints the page of a rule, "orbit audit diff A B" what changed between
two targets or two saved JSON reports. Needs no GPU and no CUDA toolkit. Exit status 0 when clean, 1 with findings, 2
when a target is none of these, 3 when a tool (docker) is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypedDict

if TYPE_CHECKING:
    from orbit.audit.reports.report import AuditReport
    from orbit.audit.run import Options
    from orbit.audit.targets import Target
    from orbit.core.console import Progress

HELP = "prove environments, wheels, images and locks: device code, integrity, loading, symbols, provenance"
MAX_UID = 2**32 - 2
"""Linux user ids; the number above means nobody in particular to the kernel."""
FORMATS = ("text", "json", "sarif", "junit", "html")
LEVELS = ("error", "warning", "note", "never")
AUDITED = (".whl", ".lock", ".tar", ".tgz", ".zst", ".gz")
"""Ends of names of files that are never manifests; they may be large."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``orbit audit``."""
    from orbit.cli import add_json_option, add_profile_option

    parser.add_argument("targets", nargs="*", metavar="TARGET", help='what to audit; or "explain [RULE]", "diff A B"')
    add_profile_option(parser)
    parser.add_argument(
        "--gpu",
        action="append",
        metavar="CAP",
        help="compute capability to serve (9.0), instead of the profile's targets and expectations; repeatable",
    )
    parser.add_argument(
        "--uid", type=int, default=65534, metavar="N", help="user whose access is judged (default: 65534, nobody)"
    )
    parser.add_argument("--deep", action="store_true", help="read the kernels inside device code too (about a minute)")
    parser.add_argument("--baseline", metavar="FILE", help="with --deep: compare the kernels with those saved in FILE")
    parser.add_argument("--save-baseline", metavar="FILE", help="with --deep: save what kernels there are")
    parser.add_argument(
        "--hash", action="store_true", help="read and hash every file, also those unchanged since the last audit"
    )
    parser.add_argument("--rule", action="append", metavar="RULE", help="run this rule only; repeatable")
    parser.add_argument("--skip", action="append", metavar="RULE", help="do not run this rule; repeatable")
    parser.add_argument(
        "--expectations",
        action="append",
        metavar="FILE",
        help="declared exceptions and waivers of your own; repeatable",
    )
    parser.add_argument("--lock", metavar="FILE", help="uv.lock that the targets claim to be an installation of")
    parser.add_argument(
        "--wheels", action="append", metavar="DIR", help="lock: folder of wheels that need not be asked for; repeatable"
    )
    parser.add_argument("--offline", action="store_true", help="lock: ask no server about its wheels")
    parser.add_argument("--ray-version", metavar="VERSION", help="manifests: Ray's version in the images they name")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the result (default: text, on stderr)")
    parser.add_argument("--output", metavar="FILE", help="write the result there instead of to stdout")
    parser.add_argument(
        "--fail-on", choices=LEVELS, default="error", metavar="LEVEL", help="error (default), warning, note or never"
    )
    parser.add_argument("--verbose", action="store_true", help="text: every subject and every declared exception")
    add_json_option(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the report and end")


def run(args: argparse.Namespace) -> int:
    """Audit, print, and say by the exit status whether anything is wrong."""
    from orbit.audit.reports.report import json_schema
    from orbit.errors import ExitCode

    if args.schema:
        _put(json_schema())
        return ExitCode.OK
    if args.targets[:1] == ["explain"]:
        return _explain(args.targets[1:])
    if args.targets[:1] == ["diff"]:
        return _diff(args)
    report = _audit(args.targets, _options(args), args.ray_version)
    _write(args, report)
    if report.unread:
        return ExitCode.USAGE
    return ExitCode.FINDINGS if report.fails_at(args.fail_on) else ExitCode.OK


def _options(args: argparse.Namespace) -> Options:
    """The options of a call. Raises :class:`orbit.errors.InputError` for what contradicts itself or does not exist."""
    from orbit.audit.rules import RULE_IDS
    from orbit.audit.run import Options
    from orbit.core.store import cache_root
    from orbit.errors import InputError
    from orbit.launch.lint.rules import RULES as LINT_RULES
    from orbit.profile.model import load_profile

    if not 0 <= args.uid <= MAX_UID:
        raise InputError(f"--uid {args.uid}: not a user id", fix="give a number such as 65534")
    for option in ("baseline", "save_baseline"):
        if getattr(args, option) and not args.deep:
            raise InputError(f"--{option.replace('_', '-')} without --deep", fix="add --deep")
    for written in (args.output, args.save_baseline):
        if written and not Path(written).absolute().parent.is_dir():
            raise InputError(f"{written}: no folder to write it into", fix="make the folder, or name another file")
    for name in (*(args.rule or ()), *(args.skip or ())):
        if name not in RULE_IDS and name not in LINT_RULES:
            raise InputError(f"no rule named {name!r}", fix='"orbit audit explain" lists the rules')
    profile = load_profile(args.profile)
    if args.gpu:
        from orbit.audit.targets import profile_for

        profile = profile_for(profile, tuple(args.gpu))
    return Options(
        profile,
        uid=args.uid,
        rules=frozenset(args.rule or (*RULE_IDS, *LINT_RULES)) - frozenset(args.skip or ()),
        deep=args.deep,
        cache=None if args.hash else cache_root() / "facts",
        expectations=tuple(Path(name) for name in args.expectations or ()),
        lock=Path(args.lock) if args.lock else None,
        wheels=tuple(Path(name) for name in args.wheels or ()),
        offline=args.offline,
        baseline=Path(args.baseline) if args.baseline else None,
        save_baseline=Path(args.save_baseline) if args.save_baseline else None,
    )


def _audit(specs: list[str], options: Options, ray_version: str | None = None) -> AuditReport:
    """Manifests are judged by the lint, everything else by the audit; one report, in the order of ``specs``."""
    from orbit.audit.run import audit_targets
    from orbit.errors import InputError

    if not specs:
        raise InputError("no target given", fix="orbit audit TARGET... (see orbit audit --help)")
    known = {spec: _detect(spec) for spec in dict.fromkeys(specs)}
    manifests = [spec for spec in specs if known[spec] is None]
    report = audit_targets([target for spec in specs if (target := known[spec])], options, _progress())
    return _with_manifests(report, specs, manifests, options, ray_version) if manifests else report


def _detect(spec: str) -> Target | None:
    """What the audit itself knows; None: a manifest or a folder of them. Raises :class:`InputError` for all else."""
    from orbit.audit.targets import detect
    from orbit.errors import InputError

    try:
        return detect(spec)
    except InputError:
        path = Path(spec)
        if path.suffix in AUDITED or not path.exists():
            raise
        from orbit.launch.lint.run import has_manifest, is_manifest

        if has_manifest(path) if path.is_dir() else path.is_file() and is_manifest(path):
            return None
        raise


def _with_manifests(
    report: AuditReport, specs: list[str], manifests: list[str], options: Options, ray_version: str | None
) -> AuditReport:
    import msgspec

    from orbit.audit.known.policy import load_policy
    from orbit.core.findings import Skipped
    from orbit.errors import InputError
    from orbit.launch.lint.known import known_image
    from orbit.launch.lint.report import lint_target

    policy = load_policy(options.profile, uid=options.uid, today=options.today, extra=options.expectations)
    known = known_image(ray_version or "")
    found, unread = {item.target: [item] for item in report.reports}, list(report.unread)
    for spec in dict.fromkeys(manifests):
        try:
            found[spec] = [lint_target(spec, policy, known, options.rules)]
        except InputError as error:
            if len(specs) == 1:
                raise
            unread.append(Skipped(what=spec, reason=str(error)))
    others = [item for item in report.reports if item.target not in specs]
    ordered = [item for spec in dict.fromkeys(specs) for item in found.get(spec, [])]
    return msgspec.structs.replace(report, reports=(*ordered, *others), unread=tuple(unread))


def _progress() -> Progress:
    from orbit.core.console import Console

    return Console("audit: ")


def _write(args: argparse.Namespace, report: AuditReport) -> None:
    """The result in the wanted format, and always the text for people on stderr."""
    from orbit.audit.reports.text import render_reports
    from orbit.core.files import write_atomic

    form = "json" if args.json else args.format
    if form == "text" and args.output:
        write_atomic(Path(args.output), render_reports(report, verbose=args.verbose).encode())
    sys.stderr.write(render_reports(report, verbose=args.verbose, **_terminal(sys.stderr)))
    if form != "text":
        from orbit.audit.reports.formats import render

        content = render(form, report)
        if args.output:
            write_atomic(Path(args.output), content)
        else:
            _put(content)


def _put(content: bytes) -> None:
    """UTF-8 to stdout, whatever the terminal's encoding is: a page or a report is a file."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(content.decode())
    else:
        sys.stdout.flush()
        buffer.write(content)


class Look(TypedDict):
    """How text is laid out for one stream."""

    width: int | None
    color: bool


def _terminal(stream: TextIO) -> Look:
    """A terminal is filled and coloured; a file or a pipe gets plain text of a fixed width."""
    if not stream.isatty():
        return {"width": None, "color": False}
    return {"width": shutil.get_terminal_size().columns, "color": "NO_COLOR" not in os.environ}


def _explain(rules: list[str]) -> int:
    from orbit.audit.reports.explain import explain, list_rules
    from orbit.errors import ExitCode

    look = _terminal(sys.stdout)
    if rules:
        sys.stdout.write("\n".join(explain(rule, **look) for rule in rules))
    else:
        from orbit.launch.lint.run import rule_list

        sys.stdout.write("\n".join((list_rules().rstrip(), "", "manifests", *rule_list(), "")))
    return ExitCode.OK


def _diff(args: argparse.Namespace) -> int:
    """Two targets, or two reports saved with --json, compared."""
    from orbit.audit.reports.diff import diff_reports, load_report
    from orbit.audit.reports.diff_text import render_diff
    from orbit.core.records import compact_json
    from orbit.errors import ExitCode, InputError

    if len(args.targets) != 3:
        raise InputError("diff compares two things", fix="orbit audit diff A B: two targets, or two saved JSON reports")
    options = _options(args)
    sides = [
        load_report(Path(spec)) if spec.endswith(".json") else _audit([spec], options).reports[0]
        for spec in args.targets[1:]
    ]
    difference = diff_reports(*sides)
    sys.stderr.write(render_diff(difference, verbose=args.verbose, **_terminal(sys.stderr)))
    if args.json or args.format == "json":
        _put(compact_json(difference) + b"\n")
    return ExitCode.FINDINGS if difference.worse else ExitCode.OK
