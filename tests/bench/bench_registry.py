#!/usr/bin/env python3
"""An image to a registry on this machine and back, by Orbit and by skopeo, in one run.

    .venv/bin/python tests/bench/bench_registry.py LAYOUT [--folder DIR] [--rounds 1] [--formats]

Needs docker-registry (``docker-registry`` or ``registry`` on PATH); skopeo is left out, and that is said, where it is
not installed. Free disk: twice the layout, with ``--formats`` the unpacked image. The registry gets a fresh, empty
store before every push. Whole processes are timed from outside: clock, processor time (user and system), peak memory;
the registry's own processor time stands beside them. ``--formats`` also writes the export formats, once each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORBIT = [sys.executable, "-m", "orbit", "image"]
SKOPEO = ["skopeo", "--insecure-policy", "copy", "--quiet"]
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """One measured process."""

    what: str
    wall_s: float
    cpu_s: float
    peak_mb: float
    registry_cpu_s: float

    def __str__(self) -> str:
        own = f"{self.wall_s:8.1f} {self.cpu_s:8.1f} {self.peak_mb:8.0f}"
        return f"{self.what:24} {own} {self.registry_cpu_s:10.1f}"


class RegistryServer:
    """docker's registry in a folder, over and over empty."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("docker-registry") or shutil.which("registry")
        if program is None:
            raise SystemExit("docker-registry is not installed")
        self.program, self.folder, self.process = program, folder, None
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"

    def empty(self) -> None:
        """Start it with nothing in it."""
        self.stop()
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        config = self.folder / "config.yml"
        config.write_text(
            f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{self.host}', secret: bench}}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.folder / 'data'}}}}}\n"
        )
        self.process = subprocess.Popen(
            [self.program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise SystemExit("docker-registry does not start")

    def cpu_s(self) -> float:
        """Processor time it has used."""
        if self.process is None:
            return 0.0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def measure(what: str, argv: Sequence[str], server: RegistryServer) -> Row:
    """Run a program and print its row."""
    before, began = server.cpu_s(), time.monotonic()
    child = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert child.stderr is not None
    said = child.stderr.read()
    _pid, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{what}: status {child.returncode}\n{said.decode(errors='replace')[-2000:]}")
    wall = time.monotonic() - began
    row = Row(what, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, server.cpu_s() - before)
    print(row, flush=True)
    return row


def one_round(layout: Path, folder: Path, server: RegistryServer) -> None:
    """Push and pull by both, the registry emptied before each push, the copies removed after each pull."""
    back = folder / "back"

    def pull(what: str, argv: list[str]) -> None:
        measure(what, argv, server)
        shutil.rmtree(back)

    server.empty()
    name = f"{server.host}/bench/image:1"
    push = [*ORBIT, "push", str(layout), name]
    measure("orbit push", push, server)
    measure("orbit push, again", push, server)
    pull("orbit pull", [*ORBIT, "pull", name, "--out", str(back)])
    if shutil.which("skopeo") is None:
        print("skopeo is not installed: left out")
        return
    pull("skopeo pull", [*SKOPEO, "--src-tls-verify=false", f"docker://{name}", f"oci:{back}"])
    server.empty()
    copy = [*SKOPEO, "--dest-tls-verify=false", f"oci:{layout}", f"docker://{name}"]
    measure("skopeo push", copy, server)
    measure("skopeo push, again", copy, server)


def formats(layout: Path, folder: Path, server: RegistryServer) -> None:
    """Each export format once."""
    for form in ("oci-archive", "docker-archive", "squashfs"):
        if form == "squashfs" and shutil.which("mksquashfs") is None:
            print("mksquashfs is not installed: left out")
            continue
        out = folder / f"image.{form}"
        row = measure(f"export {form}", [*ORBIT, "export", str(layout), "--format", form, "--out", str(out)], server)
        print(f"{'':24} {out.stat().st_size / 1e9:8.2f} GB, {out.stat().st_size / 1e6 / row.wall_s:.0f} MB/s")
        out.unlink()


def main() -> int:
    """Run the rounds and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layout", type=Path)
    parser.add_argument(
        "--folder", type=Path, help="where registry and copies go (default: the system's temporary folder)"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--formats", action="store_true", help="also the export formats")
    args = parser.parse_args()
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    size = sum(path.stat().st_size for path in (args.layout / "blobs" / "sha256").iterdir())
    print(f"{args.layout}: {size / 1e9:.2f} GB, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"{'':24} {'clock s':>8} {'cpu s':>8} {'peak MB':>8} {'registry s':>10}")
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="bench-registry-") as place:
        folder = Path(place)
        os.environ["ORBIT_CACHE"] = str(folder / "cache")
        server = RegistryServer(folder)
        try:
            for _ in range(args.rounds):
                one_round(args.layout.absolute(), folder, server)
            server.stop()
            shutil.rmtree(folder / "data", ignore_errors=True)
            if args.formats:
                formats(args.layout.absolute(), folder, server)
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
