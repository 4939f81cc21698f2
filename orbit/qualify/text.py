"""Records and comparisons as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.qualify.compare import CaseComparison, Comparison, Summary
from orbit.qualify.records import CaseRecord, Deltas, FirstDifference, Qualification

MARK = {"passed": "PASSED", "failed": "FAILED", "unproven": "UNPROVEN"}


def render_record(record: Qualification) -> str:
    """A record: what ran, what it proves."""
    device = record.identity.device
    lines = [
        f"qualification {record.definition.name} on {device.name} ({device.architecture}"
        + (f", driver {device.driver})" if device.driver else ")"),
        f"image {record.image or 'not named'}; {record.repeats} runs of each case, each in a process of its own",
    ]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record.identity.versions.items()) if version)
    lines += [versions, ""]
    lines += [f"  {case.result:15} {case.path + ' ' + case.dtype:28} {_case_text(case)}" for case in record.cases]
    lines += ["", f"{MARK[record.verdict]}: " + ", ".join(f"{n} {name}" for name, n in sorted(record.counts.items()))]
    lines += [f"  needed for more: {reason}" for reason in record.unproven]
    return "\n".join(lines) + "\n"


def render_comparison(found: Comparison) -> str:
    """A comparison: what differs, where it begins, and what may be the cause."""
    lines = [_side("left ", found.left), _side("right", found.right)]
    asked = "one architecture: equal bits" if found.mode == "bits" else "two architectures: tokens and tolerance"
    lines += [f"batch {found.definition}; {asked}", ""]
    for case in found.cases:
        lines += _comparison_lines(case)
    if found.changed:
        lines += ["", "not the same on both sides"]
        lines += [f"  {item.name}: {item.left or '-'} -> {item.right or '-'}" for item in found.changed]
    lines += ["", f"{MARK[found.verdict]}: " + ", ".join(f"{n} {name}" for name, n in sorted(found.counts.items()))]
    return "\n".join(lines) + "\n"


def _side(title: str, side: Summary) -> str:
    image = side.image or "no image named"
    return f"{title}  {side.device} ({side.architecture})  {image}  {side.recorded}  {side.verdict}"


def _case_text(case: CaseRecord) -> str:
    if case.agreement and not case.reason:
        return f"{len(case.entries)} tensors; from torch: {_deltas(case.agreement.deltas)}"
    return case.reason or f"{len(case.entries)} tensors, {', '.join(case.phases)}"


def _comparison_lines(case: CaseComparison) -> Iterator[str]:
    said = f"{case.entries} tensors" if case.result == "equal" else case.reason or f"{case.differing} tensors differ"
    yield f"  {case.result:10} {case.path + ' ' + case.dtype:28} {said}"
    pad = " " * 13
    if case.first:
        yield f"{pad}first: {_first(case.first)}"
    if len(case.origins) > 1:
        yield f"{pad}begins also in: {', '.join(case.origins[1:])}"
    if case.deltas:
        yield f"{pad}{_deltas(case.deltas)}"
        if case.result == "different":
            yield f"{pad}" + ("outside" if case.exceeded else "within") + " the tolerance between architectures"


def _first(first: FirstDifference) -> str:
    text = f"{first.op} at {first.phase} {first.name} ({first.order + 1} of {first.of})"
    if first.unequal_inputs:
        text += f", whose inputs differ already: {', '.join(first.unequal_inputs)}"
    elif first.inputs:
        text += ", from equal inputs"
    found = first.difference
    if found is None:
        return text
    at = ", ".join(str(place) for place in found.at)
    return (
        f"{text}; {found.differing} of {found.elements} values, at most {found.max_ulp} ulp at [{at}]: "
        f"{_number(found.left)} and {_number(found.right)}"
    )


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.9g}"


def _deltas(found: Deltas) -> str:
    parts = [f"tokens {found.identical}/{found.prompts}", f"generated max {found.decode.max:.3g}"]
    if found.forward:
        spread = found.forward
        parts.append(f"given p50 {spread.p50:.3g} mean {spread.mean:.3g} p95 {spread.p95:.3g} max {spread.max:.3g}")
    if found.grad_norm is not None:
        parts.append(f"gradient norm {found.grad_norm:.3g}")
    return ", ".join(parts)
