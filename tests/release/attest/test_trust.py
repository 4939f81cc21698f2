"""Whom to believe: every way in which a statement does not count has its own sentence, and nothing else counts."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError, OrbitError
from orbit.release.attest.dsse import Envelope, Signature, envelope_bytes, pae, parse_envelope
from orbit.release.attest.keys import keyid_of, public_pem
from orbit.release.attest.statement import COVERAGE, PAYLOAD_TYPE, PREDICATES, RELEASE, SMOKE, statement_bytes
from orbit.release.attest.trust import (
    Cause,
    NotBelieved,
    Trust,
    TrustRule,
    Verified,
    load_trust,
    read_trust,
    verify,
)
from tests.release.attest.world import (
    IMAGE,
    MADE,
    NOW,
    OTHER_IMAGE,
    attempt,
    believed,
    signed,
    signer,
    statement,
    trust,
)

LAB = signer()
STRANGER = signer()
RELEASER = signer()
TRUST = trust(believed("lab", LAB, SMOKE), believed("releaser", RELEASER, RELEASE))
GOOD = signed(LAB)


def check(envelope: Envelope, **changes: Any) -> Verified:
    values: dict[str, Any] = {"trust": TRUST, "predicate_type": SMOKE, "subject_digest": IMAGE, "now": NOW}
    values |= changes
    return verify(envelope, values.pop("trust"), **values, where="f.intoto.json")


def check_refused(envelope: Envelope, cause: Cause, says: str, **changes: Any) -> None:
    assert check(GOOD).signer == "lab"
    with pytest.raises(NotBelieved) as error:
        check(envelope, **changes)
    assert error.value.cause is cause
    assert error.value.what.startswith("f.intoto.json: ")
    assert says in error.value.what
    assert error.value.fix
    assert error.value.code == 1


def body(text: str | bytes, who: Any = LAB, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """Any bytes, signed as they are."""
    payload = text if isinstance(text, bytes) else text.encode()
    sig = Signature(sig=who.key.sign(pae(payload_type, payload)), keyid=who.keyid)
    return Envelope(payload=payload, payload_type=payload_type, signatures=(sig,))


def test_a_good_one_says_who_and_when() -> None:
    found = check(GOOD)
    assert (found.signer, found.keyid, found.identity, found.ignored) == ("lab", LAB.keyid, "", ())
    assert found.made == dt.datetime.fromisoformat(MADE)
    assert found.statement == statement()


def test_it_still_counts_after_a_file() -> None:
    assert check(parse_envelope(envelope_bytes(GOOD), "f")) == check(GOOD)


def test_another_payload_type() -> None:
    other = body(GOOD.payload, payload_type="application/json")
    check_refused(other, Cause.PAYLOAD_TYPE, "its payload is 'application/json', not a statement")
    check_refused(replace(GOOD, payload_type="text/plain"), Cause.PAYLOAD_TYPE, "text/plain")


def test_nobody_is_trusted() -> None:
    check_refused(GOOD, Cause.NOBODY_TRUSTED, "no key is trusted", trust=Trust())


def test_evidence_edited_by_hand() -> None:
    edited = GOOD.payload.replace(b'"passed":true', b'"passed":null')
    assert edited != GOOD.payload
    check_refused(
        replace(GOOD, payload=edited), Cause.BAD_SIGNATURE, "signature 1 says it is of lab, and does not match"
    )


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_of_the_payload_is_seen(place: int, change: int) -> None:
    payload = bytearray(GOOD.payload)
    payload[place % len(payload)] ^= change
    with pytest.raises(NotBelieved) as error:
        check(replace(GOOD, payload=bytes(payload)))
    assert error.value.cause is Cause.BAD_SIGNATURE


@given(st.data())
def test_whatever_is_done_to_the_file_nothing_false_is_believed(data: st.DataObject) -> None:
    """A file with one byte changed is refused, or what it says and who says it is unchanged."""
    whole = bytearray(envelope_bytes(GOOD))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    found = attempt(lambda: check(parse_envelope(bytes(whole), "f.intoto.json")))
    if isinstance(found, OrbitError):
        assert found.what.startswith("f.intoto.json")
        assert found.fix
    else:
        assert replace(found, ignored=()) == check(GOOD)


def test_an_unknown_key() -> None:
    check_refused(signed(STRANGER), Cause.UNKNOWN_KEY, f"is of a key that is not trusted ({STRANGER.keyid})")


def test_a_signature_that_names_no_key_and_matches_none() -> None:
    bare = replace(signed(STRANGER), signatures=(replace(signed(STRANGER).signatures[0], keyid=""),))
    check_refused(bare, Cause.UNKNOWN_KEY, "matches no key that is trusted, and names none")


def test_a_keyid_is_not_needed() -> None:
    bare = replace(GOOD, signatures=(replace(GOOD.signatures[0], keyid=""),))
    assert check(bare).signer == "lab"


def test_a_keyid_that_lies_gains_nothing() -> None:
    claims_lab = replace(signed(STRANGER), signatures=(replace(signed(STRANGER).signatures[0], keyid=LAB.keyid),))
    check_refused(claims_lab, Cause.BAD_SIGNATURE, "says it is of lab, and does not match that key")
    of_releaser = signed(RELEASER).signatures[0]
    claims_lab = replace(GOOD, signatures=(replace(of_releaser, keyid=LAB.keyid),))
    check_refused(claims_lab, Cause.MAY_NOT_SIGN, "signed by releaser, who may sign release, not smoke")
    claims_releaser = replace(GOOD, signatures=(replace(GOOD.signatures[0], keyid=RELEASER.keyid),))
    assert check(claims_releaser).signer == "lab"


def test_a_key_that_may_not_sign_this() -> None:
    check_refused(signed(RELEASER), Cause.MAY_NOT_SIGN, "signed by releaser, who may sign release, not smoke")


def test_a_key_that_is_no_longer_trusted() -> None:
    past = trust(believed("lab", LAB, SMOKE, until=NOW - dt.timedelta(days=1)))
    check_refused(GOOD, Cause.NO_LONGER, "trusted until 2026-11-29 21:00 UTC only", trust=past)
    assert check(GOOD, trust=trust(believed("lab", LAB, SMOKE, until=NOW))).signer == "lab"


def test_another_kind_of_statement() -> None:
    check_refused(
        signed(LAB, predicate_type=COVERAGE), Cause.OTHER_PREDICATE, "says gpu-arch-coverage, and smoke was asked"
    )


def test_another_image() -> None:
    check_refused(
        signed(LAB, image=OTHER_IMAGE), Cause.OTHER_IMAGE, f"about orbit/probe {OTHER_IMAGE}, not about {IMAGE}"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[]", "not an object"),
        ("{}", "_type is None"),
        (statement_bytes(statement())[:-1], "not JSON"),
        (statement_bytes(statement()).replace(b'{"_type"', b'{"predicate":{},"_type"', 1), "stands twice"),
        (statement_bytes(statement(started="yesterday")), "started"),
    ],
)
def test_a_good_signature_over_something_malformed(text: str | bytes, says: str) -> None:
    check_refused(body(text), Cause.MALFORMED, says)


def test_the_payload_is_not_looked_at_before_its_signature_holds() -> None:
    check_refused(body("{}", who=STRANGER), Cause.UNKNOWN_KEY, "not trusted")


def test_a_statement_from_the_future() -> None:
    ahead = (NOW + dt.timedelta(seconds=301)).isoformat()
    check_refused(
        signed(LAB, started=ahead), Cause.FUTURE, "dated 2026-11-30 21:05:01 UTC, 301 s from now; 300 s are tolerated"
    )
    assert check(signed(LAB, started=ahead), trust=trust(believed("lab", LAB), tolerance_s=301)).signer == "lab"
    later = (NOW + dt.timedelta(days=400)).isoformat()
    check_refused(signed(LAB, finished=later), Cause.FUTURE, "dated 2028-01-04")


def test_the_clock_of_the_verifier_may_be_the_wrong_one() -> None:
    with pytest.raises(NotBelieved) as error:
        check(GOOD, now=dt.datetime(1970, 1, 1, tzinfo=dt.UTC))
    assert error.value.cause is Cause.FUTURE
    assert "one of the two clocks is wrong" in error.value.fix


def test_evidence_without_a_time() -> None:
    check_refused(signed(LAB, started=""), Cause.UNDATED, "does not say when it was made")
    open_trust = trust(believed("lab", LAB, COVERAGE))
    made = signed(LAB, predicate_type=COVERAGE, started="")
    assert check(made, trust=open_trust, predicate_type=COVERAGE).made is None


def test_one_good_signature_of_several_is_enough() -> None:
    bad = Signature(sig=b"x" * 64, keyid=LAB.keyid)
    several = replace(GOOD, signatures=(signed(STRANGER).signatures[0], bad, GOOD.signatures[0]))
    found = check(several)
    assert found.signer == "lab"
    assert [sentence.partition(": ")[2][:11] for sentence in found.ignored] == ["signature 1", "signature 2"]
    both = replace(GOOD, signatures=(signed(RELEASER).signatures[0], GOOD.signatures[0]))
    assert check(both).signer == "lab"
    assert check(both).ignored == ()
    check_refused(replace(GOOD, signatures=(bad, signed(STRANGER).signatures[0])), Cause.BAD_SIGNATURE, "signature 1")


def test_two_bad_halves_make_no_whole() -> None:
    """One signer may sign the kind, another one's signature holds: that is nobody who may and did."""
    good_of_releaser = signed(RELEASER).signatures[0]
    bad_of_lab = Signature(sig=b"x" * 64, keyid=LAB.keyid)
    check_refused(replace(GOOD, signatures=(good_of_releaser, bad_of_lab)), Cause.MAY_NOT_SIGN, "releaser")


