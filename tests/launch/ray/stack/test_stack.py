"""The programs beside Ray: the agent that is none, the lean start (start itself is run by test_cluster)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from orbit.launch.ray.stack import agent, lean


def test_the_agent_writes_what_the_raylet_waits_for_and_ends_with_it(tmp_path: Path) -> None:
    starts = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-I', '-S', {agent.__file__!r}, {str(tmp_path)!r}, 'abc'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    raylet = subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE)
    assert raylet.stdout is not None
    pid = int(raylet.stdout.readline())
    try:
        deadline = time.monotonic() + 20
        wanted = {f"{port}_abc" for port in agent.PORTS}
        while {path.name for path in tmp_path.iterdir()} != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        assert {path.read_text() for path in tmp_path.iterdir()} == {"-1"}
    finally:
        raylet.kill()
        raylet.wait()
        raylet.stdout.close()
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_lean_runs_a_script_with_its_arguments_and_without_the_unwanted(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("here = 'beside'\n")
    (tmp_path / f"{lean.UNWANTED}.py").write_text("raise SystemExit('it was imported')\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, beside\n"
        "try:\n"
        f"    import {lean.UNWANTED}\n"
        "except ImportError:\n"
        "    print(__name__, sys.argv[1:], beside.here)\n"
    )
    done = subprocess.run(
        [sys.executable, lean.__file__, str(script), "--flag", "a b"], check=True, capture_output=True, text=True
    )
    assert done.stdout == "__main__ ['--flag', 'a b'] beside\n"
