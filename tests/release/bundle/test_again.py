"""The decision made again from a bundle: the same rules, the same evidence, the same answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.release.attest.keys import keyid_of, parse_public
from orbit.release.bundle.again import OtherVersion, decide_again
from orbit.release.bundle.model import GATE
from orbit.release.gate.sboms import parse_sbom
from tests.release.bundle import forge
from tests.release.bundle.world import DECIDED, World

WHEN = DECIDED.isoformat()


def test_it_is_the_decision_that_was_made(world: World) -> None:
    files = forge.load(world.place / "bundle")
    first, again = world.decision(), decide_again(files, WHEN).decision

    def but_documents(decision: object) -> list[tuple[str, str, str, str]]:
        return [
            (item.requirement, item.subject, item.mark.value, item.file)
            for item in decision.judgements  # type: ignore[attr-defined]
            if item.requirement != "documents"
        ]

    assert but_documents(again) == but_documents(first)
    assert (again.digest, again.commit, again.lock, again.run) == (first.digest, first.commit, first.lock, first.run)


def test_other_requirements_are_another_version(world: World) -> None:
    files = forge.load(world.place / "bundle")
    text = files[GATE].decode()
    start = text.index('[[requirements]]\nname = "lock"')
    end = text.index("[[requirements]]", start + 1)
    with pytest.raises(OtherVersion, match="other requirements"):
        decide_again({**files, GATE: (text[:start] + text[end:]).encode()}, WHEN)


@pytest.mark.parametrize("path", [GATE, "profile.toml", "definition/smoke/probe-gpu.toml", "image/manifest.json"])
def test_definitions_that_cannot_be_read_end_it(world: World, path: str) -> None:
    files = forge.load(world.place / "bundle")
    with pytest.raises(InputError, match=path.replace(".", r"\.")):
        decide_again({**files, path: b"\x00["}, WHEN)


@pytest.mark.parametrize("path", ["run/summary.json", "run/smoke.json", "run/evidence.json", "run/kernels.json"])
def test_a_record_that_cannot_be_read_is_a_problem_of_that_record(world: World, path: str) -> None:
    files = forge.load(world.place / "bundle")
    again = decide_again({**files, path: b"{"}, WHEN)
    assert not again.decision.release
    assert path.removeprefix("run/") in {problem.file for problem in again.evidence.problems}


def test_the_keys_that_the_gate_trusted_come_from_the_bundle(world: World) -> None:
    files = forge.load(world.place / "bundle")
    assert keyid_of(parse_public(files["keys/lab.pub"], "keys/lab.pub")) == world.lab.keyid
    without = {path: data for path, data in files.items() if path != "keys/lab.pub"}
    decision = decide_again(without, WHEN).decision
    assert {item.requirement for item in decision.refusals} >= {"qualification"}


@pytest.mark.parametrize("data", [b"", b"-----BEGIN PUBLIC KEY-----\nx\n", b"\xff"])
def test_what_is_no_key_is_said(data: bytes) -> None:
    with pytest.raises(InputError, match="no public key"):
        parse_public(data, "keys/x.pub")


def test_a_bill_of_materials_says_what_it_is_about(world: World, tmp_path: Path) -> None:
    files = forge.load(world.place / "bundle")
    for form, name in (("cyclonedx", "sbom.cdx.json"), ("spdx", "sbom.spdx.json")):
        found = parse_sbom(files[f"run/{name}"], form, name)
        assert (found.digest, found.components) == (world.digest, 4)
        with pytest.raises(InputError, match="not a bill of materials"):
            parse_sbom(b"{}", form, name)
