"""Processes of a job are found by their mark or their descent, and by nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

from orbit.launch.ray.sweep import MARK, belonging, end_all

CODE = """
import os, subprocess, sys, time
from orbit.launch.ray.sweep import adopt_orphans, end_all, belonging
mark = sys.argv[1]
adopt_orphans()
spared = subprocess.Popen(["sleep", "60"])
marked = dict(os.environ, **dict([mark.split("=")]))
subprocess.Popen(["setsid", "sh", "-c", "sleep 61 & sleep 62"], env=marked)
subprocess.Popen(["sh", "-c", "env -i setsid sh -c 'sleep 63; true' & exit 0"]).wait()
time.sleep(0.5)
found = belonging(mark, spared=frozenset({spared.pid}))
left = end_all(mark, spared=frozenset({spared.pid}))
zombies = [n for n in filter(str.isdigit, os.listdir("/proc"))
           if open(f"/proc/{n}/stat").read().rpartition(")")[2].split()[:2] == ["Z", str(os.getpid())]]
print(len(found), len(left), spared.poll(), len(zombies))
spared.kill()
"""


def test_marked_and_descended_processes_end_and_what_is_spared_does_not() -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        mark = f"{MARK}={uuid.uuid4().hex}"
        done = subprocess.run([sys.executable, "-c", CODE, mark], check=True, capture_output=True, text=True)
        assert done.stdout.split()[1:] == ["0", "None", "0"]
        assert int(done.stdout.split()[0]) >= 5
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_mark_of_another_value_is_nobodys() -> None:
    marked = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: "one"})
    try:
        time.sleep(0.1)
        mine = {marked.pid} | belonging(f"{MARK}=other")
        assert marked.pid in belonging(f"{MARK}=one")
        assert end_all(f"{MARK}=other", spared=frozenset(mine)) == set()
        assert marked.poll() is None
    finally:
        marked.kill()
        marked.wait()
