"""The one way to run a program: errors, environment, output, and that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.core.proc import TAIL_LINES, Stop, ca_bundle, clean_env, end_group, own_python, run, running, stream
from orbit.errors import CommandFailed, ExitCode, InputError, MissingError
from tests.core.processes import STUBBORN, alive, until

# --- success and failure ----------------------------------------------------------------------------------------------


def test_output_is_returned_and_the_streams_are_apart() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2"], doing="a test")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")


def test_stdin_may_be_a_stream() -> None:
    pieces = (bytes([65 + n]) * 100_000 for n in range(3))
    assert run(["wc", "-c"], doing="a test", stdin=pieces).stdout.split() == [b"300000"]


def test_a_program_that_stops_reading_its_stream_is_judged_by_its_status() -> None:
    assert run(["true"], doing="a test", stdin=(bytes(1 << 20) for _ in range(8))).returncode == 0


def test_an_error_in_the_stream_stops_the_program_and_is_raised() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"good"
        raise InputError("damaged")

    began = time.monotonic()
    with pytest.raises(InputError, match="damaged"):
        run(["sh", "-c", "cat; sleep 60"], doing="a test", stdin=pieces())
    assert time.monotonic() - began < 20


def test_stdin_is_passed_and_is_empty_otherwise() -> None:
    assert run(["cat"], doing="a test", stdin=b"given").stdout == b"given"
    assert run(["cat"], doing="a test").stdout == b""


def test_a_program_that_reads_nothing_is_no_error() -> None:
    assert run(["true"], doing="a test", stdin=b"x" * 1_000_000).returncode == 0


def test_a_missing_program_is_named_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        run(["orbit-no-such-program"], doing="the base image")
    assert "orbit-no-such-program: program not found (needed for the base image)" in caught.value.what
    assert caught.value.fix == "install orbit-no-such-program"
    assert caught.value.code is ExitCode.MISSING
    (tmp_path / "text").write_text("not a program")
    with pytest.raises(MissingError, match="not executable"):
        run([tmp_path / "text"], doing="a test")
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(MissingError, match="not a program of this machine"):
        run([tmp_path / "text"], doing="a test")


def test_a_missing_folder_is_not_called_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: no such folder"):
        run(["true"], doing="a test", cwd=tmp_path / "absent")


def test_a_failure_carries_status_command_and_the_end_of_the_output() -> None:
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", "seq 1000 >&2; exit 3"], doing="the build", fix="read it")
    error = caught.value
    assert error.what == "the build: sh ended with status 3"
    assert (error.status, error.argv[0], error.fix) == (3, "sh", "read it")
    assert error.tail.splitlines() == [str(n) for n in range(1001 - TAIL_LINES, 1001)]
    assert "  | 1000" in str(error)


def test_the_tail_is_stdout_when_stderr_is_empty() -> None:
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", "echo why; exit 1"], doing="a test")
    assert caught.value.tail == "why"


def test_a_program_killed_by_a_signal_has_a_negative_status() -> None:
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", "kill -SEGV $$"], doing="a test")
    assert caught.value.status == -signal.SIGSEGV


def test_check_false_returns_the_status() -> None:
    assert run(["sh", "-c", "exit 9"], doing="a test", check=False).returncode == 9


def test_a_log_takes_both_streams_and_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", "echo out; echo err >&2; exit 1"], doing="a test", log=log)
    assert log.read_text() == "before\nout\nerr\n"
    assert str(log) in caught.value.what
    assert caught.value.tail.endswith("out\nerr")


# --- environment ------------------------------------------------------------------------------------------------------

LEFT_BEHIND = (
    "PYTHONPATH", "PYTHONHOME", "UV_INDEX_URL", "UV_CONFIG_FILE", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "CONDA_PREFIX",
    "CFLAGS", "CXXFLAGS", "CPATH", "LD_LIBRARY_PATH", "LD_PRELOAD_NOT", "NVCC_PREPEND_FLAGS", "TORCH_CUDA_ARCH_LIST",
    "CUDA_HOME", "VIRTUAL_ENV", "SOURCE_DATE_EPOCH",
)  # fmt: skip


def test_a_program_behind_a_wrapper_is_called_by_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="a test: nvcc ended with status 3"):
        run(["env", "sh", "-c", "exit 3"], doing="a test", program="nvcc", log=tmp_path / "log")


def test_a_log_that_a_full_disk_cut_off_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=4096))
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", "exit 3"], doing="a test", log=tmp_path / "log")
    assert caught.value.code is ExitCode.REFUSED
    assert "free some room" in caught.value.fix
    assert str(tmp_path) in caught.value.tail


def test_the_callers_settings_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LEFT_BEHIND:
        monkeypatch.setenv(name, "poison")
    monkeypatch.setenv("LANG", "tr_TR.UTF-8")
    seen = run(["env", "-0"], doing="a test").stdout.decode().split("\0")
    assert not [line for line in seen if "poison" in line]
    assert {"LC_ALL=C.UTF-8", "LANG=C.UTF-8", "TZ=UTC", "UV_NO_CONFIG=1", "PYTHONNOUSERSITE=1"} <= set(seen)
    assert f"PATH={os.environ['PATH']}" in seen


def test_our_own_processes_find_what_we_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is on this process's import path alone, as with PYTHONPATH."""
    (tmp_path / "only_here.py").write_text("def main():\n    print('found')\n")
    assert run(own_python("only_here"), doing="importing", check=False).returncode != 0
    monkeypatch.setattr(sys, "path", [*sys.path, "", str(tmp_path)])
    assert run(own_python("only_here"), doing="importing").stdout == b"found\n"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [""])
    assert run(own_python("only_here"), doing="importing", check=False).returncode != 0


