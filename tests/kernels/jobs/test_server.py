"""The job server over its real socket: admission, deaths, damage, hundreds of clients; nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.kernels.jobs import server as module
from orbit.kernels.jobs.policy import Limits
from orbit.kernels.jobs.server import JobServer
from orbit.kernels.jobs.sockets import PREFIX, SOCKET, private_folder
from tests.core.processes import until
from tests.kernels.jobs.writers import GIB, MIB, Client, estimator, measured


class Lines:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        self.said.append(f"{what} {done}/{total}")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sockets of these tests do not lie among those of others, and none stays open."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))
    yield
    while Client.opened:
        Client.opened.pop().close()


def serve(
    cores: int = 2, budget_gib: float = 10, capacity_gib: float = 1000, progress: Lines | None = None
) -> JobServer:
    return JobServer(
        Limits(cores=cores, budget_bytes=int(budget_gib * GIB), margin_bytes=0),
        progress=progress,
        available=lambda: int(capacity_gib * GIB),
    )


@pytest.fixture
def two_cores() -> Iterator[JobServer]:
    with serve() as server, server.build(estimator()):
        yield server


def test_a_step_starts_ends_and_is_a_line(two_cores: JobServer) -> None:
    client = Client(two_cores.path).ask()
    assert client.answer() == "go\n"
    client.report(seconds=2.5, peak=3 * MIB)
    assert until(lambda: len(two_cores.lines("a")) == 1)
    (line,) = two_cores.lines("a")
    assert (line.recipe, line.key, line.cached, line.ok) == ("a", ("cicc", "x.cu", "sm_90a"), False, True)
    assert line.report is not None
    assert (line.report.seconds, line.report.peak_bytes) == (2.5, 3 * MIB)
    assert 0 <= line.asked_s <= line.began_s <= line.ended_s
    assert line.reserved_bytes == GIB


def test_no_more_run_than_there_are_cores(two_cores: JobServer) -> None:
    first, second = Client(two_cores.path).ask(), Client(two_cores.path).ask()
    assert [first.answer(), second.answer()] == ["go\n", "go\n"]
    third = Client(two_cores.path).ask()
    assert third.waits()
    second.report()
    assert third.answer() == "go\n"
    first.close()
    third.close()


def test_memory_holds_a_step_back() -> None:
    known = estimator(steps=[measured("big.cu", "cicc", "sm_90a", peaks=[7 * GIB])], memory=4 * GIB)
    with serve(cores=8) as server, server.build(known):
        big = Client(server.path).ask(source="big.cu")
        assert big.answer() == "go\n"
        small = Client(server.path).ask()
        assert small.waits()
        view = server.view()
        assert view.shortage is not None
        assert (view.shortage.of, view.shortage.need_bytes) == ("memory", int(7 * GIB * 1.05))
        big.report()
        assert small.answer() == "go\n"
        small.close()


def test_other_programs_memory_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    left = [1 * GIB]
    server = JobServer(Limits(4, 100 * GIB, 0), available=lambda: left[0])
    with server, server.build(estimator(memory=GIB)):
        first = Client(server.path).ask()
        assert first.answer() == "go\n"
        second = Client(server.path).ask()
        assert second.waits()
        left[0] = 3 * GIB  # nobody tells the server: it looks
        assert second.answer() == "go\n"
        first.close()
        second.close()


def test_what_a_running_step_holds_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 MiB are left and the first step holds what it reserved: the second fits."""
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    left, seen = [600 * MIB], [0]

    def available() -> int:
        seen.append(left[0])
        return left[0]

    server = JobServer(Limits(4, 100 * GIB, 0), available=available)
    program = (
        "import sys; sys.path[:] = eval(sys.argv[3]); from tests.kernels.jobs.writers import Client\n"
        "client = Client(sys.argv[1]).ask(); assert client.answer() == 'go\\n'\n"
        "held = b'a' * (int(sys.argv[2]) << 20); print('up', flush=True); input()"
    )

    def step(held_mib: int) -> subprocess.Popen[str]:
        """A process of its own: what this one holds, with all of pytest, is nobody's step."""
        argv = [sys.executable, "-c", program, server.path, str(held_mib), repr(sys.path)]
        started = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "up\n"
        return started

    with server, server.build(estimator(memory=250 * MIB)):
        first, second = step(220), None
        try:
            left[0] = 300 * MIB
            assert until(lambda: server.peak_used_bytes > 220 * MIB)
            assert until(lambda: seen[-2:] == [300 * MIB] * 2)  # the first of these two looks is over
            second = step(0)
            third = Client(server.path).ask()
            assert third.waits(0.3)
            third.close()
        finally:
            for each in (first, second):
                if each:
                    each.communicate("\n")


