"""``RELEASE.md``: the page a person reads first, made from the files of the bundle and the decision alone."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.audit.reports.report import TargetReport
from orbit.core.amounts import format_bytes
from orbit.core.records import convert, parse_toml
from orbit.release.attest.strict import strict_json
from orbit.release.bundle import facts
from orbit.release.bundle.facts import Files
from orbit.release.bundle.model import COVERAGE, CYCLONEDX, EVIDENCE, GATE, IMAGE_AUDIT, KEYS, RUN, Index, Role
from orbit.release.bundle.targets import headline
from orbit.release.coverage import WAIVED, Coverage
from orbit.release.evidence import Result
from orbit.release.gate.decide import Decision
from orbit.release.gate.model import Definition, SkipWaiver
from orbit.release.gate.records import owed
from orbit.release.sbom.model import KINDS
from orbit.release.sbom.write import LICENSED

HOST = "REGISTRY"
"""Stands in commands for what a bundle does not know: where its image was pushed to."""
SHOWN = 12
ROLE_NAMES = {
    Role.LOCK: "the lock: every Python package with its hash",
    Role.PROJECT: "the project that the lock is of",
    Role.PROFILE: "the profile: GPUs, layers, checks",
    Role.IMAGE: "manifest and configuration of the image",
    Role.SEAL: "the seal of the run: the hash of every record",
    Role.KERNELS: "how each kernel came to be",
    Role.AUDIT: "audit reports: environment, image",
    Role.SBOM: "bills of materials: CycloneDX, SPDX",
    Role.SMOKE: "smoke report of the run",
    Role.RECORD: "other records of the run",
    Role.PROVENANCE: "SLSA v1 provenance, signed",
    Role.COVERAGE: "which GPU finds its code in which file, signed",
    Role.EVIDENCE: "statements of other machines, signed there",
    Role.DEFINITION: "what a release is by definition",
    Role.QUALIFICATION: "records of qualifications",
    Role.KEY: "public keys of the signers (information only)",
}


def render_page(index: Index, decision: Decision, files: Files) -> bytes:
    """The page of a bundle of these ``files``. Raises :class:`InputError` when one of them cannot be read."""
    sections = (
        _top(index),
        _gpus(index, files),
        _pull(index),
        _verify(files),
        _inside(files),
        _checked(decision),
        _deviations(files),
        _waivers(decision, files),
        _licences(files),
        _not_proven(index, files),
        _listing(index),
    )
    return ("\n\n".join("\n".join(section) for section in sections) + "\n").encode()


def _top(index: Index) -> Iterator[str]:
    image = index.image
    yield headline(image.name, index.version, index.targets)
    yield ""
    yield f"Image `{image.reference}`"
    yield f"({format_bytes(image.pull_bytes)} to pull, {image.layers} layers), profile {index.profile},"
    yield f"made from commit `{index.commit}`, decided {index.created}."


def _gpus(index: Index, files: Files) -> Iterator[str]:
    coverage = convert(facts.statement_of(files, COVERAGE).predicate, Coverage, COVERAGE)
    totals = {total.name: total for total in coverage.targets}
    yield from _table(
        (
            "GPU",
            "architecture",
            "was it shown to work",
            "files with machine code for it",
            "to be compiled by the driver",
            "with nothing for it",
        ),
        [
            (
                f"{target.name} ({', '.join(target.devices)})",
                f"{target.capability}, {target.feature}",
                f"yes: {', '.join(f'`{path}`' for path in target.evidence)}"
                if target.state == "proven"
                else f"**UNPROVEN**: {target.why}",
                *(str(totals[target.name].files.get(kind, 0)) for kind in ("sass", "ptx-jit", "none")),
            )
            for target in index.targets
        ],
    )


def _pull(index: Index) -> Iterator[str]:
    reference = f"{HOST}/{index.image.reference}"
    yield "## Pull it, by digest"
    yield ""
    yield "```"
    yield f"orbit image pull {reference} --out ../image"
    yield f"docker pull {reference}"
    yield "```"
    yield ""
    yield f"`{HOST}` is where the publisher pushed it. A tag may name another image tomorrow; a digest never does."


def _verify(files: Files) -> Iterator[str]:
    yield "## Verify it, without a network"
    yield ""
    yield "```"
    yield "sha256sum -c SHA256SUMS"
    yield "orbit gate verify . --key ../PUBLISHER.pub --image ../image"
    yield "```"
    yield ""
    yield "The first says that every file is as listed; the second who signed the list, what follows from the evidence,"
    yield "and that the image you pulled is this one. Get `PUBLISHER.pub` from the publisher and not from here: `keys/`"
    yield "only tells which keys signed what. Put nothing into this folder: a file too many is refused as well."
    yield ""
    yield "By hand, with `openssl`: docs/release.md."
    keys = sorted(path for path in files if path.startswith(KEYS))
    if keys:
        yield f"Keys in here: {', '.join(f'`{path}`' for path in keys)}."
    yield "`release.intoto.json` is signed last and names every other file: one signature is for all of them."


def _inside(files: Files) -> Iterator[str]:
    counts = facts.counts_by_kind(strict_json(files[CYCLONEDX], CYCLONEDX))
    report = facts.record(files, IMAGE_AUDIT, TargetReport)
    yield "## What is inside"
    yield ""
    rows = [(name, str(counts[kind])) for kind, name in KINDS.items() if counts.get(kind)]
    rows += [
        ("files", f"{report.facts.get('files', 0):,}"),
        ("shared objects", f"{report.facts.get('shared_objects', 0):,}"),
    ]
    rows += [("files with device code", str(len(report.coverage)))]
    yield from _table(("in the image", "how many"), [row for row in rows if row[1] != "0"])
    yield ""
    manifests = facts.kernels_of(files).manifests
    yield f"Kernels ({len(manifests)}):"
    yield ""
    for manifest in sorted(manifests, key=lambda item: item.dist):
        how = "compiled here" if manifest.mode == "source" else "published, and verified"
        yield f"- {manifest.dist} {manifest.version}: {how}"


def _checked(decision: Decision) -> Iterator[str]:
    yield "## What was checked"
    yield ""
    yield from _table(
        ("requirement", "result", "what was seen", "in"),
        [
            (
                item.requirement,
                item.mark.value,
                f"{item.subject}: {item.reason}" if item.subject else item.reason,
                ", ".join(f"`{_place(name)}`" for name in item.file.split(", ")) if item.file else "",
            )
            for item in decision.judgements
        ],
    )


def _place(name: str) -> str:
    """A file as the gate names it, by its path in the bundle."""
    return EVIDENCE + name if name.endswith(".intoto.json") else RUN + name


def _deviations(files: Files) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for report in facts.audits_of(files).values():
        for item in report.expected:
            subjects = groups.setdefault((item.what, item.reason), [])
            if item.subject not in subjects:
                subjects.append(item.subject)
    count = sum(map(len, groups.values()))
    yield f"## Known deviations ({count})"
    yield ""
    if not groups:
        yield "None."
        return
    yield "Declared with their reason before the image was audited, and found to be just that:"
    yield ""
    for (what, reason), subjects in groups.items():
        yield f"- {_listed(subjects)}: {_clean(what)}. {_clean(reason)}"


def _waivers(decision: Decision, files: Files) -> Iterator[str]:
    rows: dict[str, tuple[str, str, str]] = {}  # what environment and image have alike is one
    for report in facts.audits_of(files).values():
        for finding in report.findings:
            if finding.waiver:
                parts = WAIVED.fullmatch(finding.waiver)
                reason, until = (parts["reason"], parts["expires"]) if parts else (finding.waiver, "never")
                name = f"{finding.rule} {finding.subject}"
                rows.setdefault(name, (f"{name}: {finding.message}", reason, until))
    groups: dict[tuple[str, str, str], list[str]] = {}
    for part in _left_out(decision.profile, files):
        if part.waiver is not None:
            groups.setdefault((part.stage, part.waiver.reason, str(part.waiver.expires)), []).append(part.what)
    count = len(rows) + sum(map(len, groups.values()))
    for (stage, reason, until), names in groups.items():
        what = f"{stage}: left out: {', '.join(names)}"
        rows[what] = (what, reason, until)
    yield f"## Waivers ({count})"
    yield ""
    if rows:
        yield from _table(("what", "accepted because", "until"), sorted(rows.values(), key=lambda row: row[2]))
    else:
        yield "None."


@dataclass(frozen=True, slots=True)
class _Part:
    """Something that a stage left out though it could have been done."""

    stage: str
    what: str
    reason: str
    waiver: SkipWaiver | None


def _left_out(profile: str, files: Files) -> Iterator[_Part]:
    definition = convert(parse_toml(files[GATE], Path(GATE)), Definition, GATE)
    left = [(stage.stage, part) for stage in facts.summary_of(files).stages for part in stage.skipped]
    for path, report in facts.audits_of(files).items():
        stage = posixpath.basename(path).removesuffix(".json")
        left += [(stage, part) for part in owed(report)]
    for stage, part in left:
        waivers = (item for item in definition.waivers.skipped if item.covers(stage, part.what, profile))
        yield _Part(stage, part.what, part.reason, next(waivers, None))


def _licences(files: Files) -> Iterator[str]:
    document = strict_json(files[CYCLONEDX], CYCLONEDX)
    counts = facts.counts_by_kind(document)
    total = sum(count for kind, count in counts.items() if kind in LICENSED)
    unknown = [item for item in facts.unknown_licences(files[CYCLONEDX], CYCLONEDX) if item.kind in LICENSED]
    yield f"## Licences unknown ({len(unknown)} of {total})"
    yield ""
    yield f"Of the {total} Python distributions, Debian packages and interpreters in the image:"
    yield ""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in unknown:
        groups.setdefault((item.kind, item.why), []).append(f"{item.name} {item.version}".strip())
    for (kind, why), names in groups.items():
        yield f"- {KINDS.get(kind, kind)}, {_clean(why)}: {', '.join(names)}"
    if not unknown:
        yield "None."


def _not_proven(index: Index, files: Files) -> Iterator[str]:
    yield "## What was not proven"
    yield ""
    for target in index.targets:
        if target.state == "unproven":
            yield f"- **{target.name}** ({', '.join(target.devices)}): {target.why}"
    for stage in facts.summary_of(files).stages:
        if stage.result is Result.SKIPPED:
            yield f"- stage {stage.stage} was skipped: {_clean(stage.reason)}"
    groups: dict[tuple[str, str], list[str]] = {}
    for part in _left_out(index.profile, files):
        groups.setdefault((part.stage, part.reason), []).append(part.what)
    for (stage_name, reason), names in groups.items():
        yield f"- {stage_name}: {', '.join(names)}: {_clean(reason)}"
    yield "- that a package does what its authors say, or is free of faults nobody knows: nothing here is about that"


def _listing(index: Index) -> Iterator[str]:
    yield "## Files of this bundle"
    yield ""
    rows = []
    for role, name in ROLE_NAMES.items():
        found = [item for item in index.files if item.role is role]
        if found:
            folder = posixpath.commonpath([posixpath.dirname(item.path) for item in found])
            places = [f"{folder}/"] if len(found) > 2 else [item.path for item in found]
            where = ", ".join(f"`{place}`" for place in places)
            rows.append((name, where, str(len(found)), format_bytes(sum(item.size for item in found))))
    yield from _table(("what", "where", "files", "size"), rows)
    yield ""
    yield "Beside them: this page, `bundle.json` (the same for programs), `SHA256SUMS`, and `release.intoto.json` (the"
    yield "decision and the hash of every other file, signed)."


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_clean(cell) for cell in row)} |"


def _clean(text: str) -> str:
    """On one line, and with nothing that ends a cell."""
    return " ".join(text.split()).replace("|", "\\|").rstrip(".")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:SHOWN]) + more
