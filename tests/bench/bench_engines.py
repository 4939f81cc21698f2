#!/usr/bin/env python3
"""Time the image by Orbit, by ``docker build`` and by ``buildah`` side by side, from one checkout and the same wheels.

    ORBIT_CACHE=STORE .venv/bin/python tests/bench/bench_engines.py --profile probe --bump packaging==25.0

Four builds per engine: the first (no environment, no layer and no build cache; downloads, wheels and base at hand), one
with nothing changed, one after an edit of a file of ``orbit/``, one after the bump of a dependency. The other engines
build ``containers/Dockerfile`` in the folder that ``orbit image context`` makes, which is timed apart. Then the size,
as each engine reports it (Orbit: bytes to pull; the others: bytes unpacked).

``STORE`` has the kernels and the base of the profile; it is not written to. What is made here goes into a store of its
own in ``--work``, where the entries taken over are hard links (so: the same file system), and is removed at the end.
Docker's first build is one without its cache, and buildah has a storage of its own below ``--work``. The profile
``cu130`` needs 45 GB of room for either.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".uv", "dist", "*_cache", "__pycache__", ".hypothesis")
MADE_AGAIN = {"env", "layer", "layer-tree", "rootfs", "audit", "smoke"}
TAG = "orbit-bench/engines:one"
STEPS = ("first", "no-op", "edit", "bump")


def timed(argv: Sequence[str | Path], **env: str) -> tuple[float, str]:
    """Seconds and standard output of one program that must succeed."""
    began = time.monotonic()
    done = subprocess.run(list(map(str, argv)), env=os.environ | env, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, argv[:4]))} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return seconds, done.stdout


class Bench:
    """A copy of the checkout and a store without the results to be measured."""

    def __init__(self, work: Path, profile: str) -> None:
        self.profile, self.checkout, self.store, self.context = profile, work / "checkout", work / "store", work / "ctx"
        self.layout, self.containers = work / "image", work / "containers"
        shutil.copytree(ROOT, self.checkout, ignore=LEFT_OUT)
        self.lock = (self.checkout / "uv.lock").read_bytes()
        self.edited = self.checkout / "orbit" / "errors.py"
        self.source = self.edited.read_bytes()
        bundle = os.environ.get("SSL_CERT_FILE", "")
        self.secret = ["--secret", f"id=ca,src={bundle}"] if bundle else []

    def fresh(self) -> None:
        """The checkout as it was, and a store with kernels, interpreter and base alone."""
        (self.checkout / "uv.lock").write_bytes(self.lock)
        self.edited.write_bytes(self.source)
        shutil.rmtree(self.store, ignore_errors=True)
        (self.store / "entries").mkdir(parents=True)
        given = Path(os.environ.get("ORBIT_CACHE") or Path.home() / ".cache" / "orbit") / "entries"
        for kind in sorted(given.iterdir()):
            if kind.name not in MADE_AGAIN:
                timed(["cp", "-al", kind, self.store / "entries"])

    def prepare(self, step: str, bump: str) -> None:
        """Change the checkout as the step says."""
        if step == "edit":
            self.edited.write_bytes(self.source + b"# edited\n")
        if step == "bump":
            uv = Path(sys.executable).parent / "uv"
            argv: list[str | Path] = [uv, "lock", "--project", self.checkout, "--python", sys.executable, "-P", bump]
            timed(argv, UV_NO_CONFIG="1", UV_PYTHON_DOWNLOADS="never")

    def image(self, action: str, out: Path) -> float:
        """Seconds of one ``orbit image`` action of the copied checkout."""
        argv: list[str | Path] = [
            sys.executable,
            "-P",
            "-m",
            "orbit",
            "image",
            action,
            "--profile",
            self.profile,
            "--out",
            out,
        ]
        return timed(argv, PYTHONPATH=str(self.checkout), ORBIT_CACHE=str(self.store))[0]


class Orbit:
    """``orbit image build``."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def build(self, step: str) -> tuple[float, float]:
        """(seconds of preparation, seconds of the build)."""
        del step
        return 0.0, self.bench.image("build", self.bench.layout)

    def size(self) -> int:
        """Bytes to pull."""
        manifest = json.loads((self.bench.layout / "index.json").read_text())["manifests"][0]["digest"]
        described = json.loads((self.bench.layout / "blobs" / "sha256" / manifest.split(":")[1]).read_text())
        return sum(layer["size"] for layer in described["layers"])


class Docker:
    """``docker build`` with BuildKit."""

    options: tuple[str, ...] = ()

    def __init__(self, bench: Bench) -> None:
        self.bench, self.client = bench, os.environ.get("ORBIT_DOCKER", "/usr/bin/docker")

    def run(self, *args: str | Path) -> tuple[float, str]:
        """One command of the client."""
        return timed([self.client, *args], DOCKER_BUILDKIT="1")

    def build(self, step: str) -> tuple[float, float]:
        """(seconds of the context, seconds of the build)."""
        prepared = self.bench.image("context", self.bench.context)
        fresh = ["--no-cache"] if step == "first" else []
        options = [*self.options, *fresh, "--network", "host", *self.bench.secret, "--tag", TAG]
        return prepared, self.run("build", *options, self.bench.context)[0]

    def size(self) -> int:
        """Bytes unpacked, which is what docker reports."""
        return int(self.run("image", "inspect", "--format", "{{.Size}}", TAG)[1])


class Buildah(Docker):
    """``buildah build``, with a cache of layers."""

    options = ("--layers", "--isolation", "chroot")

    def run(self, *args: str | Path) -> tuple[float, str]:
        """One command of buildah."""
        place = self.bench.containers
        return timed(["buildah", "--root", place / "root", "--runroot", place / "run", *args])

    def size(self) -> int:
        """Bytes unpacked, to the three digits that buildah prints."""
        number, unit = json.loads(self.run("images", "--json", TAG)[1])[0]["size"].split()
        return int(float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit.upper()])


ENGINES: dict[str, type[Orbit] | type[Docker]] = {"orbit": Orbit, "docker": Docker, "buildah": Buildah}


def remove(work: Path) -> None:
    """The folder with all in it; buildah leaves its root and its containers mounted."""
    below = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in below if mount.startswith(f"{work}/")), reverse=True):
        subprocess.run(["umount", mount], check=False)
    shutil.rmtree(work, ignore_errors=True)


def main() -> int:
    """Run every step with every engine and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="probe")
    parser.add_argument("--bump", required=True, metavar="NAME==VERSION", help="another version of a locked dependency")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the temporary folder is made")
    args = parser.parse_args()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="orbit-bench-", dir=args.work))
    try:
        bench = Bench(work, args.profile)
        print(f"{'engine':8} {'step':6} {'prepare':>8} {'build':>8}")
        for name in args.engines:
            engine = ENGINES[name](bench)
            bench.fresh()
            for step in args.steps:
                bench.prepare(step, args.bump)
                prepared, built = engine.build(step)
                print(f"{name:8} {step:6} {prepared:7.1f}s {built:7.1f}s", flush=True)
            print(f"{name:8} size   {engine.size() / 1e6:.1f} MB", flush=True)
    finally:
        remove(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
