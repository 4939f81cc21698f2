"""kill-by-name: a job ends its own processes, not everything of a name."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import WARNING, finding_at, who
from orbit.launch.lint.programs import script_programs

ID = "kill-by-name"
TITLE = "a job on a shared node ends its own processes, not everything of a name"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Batch scripts that do not take their nodes whole."""
    for workload in manifest.workloads:
        if workload.kind != "sbatch" or "exclusive" in workload.settings:
            continue
        for program in script_programs(workload.script):
            name = program.words[0].text.rpartition("/")[2]
            if program.kind == "ray stop" or name in ("pkill", "killall"):
                shown = " ".join(word.text for word in program.words[:2])
                message = f"{shown} ends what another job of the user runs on the same node, too"
                fix = "end the processes that this script started by their number, or ask for --exclusive"
                yield finding_at(ID, WARNING, manifest, program.line, who(workload), message, fix)
                break
