"""The one way to run another program: argv list, clean environment, timeout, the tail of its output on failure."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO

from orbit.core.guard import GUARD
from orbit.errors import CommandFailed, InputError, MissingError

KEPT = ("PATH", "HOME", "LANG", "TERM", "USER", "LOGNAME", "TMPDIR", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST")
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
TAIL_LINES = 25
STREAM_BYTES = 1 << 20
FULL_BYTES = 1 << 20
"""A disk with less than this is full."""
END_ROUNDS = 50
"""Looks for survivors of a session, 20 ms apart."""


type Child = subprocess.Popen[bytes]
"""A program that runs."""


def ca_bundle() -> Path | None:
    """The certificate bundle the host asks programs to trust, by the variables that name one; None when unset."""
    for name in CA_VARIABLES:
        value = os.environ.get(name)
        if value and os.path.isfile(value):
            return Path(value)
    return None


def clean_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every child: a short allow-list of the caller's, the trust and proxy settings, a fixed locale.

    Everything else (PYTHONPATH, UV_*, PIP_*, CFLAGS, NVCC_*, TORCH_CUDA_ARCH_LIST, ...) is left behind so that the
    caller's shell cannot change a result.
    """
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    for name in PROXY_VARIABLES:
        for spelling in (name, name.upper()):
            if spelling in os.environ:
                env[spelling] = os.environ[spelling]
    bundle = ca_bundle()
    if bundle is not None:
        env["SSL_CERT_FILE"] = str(bundle)
    env.update(LANG="C.UTF-8", LC_ALL="C.UTF-8", TZ="UTC", PYTHONNOUSERSITE="1", UV_NO_CONFIG="1", UV_NO_PROGRESS="1")
    env.update(extra or {})
    return env


