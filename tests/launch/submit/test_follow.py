"""Following files: nothing twice, nothing lost, also what comes with the end."""

from __future__ import annotations

from pathlib import Path

from orbit.launch.submit.follow import follow


def test_each_byte_comes_once_also_those_written_while_the_end_is_asked(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    asked = 0

    def ended() -> bool:
        nonlocal asked
        asked += 1
        with first.open("ab") as file:
            file.write(f"{asked};".encode())
        if asked == 2:
            second.write_bytes(b"other;")
        return asked == 3

    def files() -> list[Path]:
        return [path for path in (first, second) if path.exists()]

    assert list(follow(files, ended, pause_s=0)) == [b"1;", b"2;", b"other;", b"3;"]


def test_a_job_that_wrote_nothing_gives_nothing(tmp_path: Path) -> None:
    assert list(follow(list, lambda: True, pause_s=0)) == []