def test_a_step_larger_than_the_machine_runs_alone_and_says_so() -> None:
    told = Lines()
    with serve(progress=told) as server, server.build(estimator(memory=50 * GIB)):
        first, second = Client(server.path).ask(), Client(server.path).ask()
        assert first.answer() == "go\n"
        assert second.waits()
        first.report()
        assert second.answer() == "go\n"
        second.close()
    assert told.said[0] == "a: cicc of x.cu needs 50.0 GiB and 1000.0 GiB can be had; it runs alone"


@pytest.mark.parametrize("end", ["close", "reset", "shutdown"])
def test_a_step_that_dies_frees_its_place_at_once(two_cores: JobServer, end: str) -> None:
    clients = [Client(two_cores.path).ask() for _ in range(3)]
    assert [client.answer() for client in clients[:2]] == ["go\n"] * 2
    assert clients[2].waits()
    if end == "reset":
        clients[0].send('{"seconds": 1')  # half a report
    if end == "shutdown":
        clients[0].sock.shutdown(socket.SHUT_RDWR)
    clients[0].close()
    assert clients[2].answer() == "go\n"
    (line,) = two_cores.lines("a")
    assert (line.report, line.ok) == (None, False)
    for client in clients[1:]:
        client.close()


def test_a_waiting_step_that_dies_is_forgotten(two_cores: JobServer) -> None:
    clients = [Client(two_cores.path).ask() for _ in range(4)]
    assert [client.answer() for client in clients[:2]] == ["go\n"] * 2
    clients[2].close()
    clients[0].close()
    assert clients[3].answer() == "go\n"
    clients[1].close()
    clients[3].close()
    assert until(lambda: len(two_cores.lines("a")) == 3)


def test_cached_steps_are_counted_and_wait_for_nothing(two_cores: JobServer) -> None:
    running = [Client(two_cores.path).ask() for _ in range(2)]
    assert [client.answer() for client in running] == ["go\n"] * 2
    for number in range(5):
        Client(two_cores.path).ask(source=f"{number}.cu", cached=True).close()
    assert Client(two_cores.path).ask(cached=True).answer() == ""  # closed at once, whoever waits
    assert until(lambda: len(two_cores.lines("a")) == 6)
    assert all(line.cached and line.ok and line.report is None for line in two_cores.lines("a"))
    for client in running:
        client.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello\n", "error: not a line of this protocol"),
        ("\n", "error: not a line of this protocol"),
        ("x" * 100_000, "error: a line of more than 65536 bytes"),
        ('{"recipe": "b", "step": "cicc", "source": "x"}\n', "error: no build of 'b' is registered"),
        ("\x00" * 10 + "\n", "error: not a line"),
    ],
)
def test_a_malformed_line_hurts_nobody_else(two_cores: JobServer, text: str, says: str) -> None:
    good = Client(two_cores.path).ask()
    assert good.answer() == "go\n"
    bad = Client(two_cores.path).send(text)
    assert bad.answer().startswith(says)
    with contextlib.suppress(ConnectionError):
        assert bad.answer() == ""
    other = Client(two_cores.path).ask()
    assert other.answer() == "go\n"
    good.report()
    other.report()
    assert until(lambda: len(two_cores.lines("a")) == 2)
    two_cores.check()