def own_python(module: str) -> list[str]:
    """argv of a Python process that runs ``main()`` of one of our modules and finds what this process finds.

    Isolated (``-I``), so that no variable or folder of the caller's changes it; the import path is handed over, for
    Orbit and what it needs may be importable here by PYTHONPATH alone.
    """
    places = [place for place in sys.path if place]
    program = f"import sys; sys.path[:] = {places!r}; from {module} import main; main()"
    return [sys.executable, "-I", "-c", program]


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    doing: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
    log: Path | None = None,
    stdin: bytes | Iterable[bytes] | None = None,
    fix: str = "",
    check: bool = True,
    program: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run ``argv`` and return its status and output (stdout and stderr kept apart unless ``log`` is given).

    ``stdin`` may be an iterable: its pieces are streamed, never held together, and an exception it raises stops the
    program and is raised here.

    In a thread covered by a :class:`Stop`, KeyboardInterrupt is raised once that has stopped, as it would be in the
    main thread.

    ``env`` adds to :func:`clean_env`. With ``log`` both streams go to that file. The child leads its own process group
    and the whole group ends with us: on a timeout, an interrupt or our own death (see :mod:`orbit.core.guard`) nothing
    is left running. ``program``: what to call it in messages, where the first word only wraps it.

    Raises :class:`MissingError` when the program does not exist or cannot run here, :class:`InputError` when ``cwd`` is
    not a folder, and :class:`CommandFailed` on a non-zero status (unless ``check`` is false) or a timeout.
    """
    args = [os.fspath(arg) for arg in argv]
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(open(log, "ab")) if log else None
        piped = stdin is not None
        child = _start(args, cwd=cwd, env=clean_env(env), piped=piped, sink=sink, doing=doing, fix=fix)
        stack.callback(_close_pipes, child)
        stack.enter_context(GUARD.watch(child.pid))
        stack.enter_context(_stoppable(child))
        whole = stdin if isinstance(stdin, bytes) else None
        feeder = None if stdin is None or isinstance(stdin, bytes) else _Feeder(child, stdin)
        try:
            out, err = child.communicate(whole, timeout=timeout_s)
            if feeder:
                feeder.finish()
        except subprocess.TimeoutExpired as late:
            end_group(child)
            raise CommandFailed(
                f"{doing}: no end after {timeout_s:g} s",
                argv=args,
                status=124,
                tail=_tail(log, late.stderr or late.stdout or b""),
                fix=fix,
            ) from None
        except BaseException:
            end_group(child)
            raise
    if check and child.returncode != 0:
        raise CommandFailed(
            f"{doing}: {program or Path(args[0]).name} ended with status {child.returncode}"
            + (f" (log: {log})" if log else ""),
            argv=args,
            status=child.returncode,
            tail=_tail(log, (err or b"") or (out or b"")) + _full_disk(log),
            fix=fix,
        )
    return subprocess.CompletedProcess(args, child.returncode, out or b"", err or b"")


@contextlib.contextmanager
def running(
    argv: Sequence[str | os.PathLike[str]],
    *,
    doing: str,
    env: Mapping[str, str],
    log: Path | None = None,
    talks: bool = False,
    fix: str = "",
) -> Generator[Child]:
    """A program that runs beside us while the block does, and has ended with all of its session when the block has.

    ``env`` is its whole environment. It reads what we read and writes where we write; with ``log`` its errors, and
    where it does not talk its output too, go to that file; with ``talks`` its standard input and output are pipes of
    ours. It leads a session of its own and ends with us, as in :func:`run`, and raises the same.
    """
    args = [os.fspath(arg) for arg in argv]
    pipe = subprocess.PIPE if talks else None
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(open(log, "ab")) if log else None
        child = _popen(args, cwd=None, env=dict(env), doing=doing, fix=fix, pipes=(pipe, pipe or sink, sink))
        stack.callback(_close_pipes, child)
        stack.callback(end_group, child)
        stack.enter_context(GUARD.watch(child.pid))
        yield child


class Stop:
    """Ends what threads are doing when the main thread is interrupted, which alone gets the signal.

    A thread runs its work inside :meth:`covers`. After :meth:`now` every program that :func:`run` or :func:`stream`
    started there is ended, and these raise KeyboardInterrupt there: in a call that waits, and in any later one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    @contextlib.contextmanager
    def covers(self) -> Generator[None]:
        """Programs started by this thread while the block runs belong to this stop."""
        token = _STOP.set(self)
        try:
            yield
        finally:
            _STOP.reset(token)

    def now(self) -> None:
        """Stop: every program gets SIGTERM at once, and what is left of any after two seconds SIGKILL."""
        with self._lock:
            self.stopped = True
            children = list(self._children)
        enders = [threading.Thread(target=end_group, args=(child,), daemon=True) for child in children]
        for thread in enders:
            thread.start()
        for thread in enders:
            thread.join()

    def check(self) -> None:
        """Raise KeyboardInterrupt when stopped."""
        if self.stopped:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def holds(self, child: subprocess.Popen[bytes]) -> Generator[None]:
        """Have ``child`` ended by :meth:`now` while the block runs; an end of the block after that is an interrupt."""
        with self._lock:
            self._children.add(child)
            late = self.stopped
        try:
            if late:
                end_group(child)
            yield
        finally:
            with self._lock:
                self._children.discard(child)
            self.check()


_STOP: contextvars.ContextVar[Stop | None] = contextvars.ContextVar("orbit_stop", default=None)


def _stoppable(child: subprocess.Popen[bytes]) -> contextlib.AbstractContextManager[None]:
    stop = _STOP.get()
    return stop.holds(child) if stop else contextlib.nullcontext()


def stream(
    argv: Sequence[str | os.PathLike[str]], *, doing: str, env: Mapping[str, str] | None = None, fix: str = ""
) -> Generator[bytes]:
    """Run ``argv`` and give its standard output in pieces as they come; nothing of it is held.

    When the consumer stops early the program is stopped. Raises as :func:`run` does; the status counts at the end.
    """
    args = [os.fspath(arg) for arg in argv]
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(tempfile.TemporaryFile())
        child = _start(args, cwd=None, env=clean_env(env), piped=False, sink=None, doing=doing, fix=fix, errors=said)
        stack.callback(_close_pipes, child)
        stack.enter_context(GUARD.watch(child.pid))
        stack.enter_context(_stoppable(child))
        assert child.stdout is not None
        try:
            while piece := os.read(child.stdout.fileno(), STREAM_BYTES):
                yield piece
            child.wait()
        except BaseException:
            end_group(child)
            raise
        if child.returncode != 0:
            said.seek(max(0, said.tell() - 16384))
            raise CommandFailed(
                f"{doing}: {Path(args[0]).name} ended with status {child.returncode}",
                argv=args,
                status=child.returncode,
                tail=_tail(None, said.read()),
                fix=fix,
            )


