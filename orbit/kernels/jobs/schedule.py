"""Several packages at once: each build in a thread of its own, the biggest first, a failure stops nobody else.

Threads only wait: what works are the programs they run. Of an interrupt (Ctrl-C, or SIGTERM, which the command line
turns into one) Python tells the main thread alone; it waits here in small steps, ends the programs of all threads
(:class:`orbit.core.proc.Stop`), gives the threads a moment to clear up after themselves, and raises on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbit.core.console import Progress
from orbit.core.findings import Skipped
from orbit.core.proc import Stop
from orbit.errors import OrbitError

CLEAR_UP_S = 15.0
"""How long interrupted builds may take to delete what they left; the next run deletes the rest."""


@dataclass(frozen=True, slots=True)
class Job[T]:
    """One package to build."""

    name: str
    core_hours: float
    """What it will probably cost: the biggest start first."""
    work: Callable[[], T]


@dataclass(frozen=True, slots=True)
class Done[T]:
    """A job that ended well."""

    name: str
    value: T
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that did not."""

    name: str
    error: Exception
    seconds: float


type Outcome[T] = Done[T] | Failed | Skipped
"""What became of a job. ``Skipped`` when it was never tried; its ``what`` is the job's name."""


class SeveralFailed(OrbitError):
    """More than one build failed. The exit code is the first one's, in the order the jobs were given."""

    def __init__(self, failures: Sequence[Failed], first: OrbitError) -> None:
        self.code = first.code
        self.failures = tuple(failures)
        super().__init__("\n".join([f"{len(failures)} builds failed", *(f"{f.name}: {f.error}" for f in failures)]))


def run_jobs[T](
    jobs: Sequence[Job[T]],
    *,
    at_once: int,
    progress: Progress,
    stop: Stop | None = None,
    skip: Callable[[str], str] = lambda _name: "",
) -> tuple[Outcome[T], ...]:
    """Do all jobs, at most ``at_once`` at the same time; what became of each, in the order given.

    ``skip`` is asked right before a job starts and gives the reason not to start it (because a job before it failed,
    for example), or nothing. An error of a job is its outcome; only an interrupt, also one raised by a job, ends
    everything, and is raised here after all programs have ended. Call from the main thread.
    """
    order: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in sorted(range(len(jobs)), key=lambda n: (-jobs[n].core_hours, jobs[n].name)):
        order.put(index)
    outcomes: dict[int, Outcome[T]] = {}
    stop = stop or Stop()
    crew = _Crew(jobs, order, outcomes, progress, stop, skip)
    # events and not Thread.join: an interrupt inside join marks the thread as ended although it runs (CPython 3.12)
    ended: list[threading.Event] = []
    try:
        for number in range(min(at_once, len(jobs))):
            event = threading.Event()
            threading.Thread(target=crew.work, args=(event,), name=f"build {number}", daemon=True).start()
            ended.append(event)
        for event in ended:
            while not event.wait(0.2):
                stop.check()
    except BaseException:
        stop.now()
        deadline = time.monotonic() + CLEAR_UP_S
        for event in ended:
            event.wait(max(0.0, deadline - time.monotonic()))
        raise
    stop.check()
    if crew.defect is not None:
        raise crew.defect
    return tuple(outcomes[index] for index in range(len(jobs)))


@dataclass(slots=True)
class _Crew[T]:
    """What the threads share."""

    jobs: Sequence[Job[T]]
    order: queue.SimpleQueue[int]
    outcomes: dict[int, Outcome[T]]
    progress: Progress
    stop: Stop
    skip: Callable[[str], str]
    defect: BaseException | None = None

    def work(self, ended: threading.Event) -> None:
        """Take jobs until there are none left, then say so."""
        try:
            with self.stop.covers():
                while not self.stop.stopped:
                    index = self.order.get_nowait()
                    self.outcomes[index] = self.one(self.jobs[index])
        except queue.Empty:
            return
        except KeyboardInterrupt:
            self.stop.stopped = True  # the main thread sees it and ends the others
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            self.defect = error
            self.stop.stopped = True
        finally:
            ended.set()

    def one(self, job: Job[T]) -> Outcome[T]:
        """One job from begin to end."""
        if reason := self.skip(job.name):
            self.progress.step(f"{job.name}: skipped ({reason})")
            return Skipped(what=job.name, reason=reason, estimate=f"{job.core_hours:g} core-hours")
        began = time.monotonic()
        try:
            value = job.work()
        except Exception as error:  # noqa: BLE001 - its outcome: the others go on, and the caller raises it
            self.stop.check()  # what a stopped build says is no failure of its own
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.progress.step(f"{job.name}: failed ({first}); other builds go on")
            return Failed(job.name, error, time.monotonic() - began)
        return Done(job.name, value, time.monotonic() - began)


def failure(outcomes: Sequence[Outcome[object]]) -> Exception | None:
    """The one exception that stands for all failures: the only one, or :class:`SeveralFailed`; None without any.

    A defect (anything but an :class:`OrbitError`) is returned as it is, with the others in its notes.
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    if not failures:
        return None
    defects = [each.error for each in failures if not isinstance(each.error, OrbitError | OSError)]
    if defects:
        for each in failures:
            if each.error is not defects[0]:
                defects[0].add_note(f"also failed: {each.name}: {each.error}")
        return defects[0]
    first = failures[0].error
    if len(failures) == 1 or not isinstance(first, OrbitError):
        return first
    return SeveralFailed(failures, first)
