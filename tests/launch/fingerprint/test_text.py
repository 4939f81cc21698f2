"""A fingerprint for people, logs and checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.records import dump_json, indented_json
from orbit.errors import InputError
from orbit.launch.fingerprint.text import line, load, parse, short, table
from orbit.launch.preflight.model import Demand, NodeReport
from tests.launch.fingerprint.prints import library, sound


def test_the_short_form_is_that_of_what_must_agree() -> None:
    assert len(short(sound())) == 12
    assert short(sound(driver="1", devices=())) == short(sound())
    assert short(sound(lock="x")) != short(sound())


def test_a_line_for_a_log_has_no_line_break_and_names_what_ran() -> None:
    text = line(sound())
    assert "\n" not in text
    for part in (short(sound()), "image 111111111111", "nccl 2.27.3", "driver 580", "8x NVIDIA H100 80GB HBM3 9.0"):
        assert part in text


def test_the_table_tells_what_is_not_there_and_what_is_twice() -> None:
    text = "\n".join(table(sound(image="", libraries=(), devices=())))
    assert "image         -" in text
    assert "--loaded" in text
    twice = sound(libraries=(library("libnccl.so.2"), library("libnccl.so.2", "b" * 64, at="/usr/lib")))
    assert "twice         libnccl.so.2" in "\n".join(table(twice))


def test_what_was_written_is_read_back_also_out_of_a_nodes_report(tmp_path: Path) -> None:
    dump_json(tmp_path / "a.json", sound())
    assert load(tmp_path / "a.json") == sound()
    report = NodeReport(host="a", started="", seconds=1, demand=Demand(), checks=(), fingerprint=sound())
    dump_json(tmp_path / "b.json", report)
    assert load(tmp_path / "b.json") == sound()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "no fingerprint"),
        (b'{"schema": "orbit.fingerprint/0"}', "no fingerprint"),
        (b'{"fingerprint": null}', "no fingerprint"),
        (b'{"schema": "orbit.fingerprint/1"}', "interpreter"),
        (indented_json(sound()).replace(b'"glibc"', b'"glibcc"'), "glibcc"),
        (b"[" * 100000, "not valid JSON"),
    ],
)
def test_what_is_no_fingerprint_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(data, "x.json")
    assert "x.json" in str(caught.value)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "none.json")
