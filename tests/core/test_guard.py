"""Programs end with us, also when we can do nothing any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from orbit.core.guard import GUARD, Guard
from tests.core.processes import STUBBORN, alive, until


def test_our_own_death_ends_grandchildren(tmp_path: Path) -> None:
    """SIGKILL gives us no chance to do anything: the guard does it."""
    pid_file = tmp_path / "pid"
    program = (
        f"from orbit.core.proc import run; run([{sys.executable!r}, '-c', {STUBBORN!r}, {str(pid_file)!r}], doing='x')"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as runner:
        assert until(pid_file.exists)
        pid = int(pid_file.read_text())
        assert alive(pid)
        runner.kill()
        runner.wait()
        assert until(lambda: not alive(pid))


def test_the_guard_leaves_finished_work_alone(tmp_path: Path) -> None:
    """What outlives a run that ended well is not killed when we end: it was meant to go on."""
    pid_file = tmp_path / "pid"
    program = (
        "from orbit.core.proc import run; "
        f"run(['sh', '-c', 'sleep 60 >/dev/null 2>&1 & echo $! > {pid_file}'], doing='x'); run(['true'], doing='y')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    pid = int(pid_file.read_text())
    time.sleep(0.2)
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_closing_kills_what_is_still_watched_and_nothing_else() -> None:
    guard = Guard()
    watched, finished = (subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2))
    with guard.watch(watched.pid):
        with guard.watch(finished.pid):
            pass
        guard.close()
        assert watched.wait(10) == -signal.SIGKILL
    assert finished.poll() is None
    finished.kill()
    finished.wait()
    guard.close()


def test_a_forked_child_has_a_guard_of_its_own() -> None:
    """The parent's guard must not hear from a child, nor be ended by it."""
    guard = Guard()
    watched = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with guard.watch(watched.pid):
        pid = os.fork()
        if pid == 0:
            with guard.watch(os.getpid() + 1_000_000):
                guard.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert alive(watched.pid)
    guard.close()
    assert alive(watched.pid)
    watched.kill()
    watched.wait()


def test_a_process_with_a_group_of_its_own_ends_too(tmp_path: Path) -> None:
    """ninja starts every compile job in a new process group of the same session."""
    pid_file = tmp_path / "pid"
    own_group = f"import os; os.setpgid(0, 0); import sys; exec({STUBBORN!r})"
    starter = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {own_group!r}, *sys.argv[1:]])"
    program = (
        f"from orbit.core.proc import run; run([{sys.executable!r}, '-c', {starter!r}, {str(pid_file)!r}], doing='x')"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as runner:
        assert until(pid_file.exists)
        pid = int(pid_file.read_text())
        assert os.getpgid(pid) != os.getsid(pid)
        runner.kill()
        runner.wait()
        assert until(lambda: not alive(pid))


def test_what_carries_our_mark_ends_with_us_whatever_session_it_is_in(tmp_path: Path) -> None:
    folder = tmp_path / "of ours"
    folder.mkdir()
    (folder / "file").touch()
    mark = f"ORBIT_TEST_MARK={uuid.uuid4().hex}"
    marked = subprocess.Popen(["setsid", "env", mark, "sleep", "60"])
    other = subprocess.Popen(["sleep", "60"])
    try:
        code = (
            "import os, signal\n"
            "from orbit.core.guard import GUARD\n"
            f"with GUARD.sweeps({mark!r}, {str(folder)!r}):\n"
            "    os.kill(os.getpid(), signal.SIGKILL)"
        )
        subprocess.run([sys.executable, "-c", code], check=False)
        assert marked.wait(10) == -signal.SIGKILL
        assert until(lambda: not folder.exists())
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_what_has_been_swept_already_is_left_alone(tmp_path: Path) -> None:
    code = (
        "from orbit.core.guard import GUARD\n"
        f"with GUARD.sweeps('ORBIT_TEST_MARK=1', {str(tmp_path)!r}):\n"
        "    pass\n"
        "GUARD.close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert tmp_path.exists()
    with pytest.raises(ValueError, match="line end"), GUARD.sweeps("a\nb", "c"):
        pass
