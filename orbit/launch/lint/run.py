"""Judge manifests: text in, findings out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.core.files import read_file
from orbit.core.findings import Finding, Skipped
from orbit.errors import InputError
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.read.manifest import MAX_BYTES, form_of, read_manifest
from orbit.launch.lint.rules import RULES
from orbit.launch.lint.rules.clear_secret import hide, is_secret_name

FIX = "give Kubernetes or compose YAML, a submit file, a batch script, or a script with docker lines"
HEAD_BYTES = 1 << 16
"""Of a file, to tell what it is."""
SUFFIXES = (".yaml", ".yml", ".json", ".sub", ".submit", ".condor", ".jdf", ".sh", ".bash", ".sbatch", ".slurm", ".job")
"""Of files in a folder that are looked at; a file that is named is looked at whatever it is called."""
MOST_FILES = 100_000
"""Below a folder."""
HIDDEN = "..."
NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class Linted:
    """What was judged and what was found."""

    findings: tuple[Finding, ...]
    facts: dict[str, int]
    """Numbers of what was looked at."""
    skipped: tuple[Skipped, ...] = ()


def lint_text(
    text: bytes | str, name: str, *, known: Known = NOTHING_KNOWN, rules: frozenset[str] | None = None
) -> tuple[Finding, ...]:
    """What is wrong with one manifest; ``name`` is what findings call it. Never raises for what is in ``text``."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return judge(read_manifest(data, name), known, rules)


def lint_files(
    paths: Iterable[Path],
    known: Known = NOTHING_KNOWN,
    *,
    rules: frozenset[str] | None = None,
    base: Path | None = None,
) -> Linted:
    """Every file of ``paths``, and every manifest in those that are folders. Findings name files relative to ``base``.

    Raises :class:`InputError` for a path that is not there, cannot be read, or is a folder without any manifest.
    """
    skipped: list[Skipped] = []
    tally = _Tally(known, rules)
    for path in paths:
        if not path.is_dir():
            tally.add(_name(path, base), _read(path), named=True)
            continue
        members = manifests_in(path, skipped)
        if not members:
            raise InputError(f"{path}: no manifest in it", fix=FIX)
        for member in members:
            tally.add(_name(member, base), _read(member), named=False)
    return tally.result(skipped)


def lint_files_of(
    files: Iterable[tuple[str, bytes]], known: Known = NOTHING_KNOWN, *, rules: frozenset[str] | None = None
) -> Linted:
    """The same for texts that are in no file yet: (name, content)."""
    tally = _Tally(known, rules)
    for name, data in files:
        tally.add(name, data, named=True)
    return tally.result([])


class _Tally:
    """Findings and numbers of one call."""

    def __init__(self, known: Known, rules: frozenset[str] | None) -> None:
        self.known = known
        self.rules = rules
        self.findings: list[Finding] = []
        self.skipped: list[Skipped] = []
        self.facts = dict.fromkeys(("files", "workloads", "pods", "started_containers", "lines"), 0)

    def add(self, name: str, data: bytes, *, named: bool) -> None:
        manifest = read_manifest(data, name)
        if reason := _not_judged(manifest, named=named):
            self.skipped.append(Skipped(what=manifest.file, reason=reason))
            return
        self.findings += judge(manifest, self.known, self.rules)
        self.facts["files"] += 1
        self.facts["lines"] += manifest.text.count("\n")
        self.facts["workloads"] += len(manifest.workloads)
        self.facts["pods"] += sum(len(workload.pods) for workload in manifest.workloads)
        self.facts["started_containers"] += sum(1 for _seat in manifest.seats())

    def result(self, skipped: list[Skipped]) -> Linted:
        return Linted(tuple(self.findings), self.facts, (*skipped, *self.skipped))


def judge(manifest: Manifest, known: Known, rules: frozenset[str] | None = None) -> tuple[Finding, ...]:
    """Run the rules over the facts of one file; no value of a credential gets into a finding."""
    chosen = [rule for rule in RULES.values() if rules is None or rule.id in rules]
    found = [finding for rule in chosen for finding in rule.check(manifest, known)]
    if not found:
        return ()
    values = _secrets(manifest)
    return tuple(_hidden(finding, values) for finding in found)


def _not_judged(manifest: Manifest, *, named: bool) -> str:
    """Why a file says nothing that could be judged; empty when it does, or when that is a finding."""
    if not named and manifest.is_template:
        return "a template, not a manifest: render it first"
    if manifest.form == "shell" and not manifest.workloads:
        return "a script that starts no container"
    return ""


def is_manifest(path: Path) -> bool:
    """Whether a regular file is a manifest, by its content."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    if b"\0" in head:
        return False
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    return form_of(text, path.name) is not None


def has_manifest(folder: Path) -> bool:
    """Whether there is any manifest below a folder."""
    return next(_walk(folder, []), None) is not None


def manifests_in(folder: Path, skipped: list[Skipped] | None = None) -> tuple[Path, ...]:
    """The manifests below a folder, in order of their paths; hidden folders are left out. No link is followed."""
    return tuple(_walk(folder, [] if skipped is None else skipped))


def _walk(folder: Path, skipped: list[Skipped]) -> Iterator[Path]:
    looked = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        looked += len(names)
        for name in sorted(names):
            path = Path(root, name)
            if name.endswith(SUFFIXES) and path.is_file() and is_manifest(path):
                yield path
        if looked > MOST_FILES:
            reason = f"more than {MOST_FILES:,} files: only what came first was looked at"
            skipped.append(Skipped(what=str(folder), reason=reason))
            return


def _read(path: Path) -> bytes:
    try:
        return read_file(path, 2 * MAX_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix=FIX) from None


def _name(path: Path, base: Path | None) -> str:
    if base is not None and path.is_relative_to(base):
        return path.relative_to(base).as_posix()
    return str(path)


def _secrets(manifest: Manifest) -> list[str]:
    """Values of variables that are called like secrets: what no finding may repeat."""
    values = {
        env.value
        for _workload, _pod, container in manifest.seats()
        for env in container.env
        if env.value and len(env.value) > 3 and is_secret_name(env.name)
    }
    return sorted(values, key=len, reverse=True)


def _hidden(finding: Finding, values: Sequence[str]) -> Finding:
    def clean(text: str) -> str:
        for value in values:
            text = text.replace(value, HIDDEN)
        return hide(text, HIDDEN)

    return msgspec.structs.replace(
        finding,
        subject=hide(finding.subject, HIDDEN),  # a file may be called like a weak password
        message=clean(finding.message),
        evidence={key: clean(value) for key, value in finding.evidence.items()},
    )


def rule_list() -> Iterator[str]:
    """A line for each rule: its id and what holds when it finds nothing."""
    width = max(map(len, RULES))
    for rule in RULES.values():
        yield f"  {rule.id:{width}}  {rule.title}"
