"""What speaks against a release that was signed by the right key: the files themselves."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit.release.attest.dsse import envelope_bytes
from orbit.release.attest.signers import sign_statement
from orbit.release.attest.statement import make_statement
from orbit.release.bundle.model import COVERAGE, PROVENANCE, RELEASE, sha256, summed, sums
from orbit.release.bundle.report import Report, State, Verdict
from tests.release.bundle import forge
from tests.release.bundle.forge import Plain
from tests.release.bundle.world import DECIDED, World, claim

OTHER = "sha256:" + "10" * 32
type Files = dict[str, bytes]


def judged(
    world: World,
    folder: Path,
    change: Callable[[Files], object] = lambda _: None,
    predicate: Callable[[Plain], object] = lambda _: None,
) -> Report:
    """The report on the bundle with changed files, listed and signed anew by the release's own key."""
    files = forge.load(folder)
    change(files)
    forge.relist(files, world.signer, predicate)
    forge.save(folder, files)
    report = world.verify(folder)
    assert claim(report, "files").state is State.PROVEN, claim(report, "files").why
    assert claim(report, "signature").state is State.PROVEN
    return report


def contradicted(report: Report) -> set[str]:
    return {item.name for item in report.claims if item.state is State.CONTRADICTED}


def test_signing_anew_changes_nothing(world: World, folder: Path) -> None:
    assert judged(world, folder).verdict is Verdict.VERIFIED


# --- bundle.json ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"commit": "abab', '"commit": "cdcd', "commit"),
        ('"version": "0.1.0"', '"version": "0.2.0"', "version"),
        ('"created": "2026', '"created": "2025', "date"),
        ('"pull_bytes": 1', '"pull_bytes": 2', "image"),
        ('"name": "orbit/probe"', '"name": "orbit/other"', "image"),
        ('"devices": [\n    "H100",', '"devices": [\n    "B300",', "targets"),
    ],
)
def test_an_index_that_says_something_else(world: World, folder: Path, old: str, new: str, said: str) -> None:
    def change(files: Files) -> None:
        text = files["bundle.json"].decode()
        assert old in text
        files["bundle.json"] = text.replace(old, new, 1).encode()

    wrong = claim(judged(world, folder, change), "bundle.json")
    assert wrong.state is State.CONTRADICTED
    assert said in wrong.why


def test_a_first_line_that_hides_what_is_unproven(world: World, folder: Path) -> None:
    files = forge.load(folder)
    first, _, rest = files["RELEASE.md"].partition(b"\n")
    forge.relist(files, world.signer)
    files["RELEASE.md"] = b"# orbit/probe 0.1.0: proven on h100 (H100, H200), b200 (B200)\n" + rest
    hidden = files["RELEASE.md"]
    assert hidden != first + b"\n" + rest
    files = _relisted_as_it_is(files, world)
    forge.save(folder, files)
    wrong = claim(world.verify(folder), "bundle.json")
    assert wrong.state is State.CONTRADICTED
    assert "first line of RELEASE.md" in wrong.why


def _relisted_as_it_is(files: Files, world: World) -> Files:
    """Listed and signed anew, with the page left alone."""
    page = files["RELEASE.md"]
    text = files["bundle.json"].decode()
    old = forge.load(world.place / "bundle")["RELEASE.md"]
    text = text.replace(sha256(old), sha256(page)).replace(f'"size": {len(old)}', f'"size": {len(page)}')
    files["bundle.json"] = text.encode()
    files["SHA256SUMS"] = sums({path: files[path] for path in summed(frozenset(files))})

    def whole(predicate: Plain) -> None:
        predicate["files"] = {path: sha256(data) for path, data in files.items() if path != RELEASE}

    files[RELEASE] = forge.resigned(files, RELEASE, world.signer, whole)
    return files


# --- decision ---------------------------------------------------------------------------------------------------------


def judgement(predicate: Plain, requirement: str, subject: str = "") -> Plain:
    found: Plain = next(
        item
        for item in predicate["decision"]["judgements"]
        if item["requirement"] == requirement and subject in item["subject"]
    )
    return found


def test_a_target_that_was_edited_to_be_proven(world: World, folder: Path) -> None:
    """In the decision and in bundle.json alike, and on the first line."""

    def decided(predicate: Plain) -> None:
        judgement(predicate, "smoke-gpu", "b200").update(mark="met", file="smoke-h100.intoto.json", fix="")

    def listed(files: Files) -> None:
        text = files["bundle.json"].decode()
        head, _, tail = text.rpartition(
            '"state": "unproven",\n   "evidence": [],\n   "why": "nobody signed that it ran on B200"'
        )
        proof = '"state": "proven",\n   "evidence": ["evidence/smoke-h100.intoto.json"],\n   "why": ""'
        files["bundle.json"] = (head + proof + tail).encode()

    report = judged(world, folder, listed, decided)
    assert (
        (folder / "RELEASE.md").read_text().startswith("# orbit/probe 0.1.0: proven on h100 (H100, H200), b200 (B200)")
    )
    wrong = claim(report, "target b200")
    assert wrong.state is State.CONTRADICTED
    assert "the release says proven, and by these files it is unproven" in wrong.why
    assert report.exit_code == 1


