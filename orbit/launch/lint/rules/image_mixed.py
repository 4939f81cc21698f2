"""image-mixed: the nodes of one job run one image."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding, Severity
from orbit.launch.lint.facts import Container, Manifest, Pod, Workload
from orbit.launch.lint.known import Known, Reference, reference
from orbit.launch.lint.making import ERROR, WARNING, finding_at, who
from orbit.launch.lint.programs import programs

ID = "image-mixed"
TITLE = "head, workers and submitter of one job run one image"
FIX = "use one image, by digest, for head, workers and submitter; sidecars and init containers may differ"

type Seat = tuple[Workload, Pod, Container]


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """One finding per container whose image is not that of the first one of its job."""
    for workload in manifest.workloads:
        seats = [seat for seat in _members(workload) if seat[2].image is not None and "$" not in seat[2].image.text]
        for seat in seats[1:]:
            yield from _compared(manifest, seats[0], seat)


def _members(workload: Workload) -> list[Seat]:
    """Containers that are ranks or nodes of one job."""
    seats = [(workload, pod, item) for pod in workload.pods for item in pod.containers]
    if workload.kind == "sbatch":
        return [seat for seat in seats if any(program.kind.startswith("ray ") for program in programs(seat[2]))]
    if not workload.is_ray and not (len(workload.pods) > 1 and workload.kind.endswith("Job")):
        return []
    return [seat for seat in seats if seat[2].role not in ("init", "sidecar")]


def _compared(manifest: Manifest, first: Seat, other: Seat) -> Iterator[Finding]:
    one, two = first[2].image, other[2].image
    if one is None or two is None or one.text == two.text:
        return
    a, b = reference(one.text), reference(two.text)
    if a.digest and a.digest == b.digest:
        return
    severity, message = _judged(a, b)
    where = f"{first[1].name} (line {one.line}): {one.text}"
    yield finding_at(ID, severity, manifest, two.line, who(*other), message, FIX, first=where, this=two.text)


def _judged(a: Reference, b: Reference) -> tuple[Severity, str]:
    """How much it weighs that two nodes of a job run different images, and why."""
    if a.ray and b.ray and a.ray != b.ray:
        return ERROR, f"has Ray {b.ray}, the first container of the job {a.ray}: Ray refuses a node of another version"
    if a.python and b.python and a.python != b.python:
        return ERROR, f"has Python {b.python}, the first container of the job {a.python}: Ray refuses such a node"
    if a.digest and b.digest and a.repository == b.repository:
        return ERROR, "is another digest of the same image: the nodes of one job hold different libraries"
    if a.repository == b.repository and (a.digest or b.digest):
        return WARNING, "is named by a tag here and by a digest there: nobody can tell whether they are one image"
    return WARNING, "is another image than that of the job's first container: Ray, Python and libraries must be equal"
