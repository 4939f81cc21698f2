"""The program that asks a cluster; with a real head in tests/launch/ray/test_join.py."""

from __future__ import annotations

import sys

import msgspec

from orbit.core.proc import run
from orbit.core.records import compact_json
from orbit.launch.ray.join import Found, Wanted


def test_it_gives_up_and_says_why() -> None:
    wanted = Wanted(address="127.0.0.1:9", nodes=1, gpus=0, cpus=0, seconds=0.1)
    program = "from orbit.launch.ray.stack.wait import main; main()"
    done = run([sys.executable, "-c", program], doing="asking nobody", stdin=compact_json(wanted))
    found = msgspec.json.decode(done.stdout.splitlines()[-1], type=Found)
    assert found.nodes == ()
    assert found.error
