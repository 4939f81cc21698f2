"""Several builds at once: order, failures that stop nobody, and an interrupt that ends everything within seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.findings import Skipped
from orbit.core.proc import Stop, run
from orbit.core.store import Store
from orbit.errors import CheckFailed, ExitCode, InputError, MissingError
from orbit.kernels.jobs.schedule import Done, Failed, Job, SeveralFailed, failure, run_jobs
from tests.core.processes import STUBBORN, alive, until


class Told(Silent):
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)


def fails(error: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise error

    return work


def test_all_are_done_the_biggest_first_and_results_keep_their_order() -> None:
    begun: list[str] = []
    jobs = [Job(name, hours, lambda n=name: begun.append(n) or len(begun)) for name, hours in
            (("small", 0.1), ("big", 30.0), ("b", 1.0), ("a", 1.0))]  # fmt: skip
    outcomes = run_jobs(jobs, at_once=1, progress=Silent())
    assert begun == ["big", "a", "b", "small"]
    assert [(each.name, each.value) for each in outcomes if isinstance(each, Done)] == [
        ("small", 4), ("big", 1), ("b", 3), ("a", 2),
    ]  # fmt: skip
    assert failure(outcomes) is None
    assert run_jobs([], at_once=3, progress=Silent()) == ()


def test_no_more_than_allowed_and_not_fewer() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    full = threading.Barrier(3, timeout=10)

    def work() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        full.wait()
        with lock:
            now[0] -= 1

    outcomes = run_jobs([Job(str(n), 1, work) for n in range(9)], at_once=3, progress=Silent())
    assert all(isinstance(each, Done) for each in outcomes)
    assert most == [3]


def test_a_failure_stops_nobody_and_keeps_its_kind() -> None:
    told = Told()
    jobs = [
        Job("a", 3, lambda: 1),
        Job("b", 2, fails(MissingError("b: source cannot be fetched", fix="put it there"))),
        Job("c", 1, lambda: 3),
    ]
    outcomes = run_jobs(jobs, at_once=1, progress=told)
    assert [type(each) for each in outcomes] == [Done, Failed, Done]
    error = failure(outcomes)
    assert isinstance(error, MissingError)
    assert error.code == ExitCode.MISSING
    assert told.said == ["b: failed (b: source cannot be fetched); other builds go on"]


def test_the_first_of_several_decides_the_code_and_all_are_named() -> None:
    jobs = [
        Job("a", 1, fails(MissingError("no source", fix="fetch it"))),
        Job("b", 9, fails(CheckFailed("wrong result"))),
        Job("c", 1, lambda: 1),
    ]
    error = failure(run_jobs(jobs, at_once=3, progress=Silent()))
    assert isinstance(error, SeveralFailed)
    assert error.code == ExitCode.MISSING
    assert str(error) == "2 builds failed\na: no source\n  fix: fetch it\nb: wrong result"
    assert [each.name for each in error.failures] == ["a", "b"]


def test_a_defect_is_raised_as_it_is() -> None:
    jobs = [Job("a", 1, fails(InputError("bad"))), Job("b", 1, fails(ZeroDivisionError("here")))]
    error = failure(run_jobs(jobs, at_once=2, progress=Silent()))
    assert isinstance(error, ZeroDivisionError)
    assert error.__notes__ == ["also failed: a: bad"]
    disk = OSError(28, "No space left on device")
    assert failure(run_jobs([Job("a", 1, fails(disk))], at_once=1, progress=Silent())) is disk


def test_what_is_not_started_is_skipped_with_its_reason() -> None:
    told = Told()
    jobs = [Job("a", 2, lambda: 1), Job("b", 1, lambda: 2)]
    outcomes = run_jobs(jobs, at_once=1, progress=told, skip=lambda name: "a comes first" if name == "b" else "")
    assert outcomes[1] == Skipped(what="b", reason="a comes first", estimate="1 core-hours")
    assert told.said == ["b: skipped (a comes first)"]
    assert failure(outcomes) is None


def test_an_interrupt_in_a_job_is_an_interrupt_of_all(tmp_path: Path) -> None:
    def slow() -> int:
        run([sys.executable, "-c", STUBBORN, tmp_path / "pid"], doing="a test")
        return 1

    def interrupted() -> int:
        until((tmp_path / "pid").exists)
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_jobs([Job("a", 2, slow), Job("b", 1, interrupted)], at_once=2, progress=Silent())
    assert time.monotonic() - began < 15
    assert not alive(int((tmp_path / "pid").read_text()))


def test_what_fails_because_of_an_interrupt_is_no_failure() -> None:
    stop, told = Stop(), Told()

    def confused() -> int:
        assert until(lambda: stop.stopped)
        raise ValueError("my program is gone")

    with pytest.raises(KeyboardInterrupt):
        run_jobs([Job("a", 2, confused), Job("b", 1, fails(KeyboardInterrupt()))], at_once=2, progress=told, stop=stop)
    assert told.said == []


def test_ctrl_c_ends_all_programs_and_keeps_nothing_half(tmp_path: Path, store: Store) -> None:
    """The main thread gets the signal while three threads wait for programs that are hard to end."""
    kept: list[BaseException] = []

    def build(number: int) -> int:
        def work(folder: Path) -> dict[str, object]:
            (folder / "half").write_text("half")
            try:
                run([sys.executable, "-c", STUBBORN, tmp_path / str(number)], doing="a test", log=tmp_path / "log")
            except BaseException as error:
                kept.append(error)
                raise
            return {}

        store.obtain("thing", {"n": number}, work)
        return number

    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until(lambda: all((tmp_path / str(n)).exists() for n in range(3)))
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_jobs([Job(str(n), 1, lambda n=n: build(n)) for n in range(5)], at_once=3, progress=Silent())
    thread.join()
    assert time.monotonic() - began < 15
    assert [type(error) for error in kept] == [KeyboardInterrupt] * 3
    assert [pid for pid in (int((tmp_path / str(n)).read_text()) for n in range(3)) if alive(pid)] == []
    assert list((store.root / "tmp").iterdir()) == []
    assert not (tmp_path / "3").exists()  # the ones that had not begun never did


PROGRAM = """
import sys
from orbit.core.console import Silent
from orbit.core.proc import Stop, run
from orbit.kernels.jobs.schedule import Job, run_jobs
import orbit.cli
class Command:
    NAME = HELP = "x"
    def build(n):
        run([sys.executable, "-c", sys.argv[2], f"{sys.argv[1]}/{n}"], doing="a test")
    def run(_args):
        run_jobs([Job(str(n), 1, lambda n=n: Command.build(n)) for n in range(3)], at_once=3, progress=Silent())
        return 0