def test_a_report_before_the_step_was_admitted_is_refused(two_cores: JobServer) -> None:
    clients = [Client(two_cores.path).ask() for _ in range(3)]
    assert clients[2].waits()
    clients[2].send('{"seconds": 1, "cpu_s": 1, "peak_bytes": 1, "status": 0}\n')
    assert clients[2].answer().startswith("error: a second line before")
    clients[0].answer()
    clients[0].send("nonsense\n")
    assert clients[0].answer().startswith("error: not a line")
    assert until(lambda: len(two_cores.lines("a")) == 1)
    assert two_cores.lines("a")[0].report is None
    clients[1].close()


def test_lines_may_come_in_pieces(two_cores: JobServer) -> None:
    client = Client(two_cores.path)
    for letter in '{"recipe": "a", "step": "host", "source": "x"}\n':
        client.send(letter)
    assert client.answer() == "go\n"
    client.close()


def test_packages_share_and_one_ends_without_the_other() -> None:
    with serve() as server, server.build(estimator("a")):
        with server.build(estimator("b")):
            mine, theirs = Client(server.path).ask("a"), Client(server.path).ask("b")
            assert [mine.answer(), theirs.answer()] == ["go\n", "go\n"]
            waiting = Client(server.path).ask("b")
            assert waiting.waits()
        # the build of b is over: what it left is closed, what it held is free
        assert waiting.answer() == ""
        second = Client(server.path).ask("a")
        assert second.answer() == "go\n"
        refused = Client(server.path).ask("b")
        assert "no build of 'b'" in refused.answer()
        with server.build(estimator("b")):
            again = Client(server.path).ask("b")
            mine.report()
            assert again.answer() == "go\n"
        second.close()


def test_one_recipe_is_built_once_at_a_time() -> None:
    with serve() as server, server.build(estimator()):
        again = server.build(estimator())
        with pytest.raises(InputError, match="built already"):
            again.__enter__()


def test_nothing_that_was_sent_before_the_end_is_lost() -> None:
    for _ in range(20):
        with serve(cores=64, budget_gib=1000) as server:
            with server.build(estimator()):
                clients = [Client(server.path).ask() for _ in range(20)]
                assert [client.answer() for client in clients] == ["go\n"] * 20
                for client in clients:
                    client.report()
                for number in range(20):
                    Client(server.path).ask(source=f"{number}", cached=True).close()
            assert len(server.lines("a")) == 40
            assert all(line.ok for line in server.lines("a"))


