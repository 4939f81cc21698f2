"""Whether rules of the audit find the environment right, asked of the image's own copy of Orbit."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from orbit.core.proc import run
from orbit.smoke.model import CheckError, Context

SHOWN = 4


def check_audit(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Run ``orbit audit`` over the prefix with ``rules``; every finding that is not waived is a problem.

    ``profile``: whose targets and expectations count; without it the targets the checks compare with.
    """
    prefix = context.prefix or sys.prefix
    rules = [str(rule) for rule in parameters["rules"]]
    profile = str(parameters.get("profile", ""))
    words = ["--profile", profile] if profile else [f"--gpu={target.capability}" for target in context.targets]
    argv = [
        sys.executable,
        "-P",
        "-m",
        "orbit",
        "audit",
        prefix,
        "--json",
        *words,
        *(f"--rule={rule}" for rule in rules),
    ]
    done = run(argv, doing="auditing the environment", env=dict(os.environ), check=False)
    print(done.stderr.decode(errors="replace"))
    if done.returncode not in (0, 1):
        said = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        last = [line for line in said if not line.startswith("  fix: ")][-1:] or ["no output"]
        raise CheckError(f"orbit audit ended with status {done.returncode}: {last[0]}")
    report = json.loads(done.stdout)["reports"][0]
    if sorted(report["rules"]) != sorted(rules):
        raise CheckError(f"the audit ran {', '.join(report['rules']) or 'no rule'} instead of {', '.join(rules)}")
    found = [item for item in report["findings"] if item["severity"] == "error" and not item.get("waiver")]
    if found or done.returncode:
        shown = "; ".join(f"{item['rule']}: {item['subject']}: {item['message']}" for item in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise CheckError((shown or "the audit failed without a finding") + more)
    facts = report["facts"]
    return {"summary": f"{', '.join(rules)}: clean ({facts['files']} files)", "files": facts["files"]}
