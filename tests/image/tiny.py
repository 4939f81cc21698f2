"""A tiny runnable image and what the smoke tests share about it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orbit.image.smoke.devices import Devices
from orbit.image.smoke.engine import CONDITIONS, Choice, Engine, find_bubblewrap, find_unshare
from orbit.smoke.model import Check, CheckResult, Conditions, SmokeList
from tests.writers.tiny_image import file, folder, host_programs, symlink, write_image

PLAN = SmokeList(
    name="tiny",
    checks=(Check(name="one", kind="import", timeout_s=20), Check(name="two", kind="import", timeout_s=20)),
    uids=(0, 65534),
)
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
ENTRYPOINT = b"""#!/bin/sh
export SEEN_ENTRYPOINT=yes
exec "$@"
"""
ANSWERING = b"""#!/bin/sh
cat > /tmp/order
echo "a line that is no result"
for name in one two; do
    printf '{"check": "%s", "kind": "import", "result": "passed", "seconds": 1, "detail": "uid %s"}\\n' $name $(id -u)
done
"""
CRASHING = b"""#!/bin/sh
printf '{"check": "one", "kind": "import", "result": "passed", "seconds": 0.1}\\n'
echo "then the interpreter fell over"
exit 7
"""


def result(name: str, kind: str = "passed", detail: str = "", tail: str = "") -> CheckResult:
    return CheckResult(check=name, kind="import", result=kind, seconds=0.5, detail=detail, tail=tail)


def tiny(tmp_path: Path, interpreter: bytes = ANSWERING, secret_mode: int = 0o600, *, loader: bool = False) -> Path:
    """An image with a shell, a few programs, one file only root may read, and ``interpreter`` as its Python."""
    base = [
        *(folder(name) for name in ("etc", "proc", "dev", "run", "root")),
        folder("tmp", 0o1777),
        symlink("bin", "usr/bin"),
        *host_programs("sh", "cat", "id", "env", "ls", "setpriv", "touch", "true"),
        file("etc/passwd", PASSWD),
        file("etc/root-only", b"secret", secret_mode),
    ]
    if loader:
        base += [
            symlink("sbin", "usr/bin"),
            file("usr/bin/ldconfig", Path("/sbin/ldconfig").resolve().read_bytes(), 0o755),
            file("etc/ld.so.cache"),
            file("etc/ld.so.conf"),
        ]
    top = [
        file("opt/orbit/bin/python3.12", interpreter, 0o755),
        file("opt/orbit/bin/orbit-entrypoint", ENTRYPOINT, 0o755),
    ]
    config = {"Entrypoint": ["/opt/orbit/bin/orbit-entrypoint"], "Env": ["OWN=image"], "WorkingDir": "/opt"}
    return write_image(tmp_path / "tiny", [base, top], config=config)


def inside(
    engine: Engine, uid: int, script: str, conditions: Conditions = CONDITIONS
) -> subprocess.CompletedProcess[str]:
    argv = engine.argv(uid, ["/bin/sh", "-c", script], Devices(), conditions)
    env = os.environ | {"SECRET_OF_THE_HOST": "leaked"}
    return subprocess.run(argv, input="given", capture_output=True, text=True, env=env, check=False, timeout=60)


def working(name: str) -> Choice:
    """The engine of that name; skips the test with the reason when it cannot start anything here."""
    found = {"bubblewrap": find_bubblewrap, "unshare": find_unshare}[name]()
    if isinstance(found, str):
        pytest.skip(found)
    return found