def _start(
    args: list[str],
    *,
    cwd: Path | None,
    env: dict[str, str],
    piped: bool,
    sink: BinaryIO | None,
    doing: str,
    fix: str,
    errors: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    stdin = subprocess.PIPE if piped else subprocess.DEVNULL
    stderr = subprocess.STDOUT if sink else errors or subprocess.PIPE
    pipes = (stdin, sink or subprocess.PIPE, stderr)
    return _popen(args, cwd=cwd, env=env, doing=doing, fix=fix, pipes=pipes)


type _Stream = int | IO[bytes] | None


def _popen(
    args: list[str],
    *,
    cwd: Path | None,
    env: dict[str, str],
    doing: str,
    fix: str,
    pipes: tuple[_Stream, _Stream, _Stream],
) -> subprocess.Popen[bytes]:
    if cwd is not None and not cwd.is_dir():
        raise InputError(f"{cwd}: no such folder (needed for {doing})", fix=fix)
    try:
        return subprocess.Popen(
            args,
            cwd=cwd,
            env=env,
            start_new_session=True,
            stdin=pipes[0],
            stdout=pipes[1],
            stderr=pipes[2],
        )
    except FileNotFoundError:
        raise MissingError(
            f"{args[0]}: program not found (needed for {doing})", fix=fix or f"install {args[0]}"
        ) from None
    except PermissionError:
        raise MissingError(f"{args[0]}: not executable (needed for {doing})", fix=fix) from None
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        raise MissingError(f"{args[0]}: not a program of this machine (needed for {doing})", fix=fix) from None


class _Feeder:
    """Streams pieces into a program's standard input from a thread of its own."""

    def __init__(self, child: subprocess.Popen[bytes], pieces: Iterable[bytes]) -> None:
        self._child = child
        self._pieces = pieces
        self._pipe = child.stdin
        child.stdin = None  # ours now: communicate() would close it
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        assert self._pipe is not None
        try:
            with self._pipe:
                for piece in self._pieces:
                    self._pipe.write(piece)
        except BrokenPipeError:
            pass  # the program stopped reading; its status says why
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for the program
            self._error = error
            end_group(self._child)

    def finish(self) -> None:
        """Wait for the stream's end; raise what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Stop a child and everything it started: SIGTERM, two seconds, SIGKILL.

    Also what left its process group but not its session: ninja gives each of its jobs a group of its own, and may be
    gone before it has passed the signal on.
    """
    for sig, wait_s in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(child.pid, sig)
        except (ProcessLookupError, PermissionError):
            break
        try:
            child.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
    child.wait()
    for _ in range(END_ROUNDS):
        left = session_members(child.pid)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            break
        time.sleep(0.02)


def session_members(leader: int) -> list[int]:
    """The processes of the session of ``leader`` that still run."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # state, parent, group, session follow the name, which is in parentheses and may hold any others (proc(5))
            state, _parent, _group, session = file.read().rpartition(b")")[2].split()[:4]
            if int(session) == leader and state not in (b"Z", b"X"):
                found.append(int(name))
    return found


def _full_disk(log: Path | None) -> str:
    """A log on a full disk lacks the very line that says so."""
    if log is None or shutil.disk_usage(log.parent).free >= FULL_BYTES:
        return ""
    return f"\n{log.parent}: {os.strerror(errno.ENOSPC)}"


def _tail(log: Path | None, data: bytes) -> str:
    if log is not None and log.exists():
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - 16384))
            data = file.read()
    return "\n".join(data.decode(errors="replace").rstrip().splitlines()[-TAIL_LINES:])