# --- trust as data ----------------------------------------------------------------------------------------------------

FILE = """
schema = 1
clock_tolerance_s = 60

[[trust]]
name = "lab"
key = "lab.pub"
may_sign = ["smoke", "qualification"]
until = "2027-01-01T00:00:00+00:00"

[[trust]]
name = "workflow"
identity = "https://github.com/o/r/.github/workflows/release.yml@refs/heads/main"
issuer = "https://token.actions.githubusercontent.com"
may_sign = ["release"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lab.pub").write_bytes(public_pem(LAB.key.public_key()))
    (tmp_path / "copy.pub").write_bytes(public_pem(LAB.key.public_key()))
    return tmp_path


def test_a_file_of_trust(folder: Path) -> None:
    (folder / "trust.toml").write_text(FILE)
    read = read_trust(folder / "trust.toml")
    assert [one.name for one in read.signers] == ["lab", "workflow"]
    assert read.clock_tolerance_s == 60
    assert check(GOOD, trust=read).signer == "lab"
    (folder / "trust.toml").write_text(FILE.replace("schema = 1", "schema = 2"))
    with pytest.raises(InputError, match="schema 2 is not known"):
        read_trust(folder / "trust.toml")
    (folder / "trust.toml").write_text(FILE + 'more = "x"\n')
    with pytest.raises(InputError, match="more"):
        read_trust(folder / "trust.toml")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "without a name"),
        ({"may_sign": ()}, "without may_sign"),
        ({"may_sign": ("smoke", "everything")}, "may_sign names everything"),
        ({"key": ""}, "needs a key or an identity"),
        ({"identity": "a", "issuer": "b"}, "needs a key or an identity, one of them"),
        ({"issuer": "b"}, "identity and issuer belong together"),
        ({"key": "", "identity": "a"}, "identity and issuer belong together"),
        ({"key": "absent.pub"}, "no such file"),
        ({"keyid": "ab"}, "not ab"),
        ({"until": "2027-01-01"}, "no time zone"),
    ],
)
def test_a_row_that_means_nothing_is_refused(folder: Path, change: dict[str, Any], says: str) -> None:
    values: dict[str, Any] = {"name": "lab", "key": "lab.pub", "keyid": keyid_of(LAB.key.public_key())}
    values |= {"may_sign": ("smoke",)}
    assert load_trust([TrustRule(**values)], folder).signers[0].keyid == LAB.keyid
    with pytest.raises(InputError) as error:
        load_trust([TrustRule(**(values | change))], folder)
    assert says in error.value.what


def test_a_signer_stands_once(folder: Path) -> None:
    rule = TrustRule(name="lab", key="lab.pub", may_sign=("smoke",))
    with pytest.raises(InputError, match="the name lab stands in two rows"):
        load_trust([rule, rule], folder)
    with pytest.raises(InputError, match=f"the key {LAB.keyid} stands in two rows"):
        load_trust([rule, TrustRule(name="b", key="copy.pub", may_sign=("release",))], folder)
    with pytest.raises(InputError, match="clock_tolerance_s"):
        load_trust([rule], folder, clock_tolerance_s=-1)


def test_every_predicate_can_be_signed_and_every_cause_is_used() -> None:
    for kind in PREDICATES.values():
        made = signed(LAB, predicate_type=kind)
        assert (
            check(made, trust=trust(believed("lab", LAB, kind)), predicate_type=kind).statement.predicate_type == kind
        )
    text = Path(__file__).read_text()
    assert [cause.name for cause in Cause if f"Cause.{cause.name}" not in text] == []


def test_a_bundle_without_a_trusted_identity() -> None:
    bundle = json.dumps({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}).encode()
    check_refused(
        replace(GOOD, bundle=bundle), Cause.UNKNOWN_KEY, "signed through sigstore, and no identity is trusted"
    )
