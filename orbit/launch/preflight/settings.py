"""Variables that came along from a shell, a profile or another job and change what this one does, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.rules import Rules
from orbit.launch.preflight.say import passed, warned


def judge_settings(env: Mapping[str, str], demand: Demand, rules: Rules) -> Iterator[Check]:
    """``settings``: never an error, for somebody may mean it."""
    name = "settings"
    applies = {"": True, "gpus": bool(demand.gpus), "rdma": demand.rdma != "none"}
    hits = [
        row for row in rules.settings if applies[row.needs] and re.fullmatch(row.value, env.get(row.name, "").strip())
    ]
    if not hits:
        yield passed(name, f"none of {len(rules.settings)} variables is set that are known to do harm")
        return
    told = "; ".join(f"{row.name}={env[row.name]}: {row.text}" for row in hits)
    fix = f"unset {' '.join(row.name for row in hits)}, unless it is meant"
    yield warned(name, told, fix, **{row.name: env[row.name] for row in hits})