def test_a_requirement_that_was_edited_to_be_met(world: World, folder: Path) -> None:
    """The audit report in the bundle has a finding that fails it."""
    report = judged(
        world, folder, lambda files: files.update({"run/audit.json": _with_a_finding(files["run/audit.json"])})
    )
    assert {"audit", "records"} <= contradicted(report)
    assert "ext/_c.so: was not judged, and by these files is refused: arch-coverage" in claim(report, "audit").why


def _with_a_finding(data: bytes) -> bytes:
    return forge.edited_json(data, lambda value: value["findings"][0].update(waiver=""))


def without(predicate: Plain, requirement: str) -> list[Plain]:
    return [item for item in predicate["decision"]["judgements"] if item["requirement"] != requirement]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p["decision"].update(release=False), "no release"),
        (lambda p: p["decision"].update(digest=OTHER), "image"),
        (lambda p: p["decision"].update(profile="cu130"), "profile"),
        (lambda p: p["decision"].update(lock="0" * 64), "lock"),
        (lambda p: p.update(decided="2026-11-29T00:00:00+00:00"), "moment"),
        (lambda p: judgement(p, "sbom").update(mark="refused", reason="it is false"), "sbom is refused"),
        (lambda p: judgement(p, "qualification").update(mark="unproven"), "qualification is unproven"),
        (lambda p: p["decision"].update(judgements=without(p, "lock")), "lock was not judged"),
        (lambda p: p["decision"]["evidence"].update({"audit.json": "0" * 64}), "another audit.json"),
        (lambda p: p["decision"]["evidence"].update({"gone.json": "0" * 64}), "gone.json, which is not here"),
    ],
)  # fmt: skip
def test_a_decision_that_was_edited(world: World, folder: Path, change: Callable[[Plain], object], said: str) -> None:
    report = judged(world, folder, predicate=change)
    wrong = claim(report, "decision")
    assert wrong.state is State.CONTRADICTED
    assert said in wrong.why
    assert report.verdict is Verdict.CONTRADICTED


# --- statements -------------------------------------------------------------------------------------------------------


def about(world: World, files: Files, path: str, digest: str, who: str = "signer") -> bytes:
    """The statement at ``path``, said of another image."""
    before = forge.statement(files, path)
    after = make_statement("orbit/probe", digest, before.predicate_type, before.predicate)
    return envelope_bytes(sign_statement(after, getattr(world, who)))


@pytest.mark.parametrize(
    "path", [PROVENANCE, COVERAGE, "evidence/smoke-h100.intoto.json", "evidence/qualification.intoto.json"]
)
def test_a_statement_about_another_image(world: World, folder: Path, path: str) -> None:
    who = "lab" if path.startswith("evidence/") else "signer"
    report = judged(world, folder, lambda files: files.update({path: about(world, files, path, OTHER, who)}))
    wrong = claim(report, "statements")
    assert wrong.state is State.CONTRADICTED
    assert wrong.why == f"{path} is about {OTHER}"


def test_the_release_of_another_image(world: World, folder: Path) -> None:
    files = forge.load(folder)
    files[RELEASE] = about(world, files, RELEASE, OTHER)
    forge.save(folder, files)
    assert "bundle.json" in contradicted(world.verify(folder))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p["buildDefinition"]["externalParameters"].update(profile="cu130"), "profile"),
        (
            lambda p: p["buildDefinition"]["externalParameters"]["source"].update(digest={"gitCommit": "0" * 40}),
            "commit",
        ),
        (lambda p: dependency(p, "uv.lock").update(digest={"sha256": "0" * 64}), "lock"),
        (lambda p: dependency(p, "msgspec-").update(digest={"sha256": "0" * 64}), "is not in the lock"),
        (
            lambda p: dependency(p, "orbit_probe-").update(digest={"sha256": "0" * 64}),
            "another wheel than its manifest",
        ),
        (lambda p: p["runDetails"]["byproducts"][0].update(digest={"sha256": "0" * 64}), "is not the one it names"),
        (lambda p: p["runDetails"].pop("builder"), "builder"),
    ],
)
def test_provenance_that_does_not_fit(world: World, folder: Path, change: Callable[[Plain], object], said: str) -> None:
    report = judged(
        world, folder, lambda files: files.update({PROVENANCE: forge.resigned(files, PROVENANCE, world.signer, change)})
    )
    wrong = claim(report, "provenance")
    assert wrong.state is State.CONTRADICTED
    assert said in wrong.why
    assert contradicted(report) == {"provenance"}


