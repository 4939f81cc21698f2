"""Smoke from outside: complete results, reports, engines, and real runs in a tiny image made of host programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.findings import Skipped
from orbit.core.records import dump_json, load_json
from orbit.core.store import Store
from orbit.errors import ExitCode, InputError, MissingError
from orbit.image import smoke
from orbit.image.rootfs import RootTree, unpack_image
from orbit.image.rootfs_layout import read_image
from orbit.image.smoke_devices import INSIDE, Devices, driver_libraries
from orbit.image.smoke_docker import Docker, find_docker, open_docker
from orbit.image.smoke_engine import Choice, Engine, find_bubblewrap, find_unshare, home_of, open_engine
from orbit.image.smoke_follow import Follower, read_result
from orbit.image.smoke_report import SmokeReport, SmokeRun, render
from orbit.profile.model import load_profile
from orbit.smoke.model import Check, CheckResult, SmokeList
from tests.writers.tiny_image import file, folder, host_programs, symlink, write_image

PLAN = SmokeList(
    name="tiny",
    checks=(Check(name="one", kind="import", timeout_s=20), Check(name="two", kind="import", timeout_s=20)),
    uids=(0, 65534),
)
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
ENTRYPOINT = b"""#!/bin/sh
export SEEN_ENTRYPOINT=yes
exec "$@"
"""
ANSWERING = b"""#!/bin/sh
cat > /tmp/order
echo "a line that is no result"
for name in one two; do
    printf '{"check": "%s", "kind": "import", "result": "passed", "seconds": 1, "detail": "uid %s"}\\n' $name $(id -u)
