"""Progress lines: on stderr, dated, and not too many."""

from __future__ import annotations

import re
import sys
import threading
import time

import pytest

from orbit.core.console import Console, Progress, Silent


def test_lines_go_to_stderr_with_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    Console("cu130: ").step("resolving")
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r" +\d+\.\ds  cu130: resolving\n", err)


def test_progress_is_printed_at_most_once_in_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    console = Console(every_s=5.0)
    for done in range(101):
        console.advance("files", done, 100)
        now += 0.1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("files: ")[1] for line in lines] == ["0 of 100 (0 %)", "50 of 100 (50 %)", "100 of 100 (100 %)"]


def test_an_unknown_total_has_no_share(capsys: pytest.CaptureFixture[str]) -> None:
    Console(every_s=0.0).advance("bytes", 3, 0)
    assert capsys.readouterr().err.endswith("bytes: 3 of 0\n")


def test_bytes_come_with_their_rate_and_the_time_that_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    console = Console(every_s=5.0)
    # half of it was there from an earlier run: that is no speed
    for done in (2_000_000_000, 2_400_000_000, 2_600_000_000, 4_000_000_000):
        console.advance("pulling", done, 4_000_000_000, "bytes")
        now += 4.0
    console.advance("pulling", 4_000_000_000, 4_000_000_000, "bytes")
    lines = [line.split("pulling: ")[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "2.00 GB of 4.00 GB (50 %)",
        "2.60 GB of 4.00 GB (65 %), 75.0 MB/s, 19 s left",
        "4.00 GB of 4.00 GB (100 %), 175.0 MB/s",
    ]


def test_bytes_of_an_unknown_total(capsys: pytest.CaptureFixture[str]) -> None:
    Console(every_s=0.0).advance("fetching x", 3_400_000, 0, "bytes")
    assert capsys.readouterr().err.endswith("fetching x: 3.4 MB\n")


def test_silent_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress: Progress = Silent()
    progress.step("x")
    progress.advance("x", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_lines_of_threads_never_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torn:
        """A stream that gives other threads their turn in the middle of everything."""

        text = ""

        def write(self, piece: str) -> None:
            for letter in piece:
                self.text += letter
                time.sleep(0)

        def flush(self) -> None:
            time.sleep(0)

    torn = Torn()
    monkeypatch.setattr(sys, "stderr", torn)
    console = Console()
    threads = [threading.Thread(target=lambda n=n: [console.step(f"<{n}>") for _ in range(30)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(torn.text.splitlines()) == 240
    assert all(re.fullmatch(r" +\d+\.\ds  <\d>", line) for line in torn.text.splitlines())