orbit.cli.build_parser = lambda: type("P", (), {"parse_args": lambda s, a: type("A", (), {"run": Command.run})})()
sys.exit(orbit.cli.main([]))
"""


def test_an_interrupt_waits_for_what_is_being_cleared_up() -> None:
    """Deleting the folder of a build takes a while; a build that is interrupted must not leave it behind."""
    main = threading.main_thread().ident
    assert main is not None
    cleared: list[int] = []

    def work() -> int:
        try:
            run([sys.executable, "-c", "import time; time.sleep(60)"], doing="wait")
        finally:
            time.sleep(1.5)
            cleared.append(1)
        return 0

    thread = threading.Timer(0.7, lambda: signal.pthread_kill(main, signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_jobs([Job("a", 1.0, work), Job("b", 1.0, work)], at_once=2, progress=Told())
    thread.join()
    assert cleared == [1, 1]


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_with_130_and_leaves_no_process(tmp_path: Path, sig: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path, STUBBORN], cwd=Path(__file__).parents[3], stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": "."},
    )  # fmt: skip
    try:
        assert until(lambda: all((tmp_path / str(n)).exists() for n in range(3)), 30)
        began = time.monotonic()
        child.send_signal(sig)
        _, said = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 130
    assert time.monotonic() - began < 15
    assert b"interrupted" in said
    assert b"Traceback" not in said
    assert [pid for pid in (int((tmp_path / str(n)).read_text()) for n in range(3)) if alive(pid)] == []