def dependency(predicate: Plain, start: str) -> Plain:
    found: Plain = next(
        item for item in predicate["buildDefinition"]["resolvedDependencies"] if item["name"].startswith(start)
    )
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["targets"][1]["containers"].update(sass=5),
        lambda p: p["files"].clear(),
        lambda p: p["waivers"].clear(),
        lambda p: p["audit"].update(report_sha256="0" * 64),
    ],
)
def test_coverage_that_does_not_follow(world: World, folder: Path, change: Callable[[Plain], object]) -> None:
    report = judged(
        world, folder, lambda files: files.update({COVERAGE: forge.resigned(files, COVERAGE, world.signer, change)})
    )
    assert contradicted(report) == {"gpu-arch-coverage"}
    assert "does not follow" in claim(report, "gpu-arch-coverage").why


def test_provenance_signed_by_somebody_else(world: World, folder: Path) -> None:
    stranger = World(Path("nowhere")).signer

    def change(files: Files) -> None:
        files[PROVENANCE] = forge.resigned(files, PROVENANCE, stranger, lambda _: None)

    report = judged(world, folder, change)
    assert contradicted(report) == {"provenance"}
    assert "not trusted" in claim(report, "provenance").why


# --- nonsense ---------------------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, [], {}, "x", -1, 1.5, True, [[]], {"a": "b"}, "2026-13-45", "x" * 5000)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a JSON document is."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@pytest.mark.parametrize("seed", range(8))
def test_no_record_however_odd_ends_in_anything_but_an_answer(world: World, folder: Path, seed: int) -> None:
    """One value of one record is another thing: signed by the right key, so that everything looks at it."""
    dice, whole = random.Random(seed), forge.load(folder)
    records = sorted(path for path in whole if path.endswith(".json") and path.startswith(("run/", "image/")))
    for _ in range(12):
        files, path = dict(whole), dice.choice(records)
        value = json.loads(files[path])
        put(value, dice.choice([place for place in places(value) if place]), dice.choice(ODD))
        files[path] = json.dumps(value).encode()
        forge.relist(files, world.signer)
        forge.save(folder, files)
        report = world.verify(folder)
        assert report.verdict is Verdict.CONTRADICTED, path  # the seal knows every record, the manifest its digest


# --- the image's documents --------------------------------------------------------------------------------------------


def test_a_lock_that_is_not_the_images(world: World, folder: Path) -> None:
    report = judged(world, folder, lambda files: files.update({"uv.lock": files["uv.lock"] + b"# more\n"}))
    assert {"image-documents", "decision", "lock", "provenance"} <= contradicted(report)


def test_a_manifest_that_is_not_the_images(world: World, folder: Path) -> None:
    def change(files: Files) -> None:
        files["image/manifest.json"] = files["image/manifest.json"].replace(b'"layers"', b' "layers"')

    assert {"bundle.json", "decision", "statements"} <= contradicted(judged(world, folder, change))


def test_a_configuration_that_is_not_the_manifests(world: World, folder: Path) -> None:
    report = judged(world, folder, lambda files: files.update({"image/config.json": files["image/config.json"] + b" "}))
    wrong = claim(report, "contents")
    assert wrong.state is State.CONTRADICTED
    assert "is not the configuration" in wrong.why


# --- dates ------------------------------------------------------------------------------------------------------------


def test_a_clock_that_is_wrong_is_named(world: World) -> None:
    report = world.verify(now=DECIDED - dt.timedelta(days=2))
    assert report.verdict is Verdict.CONTRADICTED
    wrong = claim(report, "dates")
    assert wrong.state is State.CONTRADICTED
    assert "decided 2026-11-30 21:00 UTC, and it is 2026-11-28 22:00 here" in wrong.why
    assert "clock" in wrong.fix


def test_a_clock_a_minute_behind_is_fine(world: World) -> None:
    assert world.verify(now=DECIDED - dt.timedelta(hours=1, minutes=1)).verdict is Verdict.VERIFIED


def test_years_later_it_is_still_the_release_it_was(world: World) -> None:
    """What was fresh on the day of the decision need not be fresh today; only what was waived until a day runs out."""
    report = world.verify(now=dt.datetime(2036, 1, 1, tzinfo=dt.UTC))
    assert contradicted(report) == {"waivers"}
    wrong = claim(report, "waivers")
    assert "today (2036-01-01) it no longer holds" in wrong.why
    assert "2027-03-01" in wrong.why


def test_the_last_day_of_a_waiver_counts(world: World) -> None:
    last = dt.datetime(2027, 3, 1, 12, tzinfo=dt.UTC)
    assert world.verify(now=last).verdict is Verdict.VERIFIED
    assert contradicted(world.verify(now=last + dt.timedelta(days=1))) == {"waivers"}
