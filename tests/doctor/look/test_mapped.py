"""Libraries of running processes, from a made-up /proc and from a real one."""

from __future__ import annotations

import os
from pathlib import Path

from orbit.doctor.facts import Process
from orbit.doctor.look import mapped

CODE = "7f0000000000-7f0000001000 r-xp 00000000 08:01 12 "
DATA = "7f0000002000-7f0000003000 rw-p 00000000 08:01 12 "


def process(pid: int) -> Process:
    return Process(pid=pid, parent=1, state="S", name="python3.12", age_s=1)


def test_watched_libraries_of_each_process(tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/maps").write_text(
        f"{CODE}/e/libnccl.so.2\n{DATA}/e/libnccl.so.2\n{CODE}/e/libcudnn_graph.so.9 (deleted)\n{CODE}/lib/libc.so.6\n"
    )
    (tmp_path / "proc/8").mkdir()
    (tmp_path / "proc/8/maps").write_text(f"{CODE}/lib/libc.so.6\n")
    (found,) = mapped.read_loaded(tmp_path, [process(7), process(8), process(9)])
    assert found.pid == 7
    assert found.libraries == ("/e/libcudnn_graph.so.9", "/e/libnccl.so.2")
    assert found.deleted == ("/e/libcudnn_graph.so.9",)


def test_this_process_has_none_of_them() -> None:
    assert mapped.read_loaded(Path("/"), [process(os.getpid())]) == ()
