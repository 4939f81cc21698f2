"""The job server: every compiler step of every package asks it and starts when it says so.

A Unix socket served by one thread of this process (:mod:`steps` has the lines, :mod:`policy` the rules). Why not GNU
make's job server, which is a pipe full of tokens:

- a token is one job; it knows nothing of memory, and memory is what device code runs out of first (a step of
  flash-attn is budgeted with 10 GiB, another one of the same package with a tenth);
- tokens come in the order of luck: no long ones first, no fairness between packages, no room kept for a large step;
- ninja 1.13 takes part as a client, but ignores the server as soon as it is given ``-j``, which torch's build
  extension does whenever ``MAX_JOBS`` is set; a setup.py without ninja knows neither;
- a client that is killed takes its token with it, so that later steps wait for ever. Here a closed connection is the
  end of a step, however it came.

So build tools get more ``-j`` than there are cores (:func:`policy.inflight`), and the compilers themselves wait.
"""

from __future__ import annotations

import contextlib
import itertools
import selectors
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType

from orbit.core.console import Progress, Silent
from orbit.errors import InputError, OrbitError
from orbit.kernels.jobs.estimates import Estimator
from orbit.kernels.jobs.machine import memory_available_bytes, resident_of
from orbit.kernels.jobs.policy import Decision, Limits, Running, Shortage, State, Waiting, decide
from orbit.kernels.jobs.sockets import SOCKET, peer, private_folder
from orbit.kernels.jobs.steps import GO, LINE_BYTES, Ask, Line, Report, read_ask, read_report
from orbit.kernels.jobs.view import Count, PackageView, ServerView

LOOK_S = 1.0
"""How often memory is looked at while there are steps."""
BACKLOG = 512
DRAIN_TURNS = 100


@dataclass(slots=True)
class _Build:
    """A registered package."""

    recipe: str
    estimator: Estimator
    count: Count
    lines: list[Line] = field(default_factory=list)
    open: bool = True
    ending: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


