"""orbit.env.install: what is installed, what is not and why; what uv says, in our words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from orbit.core import tools
from orbit.core.findings import Skipped
from orbit.core.paths import checkout_root
from orbit.core.proc import clean_env
from orbit.core.tools import explain_uv
from orbit.env.install import check_wheels, make_plan, requirements
from orbit.errors import CommandFailed, InputError, MissingError, RefusedError
from orbit.profile.lock import Lock, parse_lock, read_lock
from orbit.profile.model import Profile, load_profile
from tests.profile.locks import lock_text, package, wheel

from .wheels import Built, House, write_wheel

SDIST = f'{{ url = "https://files.test/built-2.0.tar.gz", hash = "sha256:{"cd" * 32}", size = 10 }}'


@pytest.fixture
def profile() -> Profile:
    return load_profile("probe")


@pytest.fixture
def lock() -> Lock:
    text = lock_text(
        package("plain", needs=["built"]),
        package("built", "2.0", wheels=[], sdist=SDIST),
        package("local", wheels=[wheel("local", "1.0", size=7)]),
        needs=["plain", "local"],
    )
    return parse_lock(text.encode(), Path("uv.lock"))


def test_prebuilt_built_and_skipped(profile: Profile, lock: Lock) -> None:
    plan = make_plan(profile, lock, House())
    assert [package.name for package in plan.prebuilt] == ["local", "plain"]
    assert plan.skipped == (Skipped(what="built", reason="no published wheel fits and no recipe built one"),)
    assert plan.download_bytes == 1007
    assert requirements(plan).splitlines() == [f"{n}==1.0 --hash=sha256:{'ab' * 32}" for n in ("local", "plain")]


def test_a_skip_of_the_wheelhouse_keeps_its_reason_and_estimate(profile: Profile, lock: Lock) -> None:
    skip = Skipped(what="Built", reason="tier extended", estimate="6 core-hours")
    other = Skipped(what="probe-lib", reason="no compiler")
    plan = make_plan(profile, lock, House(skipped=[skip, other]))
    assert plan.skipped == (Skipped(what="built", reason="tier extended", estimate="6 core-hours"), other)


def test_a_built_wheel_takes_the_place_of_a_published_one(profile: Profile, lock: Lock) -> None:
    house = House(wheels=[Built("plain", "1.0", "/w/plain.whl", "00"), Built("extra", "3", "/w/extra.whl", "11")])
    plan = make_plan(profile, lock, house)
    assert [package.name for package in plan.prebuilt] == ["local"]
    assert [(d.name, d.origin, d.wheel) for d in plan.distributions()] == [
        ("extra", "wheelhouse", "extra.whl"),
        ("local", "index", "local-1.0-py3-none-any.whl"),
        ("plain", "wheelhouse", "plain.whl"),
    ]


def test_a_built_wheel_of_another_version_is_refused(profile: Profile, lock: Lock) -> None:
    with pytest.raises(InputError, match=r"built 1\.9, the lock has 2\.0"):
        make_plan(profile, lock, House(wheels=[Built("built", "1.9", "/w", "00")]))


def test_damaged_and_absent_wheels_are_refused(tmp_path: Path) -> None:
    good = write_wheel(tmp_path, "good", "1", {"good.py": b""})
    check_wheels([good])
    Path(good.path).write_bytes(b"cut")
    with pytest.raises(InputError, match="damaged wheel of good"):
        check_wheels([good])
    Path(good.path).unlink()
    with pytest.raises(MissingError, match="wheel of good is not there"):
        check_wheels([good])


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("error: Failed to fetch: `https://i.test`\n  Caused by: dns error", MissingError),
        ("Caused by: invalid peer certificate: UnknownIssuer", MissingError),
        ("failed to copy: No space left on device (os error 28)", RefusedError),
        ("Hash mismatch for `x==1`", InputError),
        ("something else", CommandFailed),
    ],
)
def test_what_uv_says_becomes_the_right_kind_of_failure(said: str, kind: type[Exception]) -> None:
    error = explain_uv(CommandFailed("installing: uv ended with status 1", argv=["uv"], status=1, tail=said))
    assert type(error) is kind
    assert said.splitlines()[-1] in str(error)
    assert error.fix or kind is CommandFailed


@pytest.mark.integration
@pytest.mark.parametrize("name", ["probe", "cu130"])
def test_the_plan_is_what_uv_exports(name: str) -> None:
    root = checkout_root()
    profile = load_profile(name)
    plan = make_plan(profile, read_lock(root / "uv.lock"), House())
    ours = {(package.name, package.version) for package in plan.prebuilt} | {
        (skip.what, read_lock(root / "uv.lock").package(skip.what).version) for skip in plan.skipped
    }
    extras = [option for extra in profile.extras for option in ("--extra", extra)]
    command = [tools.uv(), "export", "--frozen", "--no-emit-project", "--no-default-groups", "--no-hashes"]
    out = subprocess.run(
        [*command, "--no-annotate", "--no-header", *extras],
        cwd=root, env=clean_env(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    theirs = set(re.findall(r"^([a-z0-9-]+)==([^ ]+)", out, re.MULTILINE))
    assert len(ours) >= 8
    assert ours == theirs
