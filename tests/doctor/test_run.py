"""Where the text of an error comes from, and that explaining looks at nothing else."""

from __future__ import annotations

import gzip
import io
import os
import threading
from pathlib import Path

import pytest

from orbit.doctor import run as module
from orbit.doctor.facts import Facts
from orbit.doctor.run import diagnose, explain
from orbit.errors import InputError

ERROR = "OSError: AF_UNIX path too long"


def first(text: str) -> str:
    return explain(text).causes[0].symptom


def test_a_text_a_file_a_pipe_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_text(f"x\n{ERROR}\n", encoding="utf-8")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=(ERROR,))
    writer.start()
    assert [first(ERROR), first(str(tmp_path / "a.log")), first(str(fifo))] == ["socket-path-too-long"] * 3
    writer.join()
    with open(tmp_path / "a.log", "rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        diagnosis = explain("-")
    assert (diagnosis.asked, diagnosis.lines, diagnosis.causes[0].line) == ("standard input", 2, 2)


def test_a_compressed_log_is_read_and_a_cut_one_is_told(tmp_path: Path) -> None:
    whole = gzip.compress(b"x\n" * 9 + ERROR.encode())
    (tmp_path / "a.log.gz").write_bytes(whole)
    assert explain(str(tmp_path / "a.log.gz")).causes[0].line == 10
    for name, content in (("cut.gz", whole[:-6]), ("text.gz", b"no gzip at all")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            explain(str(tmp_path / name))


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="is closed"):
        explain("-")


def test_a_text_with_slashes_is_no_file() -> None:
    assert first("/a/b/c.sock: AF_UNIX path too long") == "socket-path-too-long"
    assert first(f"{ERROR}: run.log") == "socket-path-too-long"


@pytest.mark.parametrize(("text", "word"), [("", "empty"), ("  \n ", "empty"), ("gone.log", "no such file")])
def test_no_text_at_all_is_refused(text: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        explain(text)


def test_a_folder_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    with pytest.raises(InputError, match="is a folder"):
        explain(str(tmp_path))
    with pytest.raises(InputError, match="empty"):
        explain(str(tmp_path / "empty.log"))


def test_what_matches_nothing_has_no_cause() -> None:
    diagnosis = explain("all is well\n")
    assert (diagnosis.causes, diagnosis.lines, diagnosis.looked) == ((), 1, ())


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(bytes(range(256)) * 100 + ERROR.encode())
    assert first(str(tmp_path / "core")) == "socket-path-too-long"


def test_facts_without_fault_are_a_clean_diagnosis() -> None:
    assert diagnose(Facts()).causes == ()
    assert module.diagnose(Facts(oom_kills=2)).causes[0].symptom == "memory-limit-killed"