class _Client:
    """One connection: it says what it is, waits, runs, reports."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self.pid = peer(sock)
        self.buffer = b""
        self.ask: Ask | None = None
        self.asked_s = 0.0
        self.began_s: float | None = None
        self.need_bytes = 0
        self.expected_s = 0.0
        self.used_bytes = 0


class JobServer:
    """Context manager: serves until the block ends. Thread-safe; many builds may register at once."""

    def __init__(
        self,
        limits: Limits,
        *,
        progress: Progress | None = None,
        available: Callable[[], int] = memory_available_bytes,
    ) -> None:
        self.limits = limits
        self.path = ""
        """Of the socket, for the shim's configuration; set on entry."""
        self._progress = progress or Silent()
        self._available = available
        self._lock = threading.Lock()
        self._builds: dict[str, _Build] = {}
        self._clients: dict[int, _Client] = {}
        self._numbers = itertools.count()
        self._began = time.monotonic()
        self._looked_s = float("-inf")
        self._capacity = 0
        self._shortage: Shortage | None = None
        self._stopping = False
        self._error: BaseException | None = None
        self._peak_used = 0

    def __enter__(self) -> JobServer:
        folder = private_folder()
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self.path = str(folder / SOCKET)
            self._listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._listener.bind(self.path)
            self._listener.listen(BACKLOG)
            self._wake, woken = (stack.enter_context(end) for end in socket.socketpair())
            self._selector = stack.enter_context(selectors.DefaultSelector())
            for sock in (self._listener, woken):
                sock.setblocking(False)
                self._selector.register(sock, selectors.EVENT_READ, None)
            self._thread = threading.Thread(target=self._serve, name="job server", daemon=True)
            self._thread.start()
            stack.callback(self._stop)
            self._exit = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()
        if error is None:
            self.check()

    def check(self) -> None:
        """Raise what ended the server's thread, if something did: a defect, and the cause of failing steps."""
        if self._error is not None:
            raise RuntimeError("the job server's thread ended early") from self._error

    @contextlib.contextmanager
    def build(self, estimator: Estimator, count: Count = lambda: None) -> Iterator[None]:
        """Accept the steps of the estimator's recipe while the block runs.

        ``count`` says (done, total) units of the build when it knows. At the end everything its clients sent is taken
        in, then connections still open are closed.
        Raises :class:`InputError` when this recipe's build is running already.
        """
        recipe = estimator.known.recipe
        with self._lock:
            if recipe in self._builds and self._builds[recipe].open:
                raise InputError(f"{recipe} is being built already", fix="wait for that build to end")
            build = self._builds[recipe] = _Build(recipe, estimator, count)
        try:
            yield
        finally:
            build.ending = True
            self._wake.send(b"x")
            while not build.ended.wait(LOOK_S) and self._thread.is_alive():
                pass
            build.open = False  # also when the thread is gone

    def lines(self, recipe: str) -> tuple[Line, ...]:
        """The steps of a build that ended so far, in the order of their end."""
        with self._lock:
            build = self._builds.get(recipe)
            return tuple(build.lines) if build else ()

    @property
    def peak_used_bytes(self) -> int:
        """The most memory all running steps were seen to hold together, looked at once a second."""
        return self._peak_used

    def view(self) -> ServerView:
        """Everything that progress is made from."""
        with self._lock:
            now = self._now()
            builds, clients = list(self._builds.values()), list(self._clients.values())
            counts = [(build, tuple(build.lines)) for build in builds]
        packages = []
        for build, lines in counts:
            mine = [client for client in clients if client.ask and client.ask.recipe == build.recipe]
            running = [(c.ask.key, now - c.began_s) for c in mine if c.ask and c.began_s is not None]
            packages.append(
                PackageView(
                    recipe=build.recipe,
                    estimator=build.estimator,
                    count=build.count(),
                    finished=lines,
                    running=tuple(running),
                    waiting=len(mine) - len(running),
                    open=build.open,
                )
            )
        return ServerView(tuple(packages), self.limits, self._shortage, now)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _stop(self) -> None:
        self._stopping = True
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._stopping:
                # while somebody waits the machine is looked at again: other programs give memory back
                self._turn(LOOK_S if self._clients else None)
        except BaseException as error:  # noqa: BLE001 - kept for the thread that owns the server
            self._error = error
        finally:
            self._listener.close()
            for client in list(self._clients.values()):
                client.sock.close()

    def _turn(self, timeout_s: float | None) -> None:
        self._events(timeout_s)
        with self._lock:
            ending = [build for build in self._builds.values() if build.ending and not build.ended.is_set()]
        if ending:
            # what a client sent before it ended is in its socket by now: take it before the build is closed
            for _ in range(DRAIN_TURNS):
                if not self._events(0):
                    break
            for build in ending:
                self._end(build)
        self._look()
        self._admit()

    def _events(self, timeout_s: float | None) -> bool:
        """Wait for clients and listen to all that speak; whether there were any."""
        found = self._selector.select(timeout_s)
        for key, _ in found:
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, _Client):
                self._read(key.data)
            else:
                key.fileobj.recv(4096)  # type: ignore[union-attr]  # only there to wake us
        return bool(found)

    def _end(self, build: _Build) -> None:
        build.open = False
        for client in list(self._clients.values()):
            if client.ask and client.ask.recipe == build.recipe:
                self._close(client)
        build.ended.set()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # no file descriptors left: whoever waits in the queue is accepted when a step has ended
                self._progress.step(f"job server: {error.strerror}")
                time.sleep(0.1)
                return
            sock.setblocking(False)
            client = _Client(sock, next(self._numbers))
            with self._lock:
                self._clients[client.number] = client
            self._selector.register(sock, selectors.EVENT_READ, client)

    def _read(self, client: _Client) -> None:
        try:
            piece = client.sock.recv(LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        client.buffer += piece
        try:
            while b"\n" in client.buffer:
                line, _, client.buffer = client.buffer.partition(b"\n")
                if self._line(client, line):
                    return
            if len(client.buffer) > LINE_BYTES:
                raise InputError(f"a line of more than {LINE_BYTES} bytes")
        except OrbitError as error:
            self._refuse(client, error.what)
            return
        if not piece:
            self._close(client)

    def _line(self, client: _Client, line: bytes) -> bool:
        """Take one line; whether the connection has ended with it."""
        if client.ask is None:
            return self._asked(client, read_ask(line))
        if client.began_s is None:
            raise InputError("a second line before the step was admitted")
        self._close(client, read_report(line))
        return True

    def _asked(self, client: _Client, ask: Ask) -> bool:
        with self._lock:
            build = self._builds.get(ask.recipe)
        if build is None or not build.open:
            raise InputError(f"no build of {ask.recipe!r} is registered")
        client.asked_s = self._now()
        client.ask = ask
        if ask.cached:
            self._close(client)
            return True
        expected = build.estimator.expect(ask.key)
        client.need_bytes = expected.peak_bytes
        client.expected_s = build.estimator.to_end_s(ask.key)
        return False

    def _refuse(self, client: _Client, why: str) -> None:
        with contextlib.suppress(OSError):
            client.sock.send(f"error: {why}\n".encode())
        self._close(client)

    def _close(self, client: _Client, report: Report | None = None) -> None:
        """The end of a connection; of a step, too, when it had started or its result was there."""
        self._selector.unregister(client.sock)
        client.sock.close()
        with self._lock:
            del self._clients[client.number]
            if client.ask is None or (client.began_s is None and not client.ask.cached):
                return
            ask, now = client.ask, self._now()
            self._builds[ask.recipe].lines.append(
                Line(
                    recipe=ask.recipe,
                    step=ask.step,
                    source=ask.source,
                    arch=ask.arch,
                    cached=ask.cached,
                    asked_s=round(client.asked_s, 3),
                    began_s=round(client.asked_s if client.began_s is None else client.began_s, 3),
                    ended_s=round(now, 3),
                    reserved_bytes=client.need_bytes,
                    report=report,
                )
            )

    def _waiting(self) -> list[_Client]:
        return [client for client in self._clients.values() if client.ask and client.began_s is None]

    def _admit(self) -> None:
        waiting = self._waiting()
        if not waiting:
            self._shortage = None
            return
        decision = decide(self._state(waiting))
        self._shortage = decision.shortage
        for number in decision.start:
            self._start(self._clients[number], decision)

    def _start(self, client: _Client, decision: Decision) -> None:
        assert client.ask is not None
        client.began_s = self._now()
        if decision.alone:
            self._progress.step(
                f"{client.ask.recipe}: {client.ask.step} of {client.ask.source} needs {client.need_bytes / 2**30:.1f} "
                f"GiB and {max(0, self._capacity) / 2**30:.1f} GiB can be had; it runs alone"
            )
        try:
            sent = client.sock.send(GO)
        except OSError:
            sent = 0
        if sent != len(GO):
            client.began_s = None  # it is gone and never started
            self._close(client)

    def _state(self, waiting: list[_Client]) -> State:
        now = self._now()
        running = [(c, c.ask, c.began_s) for c in self._clients.values() if c.ask and c.began_s is not None]
        return State(
            limits=self.limits,
            running=tuple(Running(a.recipe, c.need_bytes, c.used_bytes, now - b) for c, a, b in running),
            waiting=tuple(
                Waiting(c.number, c.ask.recipe, c.need_bytes, c.expected_s, now - c.asked_s) for c in waiting if c.ask
            ),
            capacity_bytes=self._capacity,
        )

    def _look(self) -> None:
        """See what the machine has left and what our steps hold: once a second, for the sum of both changes slowly."""
        now = self._now()
        if now - self._looked_s < LOOK_S or not self._clients:
            return
        self._looked_s = now
        running = [client for client in self._clients.values() if client.began_s is not None]
        held = resident_of({client.pid for client in running if client.pid})
        shares: dict[int, int] = {}
        for client in running:
            shares[client.pid] = shares.get(client.pid, 0) + client.need_bytes
        for client in running:
            # a process that runs several steps: what it holds is split as they reserved
            client.used_bytes = held.get(client.pid, 0) * client.need_bytes // max(1, shares[client.pid])
        used = sum(client.used_bytes for client in running)
        self._peak_used = max(self._peak_used, used)
        self._capacity = self._available() + used