def test_extra_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-O0")
    assert clean_env({"CFLAGS": "-O2", "TZ": "CET"})["CFLAGS"] == "-O2"
    assert clean_env({"TZ": "CET"})["TZ"] == "CET"
    assert "CFLAGS" not in clean_env()


def test_proxies_and_trust_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    assert ca_bundle() is None
    assert "SSL_CERT_FILE" not in clean_env()
    bundle = tmp_path / "ca.pem"
    bundle.write_text("-----")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(bundle))
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    env = clean_env()
    assert ca_bundle() == bundle
    assert env["SSL_CERT_FILE"] == str(bundle)
    assert env["HTTPS_PROXY"] == "http://proxy.example:3128"


# --- nothing stays behind ---------------------------------------------------------------------------------------------


def test_a_timeout_ends_grandchildren_and_keeps_the_output(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", 'echo begun; exec "$@"', "-", sys.executable, "-c", STUBBORN, pid_file],
            doing="a slow thing", timeout_s=1.5)  # fmt: skip
    assert caught.value.what == "a slow thing: no end after 1.5 s"
    assert caught.value.status == 124
    assert caught.value.tail == "begun"
    assert time.monotonic() - began < 10
    pid = int(pid_file.read_text())
    assert until(lambda: not alive(pid))


def test_an_interrupt_ends_grandchildren(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until(pid_file.exists)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", STUBBORN, pid_file], doing="a test")
    thread.join()
    assert until(lambda: not alive(int(pid_file.read_text())))


# Like ninja: a job in a process group of its own, in the same session; its leader is gone before it passes a signal on.
SEPARATE = """
import os, signal, subprocess, sys, time
job = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0)
open(sys.argv[1] + ".new", "w").write(str(job.pid))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""


def test_what_left_the_process_group_ends_with_its_session(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = subprocess.Popen([sys.executable, "-c", SEPARATE, pid_file], start_new_session=True)
    assert until(pid_file.exists)
    job = int(pid_file.read_text())
    assert (os.getpgid(job), os.getsid(job)) == (job, child.pid)
    end_group(child)
    assert not alive(job)


def stopped(stop: Stop, tmp_path: Path, threads: int) -> list[str]:
    """Run a stubborn program in each of some covered threads, stop them; what each of the calls ended with."""
    ends: list[str] = []

    def work(number: int) -> None:
        try:
            with stop.covers():
                run([sys.executable, "-c", STUBBORN, tmp_path / str(number)], doing="a test")
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
            ends.append(type(error).__name__)

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    assert until(lambda: all((tmp_path / str(number)).exists() for number in range(threads)))
    stop.now()
    for thread in running:
        thread.join(10)
    return ends


def test_a_stop_ends_the_programs_of_all_covered_threads_together(tmp_path: Path) -> None:
    began = time.monotonic()
    assert stopped(Stop(), tmp_path, 4) == ["KeyboardInterrupt"] * 4
    assert time.monotonic() - began < 10  # each of them takes two seconds, at the same time
    assert [pid for pid in (int((tmp_path / str(n)).read_text()) for n in range(4)) if alive(pid)] == []


def test_after_a_stop_nothing_runs_on(tmp_path: Path) -> None:
    stop = Stop()
    stop.now()
    began = time.monotonic()
    with stop.covers(), pytest.raises(KeyboardInterrupt):
        run(["sleep", "60"], doing="a test")
    with stop.covers(), pytest.raises(KeyboardInterrupt):
        list(stream(["sh", "-c", "echo begun; sleep 60"], doing="a test"))
    assert time.monotonic() - began < 5
    assert run(["true"], doing="a test").returncode == 0  # not covered


def test_a_stop_that_is_not_used_changes_nothing() -> None:
    with Stop().covers():
        assert run(["echo", "x"], doing="a test").stdout == b"x\n"
        with pytest.raises(CommandFailed):
            run(["false"], doing="a test")


def test_end_group_of_a_finished_child_is_no_error() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    end_group(child)
    assert child.returncode == 0


def test_no_descriptor_leaks() -> None:
    run(["true"], doing="a test")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run(["true"], doing="a test")
        with contextlib.suppress(CommandFailed):
            run(["sleep", "5"], doing="a test", timeout_s=0.01)
    assert len(os.listdir("/proc/self/fd")) == before


# --- output as a stream -----------------------------------------------------------------------------------------------


def test_output_comes_in_pieces_as_it_is_made() -> None:
    program = "import sys, time; print('a', flush=True); time.sleep(0.3); print('b')"
    assert list(stream([sys.executable, "-c", program], doing="streaming")) == [b"a\n", b"b\n"]


def test_a_stream_that_ends_badly_says_why_at_its_end() -> None:
    program = "import sys; print('some'); sys.exit('no such image')"
    pieces = stream([sys.executable, "-c", program], doing="streaming", fix="look")
    assert next(pieces) == b"some\n"
    with pytest.raises(CommandFailed, match=r"streaming: .* ended with status 1") as caught:
        next(pieces)
    assert (caught.value.tail, caught.value.fix) == ("no such image", "look")


def test_a_stream_of_a_missing_program() -> None:
    with pytest.raises(MissingError, match="nothing-like-it"):
        next(stream(["nothing-like-it"], doing="streaming"))


def test_a_reader_that_stops_early_stops_the_program(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    told = f"open({str(mark)!r}, 'w').write(str(os.getpid()))"
    program = f"import os, time; {told}; print('x' * 9, flush=True); time.sleep(60)"
    pieces = stream([sys.executable, "-c", program], doing="streaming")
    next(pieces)
    pieces.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


# --- a program beside us ----------------------------------------------------------------------------------------------


def test_a_program_beside_us_talks_and_ends_with_the_block(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    log = tmp_path / "log"
    with running(["sh", "-c", "env >&2; cat; sleep 60"], doing="a test", env=env, log=log, talks=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"hello\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"hello\n"
        assert os.getsid(child.pid) == child.pid
    assert child.returncode is not None
    said = log.read_text()
    assert "ONLY=this" in said
    assert "LC_ALL" not in said


def test_a_program_beside_us_writes_where_we_do(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with running(["echo", "to us"], doing="a test", env={}) as child:
        assert child.wait() == 0
    assert capfd.readouterr().out == "to us\n"
    with running(["echo", "to a file"], doing="a test", env={}, log=tmp_path / "log") as child:
        assert child.wait() == 0
    assert (tmp_path / "log").read_text() == "to a file\n"
    with pytest.raises(MissingError, match="nothing"), running(["/nothing"], doing="a test", env={}):
        pass
