"""The decision: everything good is a release; each piece taken away or broken is that refusal and no other.

The functions are in ``records`` and ``proofs``; here they are asked through the decision alone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orbit.cli import build_parser
from orbit.core.findings import Finding, Severity, Skipped, error_finding
from orbit.image.smoke.report import SmokeReport, SmokeRun
from orbit.release.checkout import Checkout
from orbit.release.evidence import Result
from orbit.release.gate.case import Mark
from orbit.release.gate.decide import REQUIREMENTS, Decision, decide
from orbit.release.gate.facts import Documents
from orbit.release.gate.model import NAMES
from tests.release.gate.made_run import (
    NOW,
    MadeRun,
    inventory,
    manifest,
    qualification,
    report,
    results,
    smoke_cpu,
    smoke_gpu,
)

type Change = Callable[[MadeRun], object]
FATAL = error_finding("record-hash", "a.py", "bytes differ", {}, "install it again")


def refusing(decision: Decision) -> set[str]:
    return {item.requirement for item in decision.refusals}


def test_everything_good_is_a_release(tmp_path: Path) -> None:
    decision = MadeRun(tmp_path).decide()
    assert [item for item in decision.judgements if item.mark is not Mark.MET] == []
    assert decision.release
    assert {item.requirement for item in decision.judgements} == set(NAMES)
    assert decision.digest.startswith("sha256:")
    assert decision.decided == "2026-11-30T22:00:00+00:00"
    assert "evidence.json" in decision.evidence
    assert "h100.intoto.json" in decision.evidence


def test_every_requirement_has_a_function_and_a_broken_twin() -> None:
    assert tuple(REQUIREMENTS) == NAMES
    assert {name for name, *_ in BROKEN} == set(NAMES)


def put(**fields: Any) -> Change:
    def change(made: MadeRun) -> None:
        for name, value in fields.items():
            setattr(made, name, value)

    return change


def stage(name: str, **fields: Any) -> Change:
    return put(changes={name: fields})


def finding(waiver: str) -> Finding:
    return Finding(rule="run-path", severity=Severity.ERROR, subject="a.so", message="odd", waiver=waiver)


def run_of(uid: int, **changes: str) -> SmokeRun:
    return SmokeRun(list="probe-cpu", uid=uid, seconds=1.0, results=results("probe-cpu", **changes))


def smoked(**changes: Any) -> Change:
    return put(smoke=lambda digest: smoke_cpu(digest, **changes))


def signs(name: str, kind: str, make: Callable[[str], Any]) -> Change:
    """An attestation that needs the digest: written with the others, then signed anew."""

    def change(made: MadeRun) -> None:
        made.write()
        made.sign(name, kind, make(made.digest))

    return change


def drops(name: str) -> Change:
    return put(signed={name: ("", None)})


def waives(**changes: Any) -> Change:
    def change(made: MadeRun) -> None:
        skipped = tuple(
            msgspec.structs.replace(item, **changes) if item.stage == "audit" else item
            for item in made.definition.waivers.skipped
        )
        waivers = msgspec.structs.replace(made.definition.waivers, skipped=skipped)
        made.definition = msgspec.structs.replace(made.definition, waivers=waivers)

    return change


OLD, AHEAD = "2026-01-01T00:00:00+00:00", "2026-12-24T00:00:00+00:00"
SKIPPED = {"result": Result.SKIPPED, "reason": "--no-smoke was given", "outputs": {}, "findings": ()}
BROKEN: list[tuple[str, Change, Mark, str]] = [
    (
        "evidence",
        put(checkout=Checkout(reason="no git repository"), room={"commit": ""}),
        Mark.REFUSED,
        "belongs to no commit",
    ),
    (
        "evidence",
        put(checkout=Checkout(commit="cd" * 20, changed=("a.py",), changes=1), room={"commit": "cd" * 20}),
        Mark.REFUSED,
        "1 changed file",
    ),
    ("evidence", stage("environment", result=Result.SKIPPED, reason="why"), Mark.MISSING, "was skipped: why"),
    ("evidence", stage("summary", started=OLD), Mark.REFUSED, "334 days old"),
    ("evidence", stage("summary", started=AHEAD), Mark.REFUSED, "in the future"),
    ("evidence", put(without=("summary.md",)), Mark.MISSING, "is not there"),
    ("lock", put(lock="e" * 64), Mark.REFUSED, "the run's lock is eeee"),
    ("lock", stage("lock", started=OLD), Mark.REFUSED, "days old"),
    (
        "lock",
        stage("lock", findings=(FATAL,), result=Result.FAILED, reason="1 finding(s)"),
        Mark.REFUSED,
        "record-hash a.py: bytes differ",
    ),
    ("kernels", put(manifests=()), Mark.MISSING, "has no manifest"),
    ("kernels", put(without=("kernels.json",)), Mark.MISSING, "no manifests of its kernels"),
    (
        "kernels",
        lambda made: put(manifests=(manifest(made.profile, requested=("compute_90a:sm_90a",)),))(made),
        Mark.REFUSED,
        "was requested for compute_90a:sm_90a",
    ),
    ("kernels", lambda made: put(manifests=(manifest(made.profile, found=()),))(made), Mark.REFUSED, "kernel-units"),
    (
        "kernels",
        lambda made: put(manifests=(manifest(made.profile), manifest(made.profile, recipe="x", dist="x")))(made),
        Mark.REFUSED,
        "no recipe of the profile",
    ),
    (
        "kernels",
        lambda made: put(manifests=(manifest(made.profile, mode="prebuilt"),))(made),
        Mark.REFUSED,
        "built as prebuilt",
    ),
    ("kernels", stage("kernels", skipped=(Skipped(what="some", reason="dear"),)), Mark.REFUSED, "was left out: dear"),
    ("audit", put(without=("audit.json",)), Mark.MISSING, "the report is not there"),
    ("audit", put(audit=report("environment", findings=(FATAL,))), Mark.REFUSED, "record-hash a.py"),
    ("audit", put(audit=report("environment", uid=0)), Mark.MISSING, "judges access for uid 0"),
    ("audit", put(audit=report("wheels")), Mark.REFUSED, "is about wheels"),
    ("audit", put(audit=report("environment", facts={"files": 0})), Mark.REFUSED, "looked at nothing"),
    ("audit", put(audit=report("environment", rules=("unreadable",))), Mark.REFUSED, "rules it does not speak of"),
    (
        "audit",
        put(
            audit=report(
                "environment", skipped=(*report("environment").skipped, Skipped(what="record-hash", reason="no time"))
            )
        ),
        Mark.REFUSED,
        "was left out: no time",
    ),
    ("audit", stage("audit", started=OLD), Mark.REFUSED, "days old"),
    ("image-audit", put(without=("image-audit.json",)), Mark.MISSING, "the report is not there"),
    ("image-audit", put(image_audit=report("image", findings=(FATAL,))), Mark.REFUSED, "record-hash a.py"),
    ("sbom", put(without=("sbom.spdx.json",)), Mark.MISSING, "no bill of materials in spdx"),
    ("sbom", put(sbom=lambda _digest: inventory("sha256:" + "1" * 64)), Mark.REFUSED, "is about sha256:1111"),
    ("sbom", put(sbom=lambda digest: inventory(digest, 0)), Mark.REFUSED, "components do not agree"),
    ("sbom", stage("sbom", outputs={"components": {"debian": 9}}), Mark.REFUSED, "the stage 9"),
    ("smoke-cpu", put(smoke=None, changes={"smoke": SKIPPED}), Mark.MISSING, "--no-smoke was given"),
    ("smoke-cpu", smoked(engine="bubblewrap"), Mark.REFUSED, "ran with bubblewrap, not in docker or podman"),
    ("smoke-cpu", smoked(real_ids=False), Mark.REFUSED, "mapped user ids"),
    ("smoke-cpu", smoked(runs=(run_of(0),)), Mark.MISSING, "was not run as uid 65534"),
    (
        "smoke-cpu",
        smoked(runs=(run_of(0), SmokeRun(list="probe-cpu", uid=65534, seconds=1.0, results=results("probe-cpu")[:3]))),
        Mark.MISSING,
        "no result of",
    ),
    ("smoke-cpu", smoked(runs=(run_of(0), run_of(65534, imports="failed"))), Mark.REFUSED, "imports failed: as seen"),
    ("smoke-cpu", smoked(runs=(run_of(0), run_of(65534, imports="skipped"))), Mark.REFUSED, "not checked: imports"),
    ("smoke-cpu", smoked(started=OLD), Mark.REFUSED, "days old"),
    (
        "smoke-gpu",
        signs("h100.intoto.json", "smoke", lambda d: smoke_gpu(d, "H200", "9.0", results={"probe": "failed"})),
        Mark.REFUSED,
        "probe failed",
    ),
    (
        "smoke-gpu",
        signs("h100.intoto.json", "smoke", lambda d: smoke_gpu(d, "A100", "8.0")),
        Mark.REFUSED,
        "A100, which is no target",
    ),
    (
        "smoke-gpu",
        signs("x.intoto.json", "smoke", lambda _d: {"started": NOW.isoformat()}),
        Mark.REFUSED,
        "holds no smoke",
    ),
    (
        "smoke-gpu",
        signs("b200.intoto.json", "smoke", lambda d: smoke_gpu(d, "B200", "10.0", started=OLD)),
        Mark.REFUSED,
        "days",
    ),
    ("qualification", drops("numbers.intoto.json"), Mark.MISSING, "nobody signed a record"),
    (
        "qualification",
        signs("numbers.intoto.json", "qualification", lambda d: qualification(d, verdict="failed")),
        Mark.REFUSED,
        "failed",
    ),
    (
        "qualification",
        signs("numbers.intoto.json", "qualification", lambda d: qualification(d, counts={})),
        Mark.REFUSED,
        "no case in it is proven",
    ),
    (
        "qualification",
        signs("numbers.intoto.json", "qualification", lambda _d: qualification("sha256:" + "1" * 64)),
        Mark.REFUSED,
        "was recorded in sha256:1111",
    ),
    (
        "qualification",
        signs("numbers.intoto.json", "qualification", lambda d: qualification(d, recorded=OLD)),
        Mark.REFUSED,
        "days",
    ),
    ("second-prefix", put(prefix=None), Mark.MISSING, "nobody unpacked it"),
    ("second-prefix", put(prefix={"environment": "0" * 64}), Mark.REFUSED, "is about environment 0000"),
    ("second-prefix", put(prefix={"result": "failed", "reason": "a path"}), Mark.REFUSED, "failed: a path"),
    ("second-prefix", put(prefix={"result": "passed", "findings": [{}]}), Mark.REFUSED, r"1 finding\(s\)"),
    ("second-prefix", put(prefix={"image": "sha256:" + "1" * 64}), Mark.REFUSED, "is about image sha256:1111"),
    ("second-prefix", put(prefix={"schema": "orbit.second-prefix/2"}), Mark.REFUSED, "is not known"),
    ("second-prefix", put(prefix={"started": "", "finished": ""}), Mark.REFUSED, "no usable moment"),
    ("second-prefix", put(prefix={"finished": OLD}), Mark.REFUSED, "days old"),
    ("clean-room", put(room=None), Mark.MISSING, "nobody built it again"),
    ("clean-room", put(room={"result": "failed", "digest": "", "reason": "no source"}), Mark.REFUSED, "no source"),
    (
        "clean-room",
        put(room={"result": "different", "digest": "sha256:" + "1" * 64, "reason": "2 files"}),
        Mark.REFUSED,
        "gave another image, sha256:1111.*: 2 files",
    ),
    ("clean-room", put(room={"digest": "sha256:" + "1" * 64}), Mark.REFUSED, "gave another image"),
    ("clean-room", put(room={"commit": "ff" * 20}), Mark.REFUSED, "of commit ffff"),
    ("clean-room", put(room={"fence": "none", "fence_reason": "asked"}), Mark.REFUSED, r"its fence was none \(asked\)"),
    ("clean-room", put(room={"finished": OLD}), Mark.REFUSED, "days old"),
    (
        "waivers",
        put(audit=report("environment", findings=(finding("old (until 2026-11-29)"),))),
        Mark.REFUSED,
        "2026-11-29",
    ),
    ("waivers", put(audit=report("environment", findings=(finding("for ever"),))), Mark.REFUSED, "without an end"),
    (
        "waivers",
        put(audit=report("environment", findings=(finding("x (until 2031-01-01)"),))),
        Mark.REFUSED,
        "370 days",
    ),
    ("waivers", waives(expires=dt.date(2026, 11, 1)), Mark.REFUSED, "was accepted until 2026-11-01"),
    ("documents", put(documents=None), Mark.MISSING, "were not checked"),
    ("documents", put(documents=Documents({"pages": 1}, (FATAL,))), Mark.REFUSED, "bytes differ"),
    ("documents", put(documents=Documents({"pages": 1, "links": 0}, ())), Mark.REFUSED, "nothing was looked at: links"),
]


@pytest.mark.parametrize(
    ("name", "change", "mark", "says"), BROKEN, ids=[f"{n}-{i}" for i, (n, *_) in enumerate(BROKEN)]
)
def test_each_broken_piece_is_that_refusal(tmp_path: Path, name: str, change: Change, mark: Mark, says: str) -> None:
    made = MadeRun(tmp_path)
    change(made)
    decision = made.decide()
    assert refusing(decision) == {name}, decision.refusals
    assert not decision.release
    assert decision.mark(name) is mark
    assert any(re.search(says, item.reason) for item in decision.refusals), decision.refusals
    assert all(item.fix for item in decision.refusals)


def test_the_commands_for_a_missing_proof_can_be_typed(tmp_path: Path) -> None:
    made = MadeRun(tmp_path)
    put(prefix=None)(made)
    advice = next(item.fix for item in made.decide().refusals)
    commands = re.findall(r"orbit (env [^,]+)", advice)
    assert [command.split()[1] for command in commands] == ["archive", "prove"]
    for command in commands:
        assert callable(build_parser().parse_args(command.split()).run)  # an option that lacks ends the process


@pytest.mark.parametrize("file", ["h100.intoto.json", "b200.intoto.json"])
def test_a_gpu_nobody_tried_is_unproven_and_still_a_release(tmp_path: Path, file: str) -> None:
    decision = MadeRun(tmp_path, signed={file: ("", None)}).decide()
    assert decision.release
    assert [(item.requirement, item.subject) for item in decision.unproven] == [("smoke-gpu", file.split(".")[0])]


def test_a_gpu_that_was_tried_in_part_is_unproven(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    made.sign("b200.intoto.json", "smoke", smoke_gpu(made.digest, "B200", "10.0", results={"probe": "skipped"}))
    decision = made.decide()
    assert decision.release
    assert [item.reason for item in decision.unproven] == ["ran on B200, but without probe-gpu/probe"]


def test_two_machines_show_a_gpu_together(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    for name, skipped in (("b200.intoto.json", {"probe": "skipped"}), ("more.intoto.json", {})):
        made.sign(name, "smoke", smoke_gpu(made.digest, "B200", "10.0", results=skipped))
    judged = next(item for item in made.decide().judgements if item.subject == "b200")
    assert (judged.mark, judged.file) == (Mark.MET, "b200.intoto.json, more.intoto.json")


def test_what_ran_in_place_must_have_the_environment_of_the_image(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    here: SmokeReport = smoke_gpu(made.digest, "H200", "9.0", engine="in-place", environment="0" * 64)
    made.sign("h100.intoto.json", "smoke", here)
    assert [item.reason for item in made.decide().refusals] == [
        "ran in environment 000000000000, the image has 5e5e5e5e5e5e"
    ]


def test_a_signed_report_of_another_engine_makes_up_for_bubblewrap(tmp_path: Path) -> None:
    made = MadeRun(tmp_path, smoke=lambda digest: smoke_cpu(digest, engine="bubblewrap")).write()
    made.sign("docker.intoto.json", "smoke", smoke_cpu(made.digest))
    decision = made.decide()
    assert decision.release
    assert {item.file for item in decision.judgements if item.requirement == "smoke-cpu"} == {"docker.intoto.json"}


def test_a_failed_check_counts_whatever_another_engine_says(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    bad = smoke_cpu(made.digest, engine="bubblewrap", runs=(run_of(0, imports="failed"), run_of(65534)))
    made.sign("other.intoto.json", "smoke", bad)
    assert [(item.subject, item.file) for item in made.decide().refusals] == [("uid 0", "other.intoto.json")]


def test_the_decision_is_made_from_its_arguments_alone(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    evidence = made.collect()
    for path in (made.folder / "summary.json", made.elsewhere / "h100.intoto.json"):
        path.unlink()
    assert decide(evidence, made.definition, NOW) == decide(evidence, made.definition, NOW)
    assert decide(evidence, made.definition, NOW).release


def test_silence_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeRun(tmp_path).write()
    monkeypatch.setitem(REQUIREMENTS, "waivers", lambda _case: iter(()))  # type: ignore[arg-type]
    assert [(item.requirement, item.mark) for item in made.decide().refusals] == [("waivers", Mark.MISSING)]


def test_an_unproven_mark_is_missing_where_the_definition_does_not_allow_it(tmp_path: Path) -> None:
    made = MadeRun(tmp_path, signed={"h100.intoto.json": ("", None)})
    strict = tuple(msgspec.structs.replace(item, unproven=False) for item in made.definition.requirements)
    made.definition = msgspec.structs.replace(made.definition, requirements=strict)
    assert [(item.subject, item.mark) for item in made.decide().refusals] == [("h100", Mark.MISSING)]


@pytest.mark.parametrize(("minutes", "release"), [(9, True), (11, False)])
def test_clocks_may_disagree_by_so_much(tmp_path: Path, minutes: int, release: bool) -> None:
    began = (NOW + dt.timedelta(minutes=minutes)).isoformat()
    made = MadeRun(tmp_path, room={"started": began, "finished": began})
    assert made.decide().release is release


def test_a_moment_without_a_zone_is_none(tmp_path: Path) -> None:
    decision = MadeRun(tmp_path, changes={"lock": {"started": "2026-11-30T20:00:00"}}).decide()
    assert refusing(decision) == {"lock"}
    assert "no usable moment" in decision.refusals[0].reason
