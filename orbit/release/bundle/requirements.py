"""The gate's requirements, judged again by its own rules from the files of a bundle; and each GPU."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from orbit import __version__
from orbit.errors import OrbitError
from orbit.release.attest.keys import keyid_of, parse_public
from orbit.release.bundle import facts
from orbit.release.bundle.claims import Case, believed, unequal
from orbit.release.bundle.integrity import AGAIN, shortened
from orbit.release.bundle.model import CYCLONEDX, EVIDENCE, KEYS, SUMMARY
from orbit.release.bundle.report import Claim, State
from orbit.release.bundle.targets import REQUIREMENT as TARGETS
from orbit.release.bundle.targets import targets_of
from orbit.release.gate.case import Judgement, Mark
from orbit.release.gate.decide import Decision, decide
from orbit.release.gate.model import NAMES
from orbit.release.provenance import stage_of


def judge_requirements(case: Case) -> Iterator[Claim]:
    """The decision made again by the same rules: a claim for each requirement, those of GPUs apart."""
    for name in NAMES:
        if name == "documents":
            yield _pages(case)
        elif name == "waivers":
            yield _waivers(case)
        elif name != TARGETS:
            yield _requirement(case, name)


def _requirement(case: Case, name: str) -> Claim:
    text, label = case.again.definition.requirement(name).text, "records" if name == "evidence" else name
    signed, found = _of(case.decision, name), _of(case.again.decision, name)
    wrong = _differ(signed, found)
    if wrong and (why := case.again.unchecked.get(name)):
        return Claim(name=label, text=text, state=State.NOT_CHECKED, why=why, fix="see docs/attest.md")
    if wrong and case.decision.orbit_version != __version__:
        return _other_rules(case, label, text, shortened(wrong))
    if wrong:
        return Claim(name=label, text=text, state=State.CONTRADICTED, why=shortened(wrong), fix=AGAIN)
    if name == "sbom" and (wrong := _counts(case)):
        return Claim(name=label, text=text, state=State.CONTRADICTED, why=shortened(wrong), fix=AGAIN)
    shown = "; ".join(
        dict.fromkeys(f"{item.subject}: {item.reason}" if item.subject else item.reason for item in found)
    )
    return _by_whom(case, label, text, shown, found)


def _other_rules(case: Case, name: str, text: str, wrong: str) -> Claim:
    """Rules may have changed since: what they say now is told, and is no contradiction."""
    made = case.decision.orbit_version
    why = f"decided by orbit {made}; by the rules of orbit {__version__}: {wrong}"
    return Claim(name=name, text=text, state=State.NOT_CHECKED, why=why, fix=f"verify it with orbit {made}")


def _of(decision: Decision, name: str) -> tuple[Judgement, ...]:
    return tuple(item for item in decision.judgements if item.requirement == name)


def _differ(signed: tuple[Judgement, ...], found: tuple[Judgement, ...]) -> list[str]:
    """Where the files say something else than the decision that was signed."""
    said = {item.subject: item for item in signed}
    now = {item.subject: item for item in found}
    wrong = []
    for subject in dict.fromkeys([*now, *said]):
        one, other = said.get(subject), now.get(subject)
        if one is None or other is None or one.mark is not other.mark:
            about = f"{subject}: " if subject else ""
            then = one.mark.value if one else "not judged"
            why = f"is {other.mark.value}: {other.reason}" if other else "is not judged at all"
            wrong.append(f"{about}was {then}, and by these files {why}")
    return wrong


def _counts(case: Case) -> list[str]:
    """Components by kind, in the bill of materials and by the record of the stage that made it."""
    try:
        counted = facts.counts_by_kind(msgspec.json.decode(case.files[CYCLONEDX]))
        said = stage_of(facts.summary_of(case.files).stages, "sbom").outputs.get("components")
    except (OrbitError, msgspec.DecodeError) as error:
        return [str(error)]
    wanted = {kind: count for kind, count in said.items() if count} if isinstance(said, dict) else said
    return unequal(f"components by kind, in {CYCLONEDX} and by {SUMMARY}", counted, wanted)


def _by_whom(case: Case, name: str, text: str, shown: str, found: tuple[Judgement, ...]) -> Claim:
    """Proven; but what another machine signed is only as good as its key, and whether the user knows that one."""
    paths = tuple(
        dict.fromkeys(
            EVIDENCE + file
            for item in found
            for file in item.file.split(", ")
            if file and EVIDENCE + file in case.files
        )
    )
    strangers, signers = [], []
    for path in paths:
        try:
            known = believed(case, path, facts.statement_of(case.files, path).predicate_type)
            signers.append(known.signer)
        except OrbitError as error:
            strangers.append(error.what)
    if strangers:
        why = f"{shown}. The release's signer says so; {shortened(strangers)}"
        copies = ", ".join(_copies(case, paths)) or "keys/ has none"
        fix = (
            f"--key FILE with the public key of the machine that signed it, if you know whose it is (a copy: {copies})"
        )
        return Claim(name=name, text=text, state=State.NOT_CHECKED, why=why, fix=fix, files=paths)
    by = f"; signed by {', '.join(dict.fromkeys(signers))}" if signers else ""
    return Claim(name=name, text=text, state=State.PROVEN, why=shown + by, files=paths)


def _copies(case: Case, paths: tuple[str, ...]) -> Iterator[str]:
    """Keys in the bundle that these statements name as theirs: where to look whom to ask."""
    named = {signature.keyid for path in paths for signature in facts.envelope_of(case.files, path).signatures}
    for path in sorted(case.files):
        if path.startswith(KEYS) and keyid_of(parse_public(case.files[path], path)) in named:
            yield path


def _pages(case: Case) -> Claim:
    text = case.again.definition.requirement("documents").text
    said = "; ".join(item.reason for item in _of(case.decision, "documents"))
    why = f"the pages are in the checkout, not in a bundle; the gate said: {said}"
    return Claim(
        name="documents", text=text, state=State.NOT_CHECKED, why=why, fix="clone the commit and run its tests"
    )


def _waivers(case: Case) -> Claim:
    """As on the day of the decision, and today."""
    before = _requirement(case, "waivers")
    if before.state is not State.PROVEN:
        return before
    today = _of(decide(case.again.evidence, case.again.definition, case.moment), "waivers")
    late = [f"{item.subject} {item.reason}" for item in today if item.mark is not Mark.MET]
    if late:
        why = f"today ({case.now:%Y-%m-%d}) it no longer holds: {shortened(late)}"
        fix = "get a newer release, or decide yourself whether you accept it"
        return Claim(name="waivers", text=before.text, state=State.CONTRADICTED, why=why, fix=fix)
    return before


def judge_targets(case: Case) -> Iterator[Claim]:
    """A claim for each GPU: shown by signed reports that are judged again here, or unproven as the release says."""
    again = {target.name: target for target in targets_of(case.again.decision, case.profile)}
    found = _of(case.again.decision, TARGETS)
    yield from _strays(case, found)
    for target in case.signed.index.targets:
        name, devices = f"target {target.name}", " or ".join(target.devices)
        text = f"the image works on {devices}"
        now = again.get(target.name, target)
        mine = tuple(item for item in found if item.subject == target.name)
        unchecked = case.again.unchecked.get("smoke", "")
        if target.state == "unproven" and now.state == "unproven":
            yield Claim(name=name, text=text, state=State.UNPROVEN, why=target.why, fix=_try(case))
        elif target.state != now.state and unchecked:
            yield Claim(name=name, text=text, state=State.NOT_CHECKED, why=unchecked, fix="see docs/attest.md")
        elif target.state != now.state and case.decision.orbit_version != __version__:
            yield _other_rules(case, name, text, now.why)
        elif target.state != now.state:
            why = f"the release says {target.state}, and by these files it is {now.state}: {now.why or mine[0].reason}"
            yield Claim(name=name, text=text, state=State.CONTRADICTED, why=why, fix=AGAIN, files=target.evidence)
        else:
            yield _by_whom(case, name, text, "; ".join(item.reason for item in mine), mine)


def _strays(case: Case, found: tuple[Judgement, ...]) -> Iterator[Claim]:
    """Statements that show nothing of any GPU; the gate refuses them, so no release has one."""
    names = {target.name for target in case.profile.targets}
    strays = [f"{item.subject} {item.reason}" for item in found if item.subject not in names]
    if strays and not case.again.unchecked:
        text = "every statement of another machine counts"
        yield Claim(name="evidence", text=text, state=State.CONTRADICTED, why=shortened(strays), fix=AGAIN)


def _try(case: Case) -> str:
    return f"on such a machine: orbit image smoke LAYOUT --gpu --profile {case.profile.name}"
