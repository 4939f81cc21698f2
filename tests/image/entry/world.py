"""A prefix with the entry point, and files of ours in the place of /proc, /sys and /dev: any container there can be."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from orbit.core.paths import checkout_root
from orbit.env.activate import load_contract
from orbit.image.runtime import STATE_SCRIPT, state_script

REAL = re.compile(r"(?<=[ <\"])(/(?:proc/|sys/|dev/(?!null)|etc/passwd))")
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max stack size            8388608              unlimited            bytes
Max open files            65536                1048576              files
Max locked memory         8388608              8388608              bytes
"""
MOUNTS = ["overlay / overlay rw,lowerdir=/x 0 0", "tmpfs /tmp tmpfs rw,exec,size=4194304k 0 0"]
PASSWD = "root:x:0:0:root:/root:/bin/sh\nann:x:1234:1234:Ann:/home/ann:/bin/sh\n"
CONTRACT = {variable.name for variable in load_contract().variables}


@dataclass
class World:
    """A prefix with the entry point, and the files it looks at."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> Path:
        return self.root / "prefix"

    @property
    def state(self) -> Path:
        return self.root / "s"

    def write(self, name: str, text: str) -> None:
        path = self.root / "fake" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def mounts(self, *lines: str) -> None:
        self.write("/proc/mounts", "\n".join([*MOUNTS, *lines]) + "\n")

    def run(self, *command: str, shell: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root), **self.variables, **variables}
        start = [shell] if shell else []
        return subprocess.run(
            [*start, self.prefix / "bin" / "orbit-entrypoint", *command],
            env=env, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def seen(self, **variables: str) -> dict[str, str]:
        """The environment of the command."""
        done = self.run("env", "-0", **variables)
        assert done.returncode == 0, done.stderr
        return dict(pair.split("=", 1) for pair in done.stdout.split("\0") if pair)

    def warned(self, **variables: str) -> str:
        done = self.run("true", **variables)
        assert done.returncode == 0, done.stderr
        return done.stderr


def make_world(made: World) -> World:
    (made.prefix / "bin").mkdir(parents=True)
    (made.prefix / "share" / "orbit").mkdir(parents=True)
    (made.prefix / "cuda" / "bin").mkdir(parents=True)
    (made.prefix / "cuda" / "bin" / "nvcc").touch()

    def placed(text: str) -> str:
        text = REAL.sub(f"{made.root}/fake\\1", text)
        return text.replace("/tmp/orbit-", f"{made.root}/t/orbit-")

    script = made.prefix / "bin" / "orbit-entrypoint"
    script.write_text(placed((checkout_root() / "containers" / "entrypoint.sh").read_text()))
    script.chmod(0o755)
    (made.prefix / STATE_SCRIPT).write_text(placed(state_script().decode()))
    (made.prefix / "share/orbit/environment.json").write_text('{\n  "identity": "0123456789abcdef"\n}\n')
    (made.root / "t").mkdir()
    made.write("/proc/self/status", f"Name:\tsh\nUid:\t{os.getuid()}\t{os.getuid()}\t0\t0\n")
    made.write("/proc/self/limits", LIMITS)
    made.write("/proc/self/cgroup", "0::/\n")
    made.write("/proc/sys/kernel/hostname", "node7\n")
    made.write("/etc/passwd", PASSWD)
    made.mounts()
    return made