done
"""
CRASHING = b"""#!/bin/sh
printf '{"check": "one", "kind": "import", "result": "passed", "seconds": 0.1}\\n'
echo "then the interpreter fell over"
exit 7
"""


def result(name: str, kind: str = "passed", detail: str = "", tail: str = "") -> CheckResult:
    return CheckResult(check=name, kind="import", result=kind, seconds=0.5, detail=detail, tail=tail)


def report(*results: CheckResult, not_run: tuple[Skipped, ...] = ()) -> SmokeReport:
    runs = (SmokeRun(list="cpu", uid=65534, seconds=2.0, results=results),) if results else ()
    return SmokeReport(
        profile="p",
        image="sha256:0",
        engine="bubblewrap",
        engine_version="0.8",
        real_ids=True,
        runs=runs,
        not_run=not_run,
    )


def test_a_check_without_a_result_failed() -> None:
    found = smoke.complete(PLAN, [result("one")], "ended with status 7", "noise")
    assert [item.result for item in found] == ["passed", "failed"]
    assert "ended with status 7" in found[1].detail
    assert found[1].tail == "noise"


def test_the_follower_reads_whole_lines_of_known_checks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    with Follower(log, PLAN, Silent(), every_s=0.01) as follower, log.open("a") as out:
        line = json.dumps(result("one").as_dict())
        out.write(line[:20])
        out.flush()
        out.write(line[20:] + "\nwarning: something\n" + json.dumps(result("stranger").as_dict()) + "\n")
        out.write(json.dumps(result("two", "wonderful").as_dict()))
    assert [item.check for item in follower.results] == ["one"]
    assert "warning: something" in follower.noise()
    assert "stranger" in follower.noise()


@pytest.mark.parametrize("line", ["", "{", '{"check"', '{"check": 3}', "[1]", '{"check": "a"}'])
def test_lines_that_are_no_results(line: str) -> None:
    assert read_result(line) is None


def test_modes_are_judged_for_users_that_are_not_root() -> None:
    assert smoke.mode_result(("key",), 0) == ()
    assert smoke.mode_result(None, 65534) == ()
    assert smoke.mode_result((), 65534)[0].result == "passed"
    closed = smoke.mode_result(tuple(f"f{n}" for n in range(7)), 65534)[0]
    assert closed.result == "failed"
    assert "f0" in closed.detail
    assert "2 more" in closed.detail


def test_a_clean_report() -> None:
    clean = report(result("a"), result("b", "needs-driver"))
    assert clean.passed
    assert clean.exit_code is ExitCode.OK
    assert clean.counts() == {"passed": 1, "failed": 0, "needs-driver": 1, "skipped": 0, "runs": 1, "seconds": 2}


def test_a_failure_is_a_finding_with_its_output() -> None:
    bad = report(result("a"), result("b", "failed", "broken", "the output"))
    (finding,) = bad.findings()
    assert (finding.message, finding.evidence) == ("broken", {"output": "the output"})
    assert "cpu/b as uid 65534" in finding.subject
    assert not bad.passed
    assert bad.exit_code is ExitCode.FINDINGS
    assert "| the output" in render(bad)


def test_what_was_skipped_is_never_success() -> None:
    part = report(result("a"), result("b", "skipped", "no GPU"))
    assert [item.reason for item in part.skipped()] == ["no GPU"]
    assert part.exit_code is ExitCode.MISSING
    nothing = report(not_run=(Skipped(what="smoke cpu", reason="no engine"),))
    assert not nothing.passed
    assert nothing.exit_code is ExitCode.MISSING
    assert "skipped smoke cpu: no engine" in render(nothing)
    assert "nothing was run" in render(nothing)


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    whole = report(result("a"), result("b", "failed", "x", "y"))
    dump_json(tmp_path / "r.json", whole)
    assert load_json(tmp_path / "r.json", SmokeReport) == whole


def test_without_an_engine_every_list_is_skipped(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: "no docker", lambda: "no bubblewrap"))
    monkeypatch.setitem(smoke.FINDERS, "docker", (lambda: "no docker",))
    layout = write_image(tmp_path / "layout", [[file("f")]])
    profile = load_profile("probe")
    answer = smoke.run_smoke(profile, layout, ["probe-cpu"], store, progress=Silent())
    assert [item.reason for item in answer.skipped()] == ["no docker; no bubblewrap"]
    assert answer.counts()["passed"] == 0
    with pytest.raises(MissingError, match="no docker"):
        smoke.run_smoke(profile, layout, ["probe-cpu"], store, engine="docker", progress=Silent())
    with pytest.raises(InputError, match="no engine named"):
        smoke.run_smoke(profile, layout, ["probe-cpu"], store, engine="podman", progress=Silent())
    with pytest.raises(InputError, match="no smoke list named"):
        smoke.run_smoke(profile, layout, ["nothing"], store, progress=Silent())
    with pytest.raises(InputError, match="names no smoke list"):
        smoke.run_smoke(profile, layout, [], store, progress=Silent())


def test_driver_libraries_of_the_host() -> None:
    listing = [
        "1234 libs found in cache `/etc/ld.so.cache'",
        "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1",
        "\tlibcudart.so.13 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.13",
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /opt/second/libnvidia-ml.so.1",
    ]
    assert driver_libraries(listing) == (
        ("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        ("libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
    )


def test_devices_are_passed_in() -> None:
    devices = Devices(nodes=("/dev/nvidia0",), libraries=(("libcuda.so.1", "/host/libcuda.so.1"),))
    assert devices.bubblewrap()[:3] == ["--dev-bind", "/dev/nvidia0", "/dev/nvidia0"]
    assert devices.bubblewrap()[-3:] == ["--ro-bind", "/host/libcuda.so.1", f"{INSIDE}/libcuda.so.1"]
    assert devices.env({"LD_LIBRARY_PATH": "/a"}) == {"LD_LIBRARY_PATH": f"/a:{INSIDE}"}
    assert devices.docker() == ["--gpus", "all"]
    assert Devices().docker() == Devices().bubblewrap() == []


def test_docker_words() -> None:
    words = Docker(program=Path("/d"), version="1", image="sha256:1").argv(65534, ["python"], Devices())
    text = " ".join(words)
    for part in (
        "--read-only",
        "--network none",
        "--user 65534:65534",
        "--tmpfs /tmp:",
        "--shm-size",
        "--cap-drop ALL",
    ):
        assert part in text
    assert words[-2:] == ["sha256:1", "python"]


def test_home(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert home_of(tmp_path, 0) == "/"
    (tmp_path / "etc/passwd").write_bytes(PASSWD)
    assert home_of(tmp_path, 65534) == "/nonexistent"
    assert home_of(tmp_path, 1000) == "/"


def tiny(tmp_path: Path, interpreter: bytes = ANSWERING, secret_mode: int = 0o600) -> Path:
    """An image with a shell, a few programs, one file only root may read, and ``interpreter`` as its Python."""
    base = [
        *(folder(name) for name in ("etc", "proc", "dev", "run", "root")),
        folder("tmp", 0o1777),
        symlink("bin", "usr/bin"),
        *host_programs("sh", "cat", "id", "env", "ls", "setpriv", "touch", "true"),
        file("etc/passwd", PASSWD),
        file("etc/root-only", b"secret", secret_mode),
    ]
    top = [
        file("opt/orbit/bin/python3.12", interpreter, 0o755),
        file("opt/orbit/bin/orbit-entrypoint", ENTRYPOINT, 0o755),
    ]
    config = {"Entrypoint": ["/opt/orbit/bin/orbit-entrypoint"], "Env": ["OWN=image"], "WorkingDir": "/opt"}
    return write_image(tmp_path / "tiny", [base, top], config=config)


@pytest.fixture(params=["bubblewrap", "unshare"])
def choice(request: pytest.FixtureRequest) -> Choice:
    found = {"bubblewrap": find_bubblewrap, "unshare": find_unshare}[request.param]()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def inside(engine: Engine, uid: int, script: str) -> subprocess.CompletedProcess[str]:
    argv = engine.argv(uid, ["/bin/sh", "-c", script], Devices())
    env = os.environ | {"SECRET_OF_THE_HOST": "leaked"}
    return subprocess.run(argv, input="given", capture_output=True, text=True, env=env, check=False, timeout=60)


@pytest.mark.integration
@pytest.mark.parametrize("uid", [0, 65534])
def test_conditions_inside(choice: Choice, tmp_path: Path, store: Store, uid: int) -> None:
    image = read_image(tiny(tmp_path))
    engine = open_engine(choice, image, unpack_image(image, store, progress=Silent()))
    done = inside(engine, uid, "cat; echo; id -u; id -g; env; ls -A /proc/sys/net/ipv4/conf; pwd")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["given", str(uid), str(uid)]
    assert {"OWN=image", "SEEN_ENTRYPOINT=yes", f"HOME={'/root' if uid == 0 else '/nonexistent'}"} <= set(lines)
    assert "leaked" not in done.stdout
    assert lines[-1] == "/opt"
    assert not {"eth0", "docker0"} & set(lines)
    done = inside(
        engine, uid, "touch /tmp/a /dev/shm/b && for f in /x /etc/x /opt/orbit/x; do touch $f && echo wrote; done"
    )
    assert "wrote" not in done.stdout
    assert done.stderr.count("Read-only file system") == 3, done.stderr


@pytest.mark.integration
@pytest.mark.skipif(os.geteuid() != 0, reason="real user ids need root")
def test_permissions_bind_for_another_user(choice: Choice, tmp_path: Path, store: Store) -> None:
    image = read_image(tiny(tmp_path))
    engine = open_engine(choice, image, unpack_image(image, store, progress=Silent()))
    assert engine.real_ids
    assert engine.closed == ("etc/root-only",)
    assert inside(engine, 0, "cat /etc/root-only").stdout == "secret"
    done = inside(engine, 65534, "cat /etc/root-only")
    assert done.returncode != 0
    assert "Permission denied" in done.stderr
    status = inside(engine, 65534, "cat /proc/self/status").stdout
    masks = {line.split()[0]: line.split()[1] for line in status.splitlines() if line.startswith(("Cap", "NoNew"))}
    assert masks == dict.fromkeys(("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"), "0" * 16) | {
        "NoNewPrivs:": "1"
    }


@pytest.mark.integration
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_started_by_another_user_ids_are_mapped(tmp_path: Path, store: Store) -> None:
    """What bubblewrap does for a caller that is not root, seen by becoming one."""
    found = find_bubblewrap()
    if isinstance(found, str):
        pytest.skip(found)
    image = read_image(tiny(tmp_path, secret_mode=0o644))
    place = Path(tempfile.mkdtemp(prefix="orbit-rootless-"))
    try:
        shutil.copytree(unpack_image(image, store, progress=Silent()).path, place / "root", symlinks=True)
        place.chmod(0o755)
        tree = RootTree(path=place / "root", closed=(), real_owners=False)
        engine = open_engine(replace(found, real_ids=False), image, tree)
        caller = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"]
        for uid in (0, 65534):
            argv = [*caller, *engine.argv(uid, ["/bin/sh", "-c", "id -u; cat /proc/self/uid_map"], Devices())]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, cwd="/")
            if "uid map" in done.stderr or "user namespace" in done.stderr:
                pytest.skip(f"no user namespaces for other users here: {done.stderr.strip()}")
            seen, first, _outside, count = done.stdout.split()
            assert (seen, first, count) == (str(uid), str(uid), "1"), done.stderr
    finally:
        shutil.rmtree(place)


@pytest.mark.integration
def test_a_whole_smoke_and_its_reuse(
    choice: Choice, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: choice,))
    monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
    layout, profile = tiny(tmp_path, secret_mode=0o644), load_profile("probe")
    first = smoke.run_smoke(profile, layout, ["tiny"], store, progress=Silent())
    assert [(run.uid, [item.result for item in run.results]) for run in first.runs] == [
        (0, ["passed", "passed"]),
        (65534, ["passed", "passed", "passed"]),
    ]
    assert first.engine == choice.name
    assert first.runs[1].results[0].detail == "uid 65534"
    assert not first.reused
    assert not list((store.root / "tmp").iterdir())
    monkeypatch.setattr(smoke, "unpack_image", lambda *_args, **_more: pytest.fail("nothing is to be run again"))
    second = smoke.run_smoke(profile, layout, ["tiny"], store, progress=Silent())
    assert second.reused
    assert second.runs == first.runs


@pytest.mark.integration
def test_a_file_only_root_may_read_fails_the_smoke(
    choice: Choice, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: choice,))
    monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
    answer = smoke.run_smoke(load_profile("probe"), tiny(tmp_path), ["tiny"], store, progress=Silent())
    (finding,) = answer.findings()
    assert "etc/root-only" in finding.message
    assert not (store.root / "entries" / smoke.KIND).exists()


@pytest.mark.integration
def test_a_run_that_ends_early_is_a_failure_and_is_not_kept(
    choice: Choice, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: choice,))
    monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
    answer = smoke.run_smoke(load_profile("probe"), tiny(tmp_path, CRASHING), ["tiny"], store, progress=Silent())
    assert [item.result for item in answer.runs[0].results] == ["passed", "failed"]
    assert "status 7" in answer.runs[0].results[1].detail
    assert "fell over" in answer.runs[0].results[1].tail
    assert not (store.root / "entries" / smoke.KIND).exists()


@pytest.mark.docker
@pytest.mark.integration
def test_docker_gives_the_same_conditions(
    docker_engine: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = find_docker()
    assert isinstance(choice, Choice), choice
    engine = open_docker(choice, tiny(tmp_path), "orbit/test-smoke:tiny", progress=Silent())
    try:
        for uid in (0, 65534):
            done = inside(engine, uid, "cat; echo; id -u; env; cat /etc/root-only; touch /x")
            lines = done.stdout.splitlines()
            assert lines[:2] == ["given", str(uid)]
            assert {"OWN=image", "SEEN_ENTRYPOINT=yes"} <= set(lines)
            assert "leaked" not in done.stdout
            assert ("secret" in lines) is (uid == 0)
            assert "Read-only file system" in done.stderr
        monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
        report = smoke.run_smoke(
            load_profile("probe"), tmp_path / "tiny", ["tiny"], store, engine="docker", progress=Silent()
        )
        assert report.counts()["passed"] == 4
    finally:
        subprocess.run([choice.program, "image", "rm", "-f", engine.image], capture_output=True, check=False)