def test_hundreds_of_clients_within_limits() -> None:
    """400 clients of three packages, each from its own thread, some dying: never over cores or budget, all served."""
    rng = random.Random(7)
    recipes = {name: estimator(name, memory=int(need * GIB)) for name, need in (("a", 1), ("b", 2.5), ("c", 4))}
    lock, running = threading.Lock(), [0, 0]
    most = [0, 0]
    served: list[str] = []

    def one(server: JobServer, name: str, pause_s: float, dies: bool) -> None:
        client = Client(server.path)
        client.sock.settimeout(60)
        assert client.ask(name).answer() == "go\n"
        with lock:
            running[0] += 1
            running[1] += recipes[name].default.memory_bytes
            most[:] = [max(pair) for pair in zip(most, running, strict=True)]
        time.sleep(pause_s)
        with lock:
            running[0] -= 1
            running[1] -= recipes[name].default.memory_bytes
            served.append(name)
        client.close() if dies else client.report()

    with serve(cores=16, budget_gib=24) as server, contextlib.ExitStack() as stack:
        for known in recipes.values():
            stack.enter_context(server.build(known))
        threads = [
            threading.Thread(target=one, args=(server, rng.choice("abc"), rng.uniform(0, 0.02), rng.random() < 0.1))
            for _ in range(400)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(served) == 400
        stack.close()
        assert sum(len(server.lines(name)) for name in "abc") == 400
    assert most[0] <= 16
    assert most[1] <= 24 * GIB
    assert most[0] >= 6  # and it was not one after the other


def test_the_view_shows_what_runs_and_waits(two_cores: JobServer) -> None:
    clients = [Client(two_cores.path).ask(source=f"{n}.cu") for n in range(3)]
    assert clients[0].answer() == "go\n"
    assert clients[1].answer() == "go\n"
    assert until(lambda: two_cores.view().packages[0].waiting == 1)
    (package,) = two_cores.view().packages
    assert {key.source for key, _age in package.running} == {"0.cu", "1.cu"}
    assert package.open
    for client in clients:
        client.close()


# --- the folder and the end -------------------------------------------------------------------------------------------


def test_the_socket_is_private_and_gone_at_the_end() -> None:
    with serve() as server:
        folder = Path(server.path).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(server.path) < 108
        waiting = Client(server.path)
    assert not folder.exists()
    assert waiting.answer() == ""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_an_exception_ends_it_too(kind: type[BaseException]) -> None:
    before = threading.active_count()
    server = serve()
    clients = []

    def work() -> None:
        with server, server.build(estimator()):
            clients.append(Client(server.path).ask())
            assert clients[0].answer() == "go\n"
            raise kind

    with pytest.raises(kind):
        work()
    assert not Path(server.path).exists()
    assert clients[0].answer() == ""
    assert threading.active_count() == before


def test_no_descriptor_leaks() -> None:
    def once() -> None:
        with serve() as server, server.build(estimator()):
            client = Client(server.path).ask()
            client.answer()
            client.close()

    once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        once()
    assert len(os.listdir("/proc/self/fd")) == before


def test_folders_of_dead_processes_do_not_pile_up() -> None:
    base = Path(os.environ["XDG_RUNTIME_DIR"])
    program = (
        "import os; from orbit.kernels.jobs.policy import Limits; from orbit.kernels.jobs.server import JobServer\n"
        "JobServer(Limits(1, 1, 1)).__enter__(); os.kill(os.getpid(), 9)"
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=False, cwd=Path(__file__).parents[3])
    (base / f"{PREFIX}{os.getpid()}-mine").mkdir()
    assert len(list(base.glob(f"{PREFIX}*"))) == 2  # each run removed the one before it
    with serve():
        names = {path.name for path in base.glob(f"{PREFIX}*")}
    assert f"{PREFIX}{os.getpid()}-mine" in names  # its process runs
    assert len(names) == 2


def test_a_folder_whose_socket_answers_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another container's server: its process is not in our /proc."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        monkeypatch.setattr(tempfile, "gettempdir", lambda: base)
        alive, dead, young = (Path(base, f"{PREFIX}{2**22 + number}-x") for number in (1, 2, 3))  # pid_max is 2**22
        for folder in (alive, dead, young):
            folder.mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
            gone.bind(str(dead / SOCKET))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(alive / SOCKET))
            listener.listen()
            shutil.rmtree(private_folder())
            assert [folder.exists() for folder in (alive, dead, young)] == [True, False, True]
        os.utime(young, (0, 0))
        shutil.rmtree(private_folder())
        assert [folder.exists() for folder in (alive, dead, young)] == [False, False, False]


def test_a_long_folder_name_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setenv("TMPDIR", str(long))
    with serve() as server:
        assert not server.path.startswith(str(long))
        Client(server.path).close()


def test_a_defect_in_the_thread_is_raised_and_clients_do_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_state: object) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "decide", broken)
    with pytest.raises(RuntimeError, match="job server") as caught, serve() as server, server.build(estimator()):
        assert Client(server.path).ask().answer() == ""
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
