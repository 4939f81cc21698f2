"""Texts of any size and shape: pieces, colours, prefixes, long lines, damage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbit.doctor.catalog import load_catalog
from orbit.doctor.scan import PIECE_BYTES, Hit, scan

ERROR = b"OSError: AF_UNIX path too long\n"
CATALOG = load_catalog()


def hits(*pieces: bytes) -> dict[str, Hit]:
    return {hit.symptom: hit for hit in scan(iter(pieces), CATALOG).hits}


@pytest.mark.parametrize("cut", range(1, len(ERROR) - 1, 4))
def test_an_error_cut_by_pieces_is_found_on_its_line(cut: int) -> None:
    found = hits(b"a\nb\n" + ERROR[:cut], ERROR[cut:] + b"c\n")
    assert found["socket-path-too-long"].line == 3


def test_an_error_across_the_border_of_two_blocks_is_found() -> None:
    """Blocks end with a line, and lines before that are kept: also what has two lines is found."""
    text = b"x" * 59 + b"\n"
    before = text * (PIECE_BYTES // len(text))
    border = b'  File "reduction.py", line 164, in recvfds\n    raise EOFError\nEOFError\n'
    for shift in range(0, 60, 7):
        found = hits(before + b"y" * shift + b"\n" + border + text * 100)
        assert found["descriptor-sent-twice"].line == len(before) // 60 + 2


def test_lines_and_bytes_are_counted() -> None:
    assert (scan(iter([b"a\n" * 1000, b"last"]), CATALOG).lines, scan(iter([b"abc"]), CATALOG).bytes) == (1001, 3)
    assert scan(iter([b"a\n" * 7]), CATALOG).lines == 7
    assert scan(iter([]), CATALOG).lines == 0


@pytest.mark.parametrize(
    "line",
    [
        b"\x1b[36m(RayWorkerWrapper pid=4123, ip=10.0.0.4)\x1b[0m " + ERROR,
        b"(SGLangEngine pid=77) " + ERROR,
        b"\x1b[31mOSError:\x1b[0m AF_UNIX \x1b[1mpath too long\x1b[0m\n",
        b"OSError: AF_UNIX path too long\r\n",
        b"\xff\xfe\x00 OSError: AF_UNIX path too long \x80\n",
        b"[rank3]: " + ERROR,
    ],
)
def test_what_stands_around_a_line_does_not_hide_it(line: bytes) -> None:
    assert hits(b"first\n" + line)["socket-path-too-long"].line == 2


def test_prefixes_inside_an_error_of_two_lines_are_passed_over() -> None:
    lead = b"(Trainer pid=9) "
    text = lead + b'  File "x.py", line 1, in recvfds\n' + lead + b"    raise EOFError\n"
    assert "descriptor-sent-twice" in hits(text)


def test_the_first_place_counts() -> None:
    text = b"No space left on device\n" + b"ok\n" * 10 + ERROR * 3
    assert {name: hit.line for name, hit in hits(text).items()} == {"disk-full": 1, "socket-path-too-long": 12}


def test_a_line_of_many_megabytes_is_no_trouble() -> None:
    found = hits(b"z" * (5 << 20) + b" AF_UNIX path too long " + b"z" * (3 << 20))
    assert found["socket-path-too-long"].line == 1
    assert len(found["socket-path-too-long"].text) <= 300


def test_a_line_that_differs_in_digits_alone_is_not_passed_over() -> None:
    """Lines of one kind are searched once; not by patterns that tell digits apart."""
    text = (
        b"pod a failed with exit code 100\n" * 50_000
        + b"pod a failed with exit code 143\n"
        + b"OSError: [Errno 11] x\n"
    )
    found = hits(text, b"OSError: [Errno 98] x\n")
    assert {name: hit.line for name, hit in found.items()} == {"signal-not-passed-on": 50_001, "port-taken": 50_003}


def test_a_kind_of_line_that_is_searched_once_is_found_on_its_first_line() -> None:
    noise = b"step 1 loss 0.5\n" * 70_000
    found = hits(
        noise
        + b"out of resource: shared memory, Required: 12\n"
        + noise
        + b"out of resource: shared memory, Required: 99\n"
    )
    assert found["kernel-needs-more-shared-memory"].line == 70_001


def test_what_is_shown_is_printable() -> None:
    assert hits(b"\x07\x00 AF_UNIX path too long")["socket-path-too-long"].text == "?? AF_UNIX path too long"


def test_a_text_is_never_held() -> None:
    """Pieces are made as they are asked for, the error is in the last one."""
    piece = b"2026-12-01 02:00:00 INFO step 1 loss 0.5 tokens 4096\n" * 19_000
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        while made < 24 << 20:
            made += len(piece)
            yield piece
        yield ERROR

    found = scan(pieces(), CATALOG)
    assert found.bytes == made + len(ERROR) > 24 << 20
    assert [hit.line for hit in found.hits] == [found.lines]
