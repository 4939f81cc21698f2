"""What to send to a colleague: the diagnosis and the facts it rests on, redacted, as JSON or as readable text."""

from __future__ import annotations

import getpass
import platform
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.files import write_atomic
from orbit.core.records import canonical
from orbit.doctor.diagnosis import Diagnosis
from orbit.doctor.facts import Facts
from orbit.doctor.redact import Redactor
from orbit.doctor.text import render

SCHEMA = "orbit.doctor-report/1"
TEXT_WIDTH = 100


def here() -> Redactor:
    """The redactor for this user and this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    name = socket.gethostname()
    return Redactor(user=user, hosts=tuple(dict.fromkeys((name, name.partition(".")[0]))))


def make_report(diagnosis: Diagnosis, facts: Facts, redactor: Redactor) -> dict[str, Any]:
    """Plain data, redacted."""
    plain: dict[str, Any] = msgspec.json.decode(canonical(facts))
    variables = redactor.variables(plain.pop("variables", {}))
    packages = (plain.get("prefix") or {}).pop("packages", {})  # a version of four numbers is no address
    return {
        "schema": SCHEMA,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "diagnosis": redactor.tree(msgspec.json.decode(canonical(diagnosis))),
        "facts": {**_object(redactor.tree(plain)), "variables": variables, "packages": packages},
    }


def write_report(path: Path, diagnosis: Diagnosis, facts: Facts, redactor: Redactor) -> None:
    """Write the report: text for people where ``path`` ends with .txt, JSON otherwise. Readable by its owner alone."""
    report = make_report(diagnosis, facts, redactor)
    if path.suffix == ".txt":
        content = _as_text(report, redactor.text(render(diagnosis, TEXT_WIDTH)))
    else:
        content = msgspec.json.format(msgspec.json.encode(report, order="sorted"), indent=2).decode() + "\n"
    write_atomic(path, content.encode(), mode=0o600)


def _as_text(report: Mapping[str, Any], said: str) -> str:
    lines = [f"orbit doctor, {report['system']}", "", said, "facts", ""]
    for name, value in sorted(report["facts"].items()):
        if not value:
            continue
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {key} = {item}" for key, item in sorted(value.items()))]
        elif isinstance(value, list):
            lines += [f"{name}:", *(f"  {item}" for item in value)]
        else:
            lines.append(f"{name}: {value}")
    return "\n".join(lines) + "\n"


def _object(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
