"""slurm-environment: a job does not depend on the shell it was submitted from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who
from orbit.launch.lint.programs import script_programs

ID = "slurm-environment"
TITLE = "a batch job does not depend on the shell it was submitted from"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Batch scripts."""
    for workload in manifest.workloads:
        if workload.kind == "sbatch":
            yield from _exported(manifest, workload)
            yield from _address(manifest, workload)


def _exported(manifest: Manifest, workload: Workload) -> Iterator[Finding]:
    word = workload.settings.get("export")
    if word is not None and word.text.split(",")[0].upper() == "ALL":
        message = "--export=ALL: modules, PYTHONPATH, LD_LIBRARY_PATH and addresses of the submitting shell come along"
        yield finding_at(
            ID, NOTE, manifest, word.line, who(workload), message, "write --export=NONE and set what is needed"
        )


def _address(manifest: Manifest, workload: Workload) -> Iterator[Finding]:
    """Ray takes RAY_ADDRESS before anything else: that of an older job leads into another's cluster."""
    word = workload.settings.get("export")
    if word is not None and word.text.upper().split(",")[0] not in ("ALL", ""):
        return
    starts = [program for program in script_programs(workload.script) if program.kind == "ray start"]
    code = re.sub(r"^[ \t]*#.*$", "", manifest.text, flags=re.MULTILINE)
    heads = [program for program in starts if "head" in program.flags]
    if heads and not re.search(r"\bunset\b[^\n]*\bRAY_ADDRESS\b|\bRAY_ADDRESS=|env -u RAY_ADDRESS", code):
        message = "RAY_ADDRESS is neither unset nor set: an old one of the submitting shell leads into another cluster"
        yield finding_at(
            ID, WARNING, manifest, heads[0].line, who(workload), message, "add unset RAY_ADDRESS at the top"
        )
