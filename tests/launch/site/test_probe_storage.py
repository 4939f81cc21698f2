"""Mounts of a node: what works there, which is scratch, which is shared."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.launch.site.probe import MARK, head, probe
from tests.launch.site.nodes import GIB, SLURM, check_sound, mount, node, tried


@pytest.mark.parametrize(
    ("where", "how", "locks", "said"),
    [
        (mount("/lustre", "lustre"), tried("/lustre", flock="missing ENOSYS"), False, "flock missing ENOSYS"),
        (mount("/nfs", "nfs4", "rw", "local_lock=all"), tried("/nfs"), False, "on this node only"),
        (mount("/nfs", "nfs4"), tried("/nfs", problem="/nfs: Permission denied", error="EACCES"), False, MARK),
        (mount("/nfs", "nfs4"), tried("/nfs"), True, "a second holder was kept out"),
    ],
)
def test_locks_are_tried_and_taken_for_none_where_they_cannot_be(where: Any, how: Any, locks: bool, said: str) -> None:
    found = probe(node(mounts=(where,), tried={where.point: how}))
    assert check_sound(found).storage.mounts[0].locks is locks
    assert said in found.notes["storage.mounts.0.locks"]


def test_scratch_is_never_a_disk_where_something_does_not_work() -> None:
    for how in (
        {"executes": False},
        {"flock": "shared"},
        {"problem": "x", "error": "EACCES"},
        {"free": GIB},
    ):
        found = probe(node(tried={"/local": tried("/local", **how), "/lustre": tried("/lustre")}))
        assert check_sound(found).storage.scratch == ""
    assert check_sound(probe(node(mounts=(mount("/local", "ext4", "rw", "noexec"),)))).storage.mounts[0].noexec
    found = probe(node(env=SLURM | {"SLURM_TMPDIR": "/local/7"}))
    assert (check_sound(found).storage.scratch, "SLURM_TMPDIR" in found.notes["storage.scratch"]) == ("", True)


def test_dead_servers_personal_folders_and_single_files_are_left_out() -> None:
    dead = tried("/dead", problem="/dead: no answer within 6 s", error="ETIMEDOUT")
    file = tried("/app/x.json", problem="/app/x.json: Not a directory", error="ENOTDIR")
    mounts = (mount("/dead", "nfs"), mount("/home/ann"), mount("/app/x.json"), mount("/local"))
    found = probe(node(mounts=mounts, tried={"/dead": dead, "/app/x.json": file, "/local": tried("/local")}))
    assert [each.host for each in check_sound(found).storage.mounts] == ["/local"]
    text = head(found)
    assert "/dead (nfs): /dead: no answer within 6 s" in text
    assert "is one person's" in text
    assert "a file, not a folder" in text
