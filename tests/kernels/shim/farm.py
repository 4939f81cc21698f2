"""A build's folder with fake compilers behind the real fronts, for tests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orbit.kernels.fronts import SCRIPT, install_package
from orbit.kernels.shim.config import Config
from orbit.kernels.shim.places import CONFIG_NAME
from orbit.kernels.shim.program import CUDA_TOOLS

PAIRS = [["compute_90a", "sm_90a"], ["compute_100a", "sm_100a"]]
FAKE = """#!{python} -IS
import sys, os
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
with open({calls!r}, "a") as file:
    file.write(" ".join([name, *words]) + "\\n")
if "broken.cu" in " ".join(words):
    sys.exit(7)
for flag in ("-o", "--gen_c_file_name", "--stub_file_name"):
    if flag in words and "-real" in name and not name.startswith("nvcc"):
        given = [open(word).read() for word in words if word.endswith((".ii", ".ptx")) and os.path.exists(word)]
        with open(words[words.index(flag) + 1], "w") as file:
            file.write(name + flag + "".join(given))
print("said", name)
print("warned", name, file=sys.stderr)
"""


def settings(root: Path, **more: Any) -> Config:
    """The settings of a build in ``root`` whose CUDA programs are fakes."""
    config: Config = {
        "bin": str(root / "cuda" / "bin"),
        "root": str(root),
        "pairs": PAIRS,
        "threads": 1,
        "flags": [],
        "log": str(root / "log"),
        "programs": {},
        "prefixes": [[f"{root}/", ""]],
        "recipe": "thing",
        "jobs": "",
        "inflight": 0,
        "units": "",
        "shared": "",
        "identities": {tool: f"{tool} 1" for tool in (*CUDA_TOOLS, "g++")},
    }
    config.update(more)  # type: ignore[typeddict-item]
    return config


def make_farm(root: Path, **more: Any) -> Path:
    """Lay out ``root`` and return it. The fakes write their command lines into ``calls`` beside it."""
    for folder in ("cuda/bin", "cuda/nvvm/bin", "src", "tmp"):
        (root / folder).mkdir(parents=True)
    for tool in CUDA_TOOLS:
        fake = root / ("cuda/nvvm/bin" if tool == "cicc" else "cuda/bin") / f"{tool}-real"
        fake.write_text(FAKE.format(python=sys.executable, calls=str(root.parent / "calls")))
        fake.chmod(0o755)
    install_package(root / "cuda" / "bin")
    configure(root, **more)
    return root


def configure(root: Path, **more: Any) -> None:
    """Write other settings."""
    (root / "cuda" / "bin" / CONFIG_NAME).write_text(json.dumps(settings(root, **more)))


def call(root: Path, tool: str, *arguments: str, cwd: Path | None = None, **env: str) -> Any:
    """Run a front as builds do; the finished process with both streams."""
    command = [sys.executable, "-I", "-S", str(root / "cuda" / "bin" / SCRIPT), tool, *arguments]
    environment = {**os.environ, "TMPDIR": str(root / "tmp"), **env}
    return subprocess.run(command, cwd=cwd or root, env=environment, capture_output=True, check=False)


def calls(root: Path) -> list[str]:
    """Command lines of the real programs so far."""
    path = root.parent / "calls"
    return path.read_text().splitlines() if path.exists() else []


def lines(root: Path, kind: str = "") -> list[dict[str, Any]]:
    """The log."""
    path = root / "log"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in found if not kind or line.get("kind") == kind]


@contextmanager
def job_server(path: Path, answer: bytes = b"go\n") -> Iterator[list[list[dict[str, Any]]]]:
    """A server that answers every question with ``answer``; what each connection said."""
    said: list[list[dict[str, Any]]] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line, line.makefile("rb") as reader:
                first = json.loads(reader.readline())
                said.append([first])
                if answer and not first["cached"]:
                    line.sendall(answer)
                    if rest := reader.readline():
                        said[-1].append(json.loads(rest))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield said
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
