"""orbit.release.second_prefix: what counts as a proof, and one that is done for real."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.findings import Skipped, error_finding
from orbit.core.store import Store
from orbit.env.activate import activation_of, render
from orbit.env.archive import plan_archive, write_archive_file
from orbit.env.create import create_environment
from orbit.errors import ExitCode, InputError, RefusedError
from orbit.image.own import read_own
from orbit.image.smoke.report import SmokeRun
from orbit.profile.model import Profile, load_profile
from orbit.release.evidence import Result
from orbit.release.second_place import choose_place
from orbit.release.second_prefix import (
    Request,
    SecondPrefix,
    for_environment,
    image_digest,
    prove,
    verdict,
    without_path,
)
from orbit.smoke.model import FAILED, PASSED, Check, CheckResult, Conditions, SmokeList
from tests.env.archives import everything, plan_of, unpack
from tests.env.wheels import House, write_wheel
from tests.profile.locks import lock_text
from tests.pythons import require_copyable
from tests.writers.tiny_image import folder, write_image

ROOT = Path(__file__).parents[2]
GOOD = CheckResult(check="a", kind="import", result=PASSED, seconds=0.1)
RUN = SmokeRun(list="cpu", uid=1, seconds=1.0, results=(GOOD,))
FINDING = error_finding("hollow-package", "x", "is empty", {}, "fix it")


def test_only_a_whole_run_without_a_fault_is_a_proof() -> None:
    bad = replace(GOOD, result=FAILED, detail="crashed")
    assert verdict((), (RUN,), ()) == (Result.PASSED, "")
    assert verdict((), (), ())[0] is Result.SKIPPED
    assert verdict((), (RUN,), (Skipped(what="b", reason="c"),)) == (Result.SKIPPED, "not looked at: b: c")
    assert verdict((FINDING,), (RUN,), ())[0] is Result.FAILED
    result, reason = verdict((), (msgspec.structs.replace(RUN, results=(GOOD, bad)),), ())
    assert (result, reason) == (Result.FAILED, "smoke: 1 check(s) failed, a: crashed")
    assert verdict((msgspec.structs.replace(FINDING, waiver="until then"),), (RUN,), ())[0] is Result.PASSED


def document(**more: object) -> SecondPrefix:
    base = SecondPrefix(
        result=Result.PASSED, archive="sha256:0", archive_bytes=1, environment="e", profile="p", lock="l",
        prefix="another", first_prefix_bytes=10, second_prefix_bytes=20, uid=1, real_ids=True, engine="bubblewrap",
        read_only=True, network=False, files=1, bytes=1, audit={}, findings=(), runs=(RUN,), skipped=(), started="",
        finished="", seconds={},
    )  # fmt: skip
    return msgspec.structs.replace(base, **more)


@pytest.mark.parametrize(
    ("result", "code"), [("passed", ExitCode.OK), ("failed", ExitCode.FINDINGS), ("skipped", ExitCode.MISSING)]
)
def test_the_exit_status_says_what_it_came_to(result: str, code: ExitCode) -> None:
    assert document(result=Result(result)).exit_code == code


def test_the_second_path_is_not_in_the_document() -> None:
    place = Path('/data/pr"ivate/x')
    run = msgspec.structs.replace(RUN, results=(replace(GOOD, detail=f"state {place}/tmp"),))
    told = without_path(document(runs=(run,)), place)
    assert told.runs[0].results[0].detail == "state {prefix}/tmp"
    assert b"ivate" not in msgspec.json.encode(told)


def test_a_list_for_an_image_is_asked_about_the_environment_alone() -> None:
    parameters = {
        "folders": ["{prefix}", "/usr", "{prefix}/lib"],
        "root_only": ["/proc/slabinfo"],
        "read_only": ["/", "{prefix}"],
    }
    plan = SmokeList(
        name="x", checks=(Check(name="a", kind="tree", parameters=parameters), Check(name="b", kind="import"))
    )
    tree, other = for_environment(plan).checks
    assert tree.parameters == {"folders": ["{prefix}", "{prefix}/lib"], "root_only": [], "read_only": ["{prefix}"]}
    assert other == plan.checks[1]


def test_a_user_that_cannot_be_become_and_a_place_that_is_taken_are_refused(tmp_path: Path) -> None:
    from tests.env.archives import make_environment

    make_environment(tmp_path / "there")
    with pytest.raises(RefusedError, match="an environment is there"):
        prove(Request(archive=tmp_path / "a", prefix=tmp_path / "there"), progress=Silent())


# --- for real ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profile() -> Profile:
    made = load_profile("probe")
    return msgspec.structs.replace(made, smoke=("second-prefix-test",), expectations=())


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user may enter, which the folders of tests are not."""
    with tempfile.TemporaryDirectory(prefix="second-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def archive(place: Path, profile: Profile) -> Path:
    """The archive of a real environment: the running interpreter, one wheel, Orbit's own files."""
    require_copyable()
    root = place / "root"
    root.mkdir()
    (root / "uv.lock").write_text(lock_text())
    house = House(wheels=[write_wheel(root / "w", "hello", "1.0", {"hello/__init__.py": b"X = 1\n"}, {})])
    entry = create_environment(load_profile("probe"), root, house, Store(place / "store"), progress=Silent())
    plan = plan_archive(entry.path / "prefix", read_own(ROOT), progress=Silent())
    write_archive_file(plan, place / "env.tar.zst", progress=Silent())
    return place / "env.tar.zst"


@pytest.fixture
def small_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be asked of an environment without the lock's packages."""
    checks = (
        Check(name="identity", kind="identity", parameters={"read_only": ["{prefix}"]}),
        Check(name="tree", kind="tree", parameters={"folders": ["{prefix}", "/usr"]}),
        Check(name="explains", kind="command",
              parameters={"argv": ["{prefix}/bin/orbit-entrypoint", "--explain"], "output": "PATH="}),
        Check(name="hello", kind="import", parameters={"modules": ["hello", "orbit.errors"]}),
    )  # fmt: skip
    monkeypatch.setattr(
        "orbit.release.second_prefix.load_list", lambda name: SmokeList(name=name, checks=checks, uids=(0, 65534))
    )


@pytest.mark.integration
def test_an_archive_is_proved_for_another_user(archive: Path, place: Path, profile: Profile, small_list: None) -> None:
    prefix = place / "new" / "a second place"
    found = prove(Request(archive=archive, prefix=prefix, profile=profile), progress=Silent())
    results = {result.check: (result.result, result.detail) for run in found.runs for result in run.results}
    assert {name: result for name, (result, _) in results.items()} == dict.fromkeys(
        ("start", "identity", "tree", "explains", "hello"), PASSED
    ), results
    who = 65534 if os.geteuid() == 0 else os.geteuid()
    assert (found.uid, found.schema, found.first_prefix_bytes) == (who, "orbit.second-prefix/1", len("/opt/orbit"))
    assert found.second_prefix_bytes == len(os.fsencode(prefix))
    assert len(found.archive) == len("sha256:") + 64
    assert str(prefix).encode() not in msgspec.json.encode(found)
    assert not prefix.exists()
    assert not prefix.parent.exists()
    if found.engine == "bubblewrap":
        assert found.read_only
        assert not found.network
        assert found.skipped == ()
    if not found.findings:
        assert found.result is (Result.PASSED if found.engine == "bubblewrap" else Result.SKIPPED)


@pytest.mark.integration
def test_a_folder_that_user_may_not_write_to_is_said(
    archive: Path, place: Path, profile: Profile, small_list: None
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (place / "closed").mkdir(mode=0o700)
    with pytest.raises(Exception, match="user 65534 may not write there") as caught:
        prove(Request(archive=archive, prefix=place / "closed" / "env", profile=profile), progress=Silent())
    assert getattr(caught.value, "code", None) == ExitCode.REFUSED


@pytest.mark.integration
def test_a_read_only_environment_is_activated_and_used_without_a_write(archive: Path, place: Path) -> None:
    """Activated in a shell, as another user, with a checkout on top; afterwards every path is as it was."""
    root = place / "checkout"
    (root / "src" / "mine").mkdir(parents=True, exist_ok=True)
    (root / "src" / "mine" / "__init__.py").write_text("def main():\n    print('mine', __file__)\n")
    (root / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\n[project.scripts]\nmine = "mine:main"\n'
    )
    prefix = place / "used"
    unpack(archive, prefix, root)
    before = everything(prefix)
    who = choose_place(prefix, 65534 if os.geteuid() == 0 else os.geteuid())
    if who.choice is None:
        pytest.skip(who.reason)
    state = "/tmp/state"
    script = render(activation_of(prefix, state), state, "sh")
    script += (
        "python3.12 -c 'import hello, sys; print(hello.X, sys.prefix)'\nmine\ntouch \"$(dirname $(which mine))/x\"\n"
    )
    argv = who.argv(["/bin/sh", "-c", script], Conditions())
    argv[argv.index("--chdir") : argv.index("--chdir")] = ["--ro-bind", str(root), str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"1 {prefix}", f"mine {root}/src/mine/__init__.py"], done.stderr
    assert "Read-only file system" in done.stderr
    assert everything(prefix) == before


def test_the_image_must_hold_the_same_environment(tmp_path: Path) -> None:
    manifest = msgspec.structs.replace(plan_of(tmp_path / "env").manifest, orbit="k" * 64)
    labels = {
        "io.orbit.environment": manifest.environment,
        "io.orbit.lock": manifest.lock,
        "org.opencontainers.image.revision": manifest.orbit,
    }
    layers = [[folder("opt")]]
    image = write_image(tmp_path / "image", layers, config={"Labels": labels})
    assert image_digest(image, manifest).startswith("sha256:")
    for name in labels:
        other = write_image(tmp_path / name, layers, config={"Labels": labels | {name: "another"}})
        with pytest.raises(InputError, match=f"{name} is another, and"):
            image_digest(other, manifest)
    with pytest.raises(InputError):
        image_digest(tmp_path / "nothing", manifest)
