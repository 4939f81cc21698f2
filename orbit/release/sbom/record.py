"""What an image says should be in it: the environment record that Orbit leaves in every environment."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from orbit.core.findings import Finding, error_finding
from orbit.env.record import RECORD_PATH, SCHEMA, EnvironmentRecord
from orbit.release.sbom.contents import Contents
from orbit.release.sbom.model import tidy

AGAIN = "make the image again: orbit image build"


@dataclass(frozen=True, slots=True)
class Stated:
    """The environment record of an image."""

    home: str
    """The environment's folder relative to the root; empty when there is no record."""
    record: EnvironmentRecord | None
    findings: tuple[Finding, ...]


def read_record(contents: Contents) -> Stated:
    """The record, with the findings that say why there is none. Of several the shortest path counts."""
    places = [path for path in contents.texts if path == RECORD_PATH or path.endswith(f"/{RECORD_PATH}")]
    if not places:
        missing = error_finding(
            "sbom-no-record",
            RECORD_PATH,
            "the image does not say which distributions should be in it: nothing to count against",
            {},
            "only images of environments that Orbit made have this record",
        )
        return Stated("", None, (missing,))
    path = min(places, key=lambda place: (len(place), place))
    home = path.removesuffix(RECORD_PATH).strip("/")
    try:
        record = msgspec.json.decode(contents.texts[path], type=EnvironmentRecord)
        problem = f"schema {record.schema} is not known" if record.schema != SCHEMA else ""
    except (msgspec.DecodeError, RecursionError) as error:
        record, problem = None, tidy(str(error))
    if problem:
        finding = error_finding(
            "sbom-no-record", f"/{path}", "the environment record cannot be read", {"problem": problem}, AGAIN
        )
        return Stated(home, None, (finding,))
    return Stated(home, record, ())
