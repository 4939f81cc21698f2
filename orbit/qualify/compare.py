"""Two records compared: bit by bit on one architecture, by tolerance and tokens across architectures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orbit.core.records import Record
from orbit.errors import InputError
from orbit.qualify.deltas import deltas, exceeded, outcome
from orbit.qualify.model import Definition, Tolerance
from orbit.qualify.records import CaseRecord, Deltas, FirstDifference, Qualification, Verdict, load_record
from orbit.qualify.sidefile import TensorFile, open_tensors
from orbit.qualify.trace import first_difference, label, origins, same_structure, unequal

ORIGINS = 8

type Outcome = Literal["equal", "within", "different", "unproven", "skipped"]
type Mode = Literal["bits", "tolerance"]


@dataclass(frozen=True, slots=True)
class Side:
    """A record and its tensors."""

    record: Qualification
    tensors: TensorFile


class Changed(Record, frozen=True, kw_only=True):
    """One thing that is not the same on both sides; a possible cause."""

    name: str
    left: str
    right: str


class CaseComparison(Record, frozen=True, kw_only=True):
    """One path in one type."""

    path: str
    dtype: str
    result: Outcome
    """``equal``: every bit. ``within``: the stated tolerance. ``unproven``: not repeatable on a side, so whatever
    differs says nothing. ``skipped``: not run on a side."""
    reason: str = ""
    entries: int = 0
    """Tensors compared."""
    differing: int = 0
    first: FirstDifference | None = None
    origins: tuple[str, ...] = ()
    """Where a difference begins though all inputs are equal, at most :data:`ORIGINS`; the first one is ``first``."""
    deltas: Deltas | None = None
    tolerance: Tolerance | None = None
    exceeded: tuple[str, ...] = ()
    """In what the tolerance is exceeded; it decides across architectures and is told on one."""


class Summary(Record, frozen=True, kw_only=True):
    """One side, in short."""

    image: str
    recorded: str
    verdict: Verdict
    device: str
    architecture: str


class Comparison(Record, frozen=True, kw_only=True):
    """The result (docs/schemas/qualification-comparison.json)."""

    schema: Literal["orbit.qualification-comparison/1"] = "orbit.qualification-comparison/1"
    verdict: Verdict
    """``failed``: a case differs. ``unproven``: none does, and none is proven equal or within."""
    mode: Mode
    """``bits``: one architecture. ``tolerance``: two."""
    definition: str
    left: Summary
    right: Summary
    changed: tuple[Changed, ...]
    counts: dict[Outcome, int]
    cases: tuple[CaseComparison, ...]


def load_side(path: Path) -> Side:
    """Read a record and open its tensors. Raises :class:`InputError`."""
    record = load_record(path)
    return Side(record, open_tensors(path, record))


def compare(left: Side, right: Side, definition: Definition) -> Comparison:
    """Compare two records of ``definition``. Raises :class:`InputError` for records of two batches or another one."""
    ours, theirs = left.record, right.record
    _require_one_batch(ours, theirs, definition)
    mode: Mode = "bits" if _architecture(ours) == _architecture(theirs) else "tolerance"
    pairs = _pairs(ours, theirs)
    sides = _Sides(left, right, mode, definition)
    cases = tuple(sides.compare(key, one, other) for key, (one, other) in pairs)
    counts: dict[Outcome, int] = dict(Counter(case.result for case in cases))
    verdict: Verdict = "passed" if counts.get("equal", 0) + counts.get("within", 0) else "unproven"
    return Comparison(
        verdict="failed" if counts.get("different") else verdict,
        mode=mode,
        definition=definition.name,
        left=_summary(ours),
        right=_summary(theirs),
        changed=tuple(_changed(ours, theirs)),
        counts=counts,
        cases=cases,
    )


def _require_one_batch(left: Qualification, right: Qualification, definition: Definition) -> None:
    if left.definition != right.definition:
        names = ("name", "identity", "batch", "weights")
        what = next(name for name in names if getattr(left.definition, name) != getattr(right.definition, name))
        raise InputError(
            f"records of two batches: {what} is {getattr(left.definition, what)} and {getattr(right.definition, what)}",
            fix="record both with the same definition and the same version of orbit",
        )
    if left.definition.identity != definition.identity:
        raise InputError(
            f"{left.definition.name}: not the definition of this name that is here",
            fix="compare with the version of orbit that recorded, or name its definition: --definition FILE.toml",
        )


def _architecture(record: Qualification) -> tuple[str, str]:
    return record.identity.device.kind, record.identity.device.architecture


def _summary(record: Qualification) -> Summary:
    device = record.identity.device
    return Summary(
        image=record.image,
        recorded=record.recorded,
        verdict=record.verdict,
        device=device.name,
        architecture=device.architecture,
    )


def _changed(left: Qualification, right: Qualification) -> Iterator[Changed]:
    """Everything that may be a cause, in the order of likelihood."""
    for title, ours, theirs in (
        ("setting", _plain(left.settings), _plain(right.settings)),
        ("version", left.identity.versions, right.identity.versions),
        ("variable", left.identity.variables, right.identity.variables),
        ("device", _plain(left.identity.device), _plain(right.identity.device)),
        ("", {"image": left.image, "environment": left.identity.environment},
         {"image": right.image, "environment": right.identity.environment}),
    ):  # fmt: skip
        for name in sorted(set(ours) | set(theirs)):
            if ours.get(name, "") != theirs.get(name, ""):
                yield Changed(name=f"{title} {name}".strip(), left=ours.get(name, ""), right=theirs.get(name, ""))


def _plain(value: Record) -> Mapping[str, str]:
    return {name: str(getattr(value, name)) for name in value.__struct_fields__}


type Pair = tuple[CaseRecord | None, CaseRecord | None]


def _pairs(left: Qualification, right: Qualification) -> list[tuple[tuple[str, str], Pair]]:
    ours = {case.key: case for case in left.cases}
    theirs = {case.key: case for case in right.cases}
    return [(key, (ours.get(key), theirs.get(key))) for key in dict.fromkeys([*ours, *theirs])]


@dataclass(frozen=True, slots=True)
class _Sides:
    """What every case of a comparison shares."""

    left: Side
    right: Side
    mode: Mode
    definition: Definition

    def compare(self, key: tuple[str, str], ours: CaseRecord | None, theirs: CaseRecord | None) -> CaseComparison:
        """One case, which either side may lack."""
        path, dtype = key
        for case, side in ((ours, "left"), (theirs, "right")):
            if case is None or case.result == "skipped":
                reason = f"{side}: {case.reason if case else 'not run'}"
                return CaseComparison(path=path, dtype=dtype, result="skipped", reason=reason)
            if not case.entries:
                reason = f"{side} failed: {case.reason}"
                return CaseComparison(path=path, dtype=dtype, result="different", reason=reason)
        assert ours is not None
        assert theirs is not None
        reason = same_structure(ours.entries, theirs.entries)
        if reason:
            return CaseComparison(path=path, dtype=dtype, result="different", reason=reason)
        found = self._measure(ours, theirs)
        result, reason = _result(found, ours, theirs, self.mode)
        return CaseComparison(
            path=path,
            dtype=dtype,
            result=result,
            reason=reason,
            entries=len(ours.entries),
            differing=found.differing,
            first=found.first,
            origins=found.origins,
            deltas=found.deltas,
            tolerance=found.tolerance if found.differing else None,
            exceeded=found.exceeded,
        )

    def _measure(self, ours: CaseRecord, theirs: CaseRecord) -> _Measured:
        left, right = self.left.tensors.get, self.right.tensors.get
        differing = unequal(ours.entries, theirs.entries)
        tolerance = self.definition.tolerance("architectures", ours.dtype)
        bad = any(entry.stats and entry.stats.nonfinite for case in (ours, theirs) for entry in case.entries)
        apart = None
        if differing and not bad:
            apart = deltas(outcome(ours.entries, left), outcome(theirs.entries, right))
        begins = origins(ours.entries, theirs.entries)[:ORIGINS]
        return _Measured(
            differing=len(differing),
            first=first_difference(ours.entries, theirs.entries, left, right),
            origins=tuple(label(ours.entries[place]) for place in begins),
            deltas=apart,
            tolerance=tolerance,
            exceeded=exceeded(apart, tolerance) if apart else (),
        )


class _Measured(Record, frozen=True, kw_only=True):
    differing: int
    first: FirstDifference | None
    origins: tuple[str, ...]
    deltas: Deltas | None
    tolerance: Tolerance
    exceeded: tuple[str, ...]


def _result(found: _Measured, ours: CaseRecord, theirs: CaseRecord, mode: Mode) -> tuple[Outcome, str]:
    for case, side in ((ours, "left"), (theirs, "right")):
        if case.result == "failed":
            return "different", f"{side} failed: {case.reason}"
    for case, side in ((ours, "left"), (theirs, "right")):
        if case.result == "not-repeatable":
            return "unproven", f"{side}: {case.reason}"
    if not found.differing:
        return "equal", ""
    if mode == "bits":
        return "different", f"{found.differing} of {len(ours.entries)} tensors on one architecture"
    if found.exceeded:
        return "different", found.exceeded[0]
    return "within", ""
