"""expectation: exceptions that match nothing are findings; true ones are silent."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

import msgspec
import pytest

from orbit.audit.evaluate import evaluate
from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import Absent, Dispatching, Expectations, Feature, Gap, Waiver
from orbit.audit.rules import RULES
from orbit.core.console import Silent
from orbit.core.findings import Finding
from tests.audit.support import TODAY, judge, make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

REASON = "written for this test only"
RULE = "expectation"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    env = EnvironmentWriter(tmp_path / "e")
    hopper = write_elf(
        needed=["libmpi.so.40"], sections=[(".nv_fatbin", write_section(write_container("sm_90a"), b""))]
    )
    env.add("ext", {"ext/_c.cpython-310-x86_64-linux-gnu.so": hopper, "ext/other.py": b""})
    notes = env.prefix / "share/orbit/environment.json"
    notes.parent.mkdir(parents=True)
    notes.write_text('{"profile": "probe"}')
    return env


FILE = "ext/_c.cpython-310-x86_64-linux-gnu.so"


def gap(**changes: object) -> Gap:
    fields = {"file": FILE, "target": "b200", "result": "none", "containers": 1, "reason": REASON, **changes}
    return Gap(**fields)  # type: ignore[arg-type]


def test_true_exceptions_are_silent(env: EnvironmentWriter) -> None:
    expectations = Expectations(
        schema=1,
        gaps=(gap(served_by=("ext/other.*",)),),
        absent=(Absent(files=("ext/*",), sonames=("libmpi*",), reason=REASON),),
    )
    assert judge(env.prefix, RULE, make_policy(expectations)) == []


@pytest.mark.parametrize(
    ("expectations", "words"),
    [
        (Expectations(schema=1, dispatching=(Dispatching(files=("gone/*",), reason=REASON),)), "no file with device"),
        (Expectations(schema=1, gaps=(gap(file="gone.so"),)), "no such file"),
        (Expectations(schema=1, gaps=(gap(target="h100"),)), "it has none"),
        (Expectations(schema=1, gaps=(gap(result="ptx-jit"),)), "it has none"),
        (Expectations(schema=1, gaps=(gap(served_by=("fa4/*",)),)), "not there"),
        (
            Expectations(schema=1, absent=(Absent(files=("ext/*",), sonames=("libucp*",), reason=REASON),)),
            "misses none",
        ),
    ],
)
def test_stale_exceptions_are_findings(env: EnvironmentWriter, expectations: Expectations, words: str) -> None:
    (finding,) = judge(env.prefix, RULE, make_policy(expectations))
    assert words in finding.message
    assert finding.fatal


def test_what_only_wheels_miss_is_not_asked_of_an_environment(env: EnvironmentWriter) -> None:
    entry = Absent(files=("ext/*",), sonames=("libpython*",), reason=REASON, only="wheels")
    assert judge(env.prefix, RULE, make_policy(Expectations(schema=1, absent=(entry,)))) == []
    covering = msgspec.structs.replace(entry, sonames=("libmpi*",))
    missing = judge(env.prefix, "needs-library", make_policy(Expectations(schema=1, absent=(covering,))))
    assert [finding.subject for finding in missing] == ["libmpi.so.40"]


def waived(
    env: EnvironmentWriter, *waivers: Waiver, judged: tuple[str, ...] = ("foreign-extension", RULE)
) -> dict[str, list[Finding]]:
    policy = make_policy(Expectations(schema=1, waivers=waivers))
    found: dict[str, list[Finding]] = {}
    facts = read_environment(env.prefix, policy.profile, Silent())
    for finding in evaluate(facts, policy, (RULES[name] for name in judged)):
        found.setdefault(finding.rule, []).append(finding)
    return found


def waiver(subject: str, expires: dt.date = TODAY) -> Waiver:
    return Waiver(rule="foreign-extension", subject=subject, reason=REASON, expires=expires)


def test_waiver_applies_until_its_last_day(env: EnvironmentWriter) -> None:
    found = waived(env, waiver("ext/_c*.so"))
    assert not found["foreign-extension"][0].fatal
    assert REASON in found["foreign-extension"][0].waiver
    assert RULE not in found


def test_expired_waiver_does_not_apply_and_says_so(env: EnvironmentWriter) -> None:
    found = waived(env, waiver("ext/_c*.so", TODAY - dt.timedelta(days=1)))
    assert found["foreign-extension"][0].fatal
    assert "expired" in found[RULE][0].message


def test_waiver_without_a_finding(env: EnvironmentWriter) -> None:
    assert "matches no finding" in waived(env, waiver("other*"))[RULE][0].message


def test_waivers_of_rules_that_did_not_run_are_not_judged(env: EnvironmentWriter) -> None:
    assert waived(env, waiver("other*"), waiver("gone*", TODAY - dt.timedelta(days=1)), judged=(RULE,)) == {}


def test_features_that_match_nothing(env: EnvironmentWriter) -> None:
    feature = Feature(files=("ext/*.so", "gone/*.so"), target="h100", reason=REASON)
    (finding,) = judge(env.prefix, RULE, make_policy(Expectations(schema=1, features=(feature,))))
    assert (finding.subject, "need a feature" in finding.message) == ("gone/*.so", True)


FOREIGN = Expectations(
    schema=1,
    dispatching=(Dispatching(files=("nvidia/cufft/*.so",), reason=REASON),),
    gaps=(gap(file="sgl_kernel/flash_ops.so"), gap(file="shared/a.so"), gap(file="ext/gone.so")),
    absent=(Absent(files=("torchcodec/*.so",), sonames=("libav*",), reason=REASON),),
)


def test_another_environment_is_judged_by_what_is_in_it(env: EnvironmentWriter) -> None:
    for name in ("one", "two"):
        env.add(name, {f"shared/{name}.so": b""})
    own = judge(env.prefix, RULE, make_policy(FOREIGN))
    assert len(own) == 5
    for text in ('{"profile": "other"}', "[", "{}"):
        (env.prefix / "share/orbit/environment.json").write_text(text)
        (finding,) = judge(env.prefix, RULE, make_policy(FOREIGN))
        assert finding.subject == "ext/gone.so (b200)"


def test_waivers_of_another_environment_are_judged_by_what_is_in_it(env: EnvironmentWriter) -> None:
    (env.prefix / "share/orbit/environment.json").unlink()
    assert RULE not in waived(env, waiver("elsewhere/_c.so"), waiver("x", TODAY - dt.timedelta(days=1)))
    assert "matches no finding" in waived(env, waiver("ext/other.py"))[RULE][0].message


def test_a_wheel_is_judged_by_its_own_files(env: EnvironmentWriter) -> None:
    (env.prefix / "share/orbit/environment.json").unlink()
    policy = make_policy(FOREIGN)
    wheel = dataclasses.replace(read_environment(env.prefix, policy.profile, Silent()), kind="wheels")
    assert list(RULES[RULE].check(wheel, policy)) == []
    closed = make_policy(Expectations(schema=1, gaps=(gap(target="h100"),)))
    assert len(list(RULES[RULE].check(wheel, closed))) == 1


def test_a_wheel_alone_says_nothing_of_the_package_that_serves_in_its_place(env: EnvironmentWriter) -> None:
    (env.prefix / "share/orbit/environment.json").unlink()

    def found(served_by: str) -> list[str]:
        policy = make_policy(Expectations(schema=1, gaps=(gap(served_by=(served_by,)),)))
        wheel = dataclasses.replace(read_environment(env.prefix, policy.profile, Silent()), kind="wheels")
        return [finding.message for finding in RULES[RULE].check(wheel, policy)]

    assert found("elsewhere/backend.py") == []
    (message,) = found("ext/gone.py")
    assert "ext/gone.py, which is not there" in message


def test_a_waiver_of_wheels_says_nothing_of_what_is_installed(env: EnvironmentWriter) -> None:
    only = msgspec.structs.replace(waiver("ext/_c*.so"), only="wheels")
    stale = msgspec.structs.replace(waiver("ext/other.py", TODAY - dt.timedelta(days=1)), only="wheels")
    found = waived(env, only, stale)
    assert found["foreign-extension"][0].fatal
    assert RULE not in found
    policy = make_policy(Expectations(schema=1, waivers=(only, stale)))
    wheel = dataclasses.replace(read_environment(env.prefix, policy.profile, Silent()), kind="wheels")
    judged = evaluate(wheel, policy, [RULES["foreign-extension"], RULES[RULE]])
    assert [(item.rule, bool(item.waiver)) for item in judged] == [("foreign-extension", True), (RULE, False)]
    assert "expired" in judged[1].message
