"""The front of nvcc: the enforced command line, fixed temporary names, one line in the log per call.

Each call that compiles or links appends one JSON line to the log: what was requested, what was done, source, seconds,
status. Absolute paths below the build's root become relative ones and nvcc's temporary names lose their process number
(``--keep-dir``): results do not depend on the place they are built in. ``--threads`` is fixed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from .arguments import Call, ShimError, enforce, parse, relocate
from .config import Config
from .log import append, real_tool


def run_nvcc(arguments: Sequence[str], config: Config) -> int:
    """Run the real compiler on the enforced command line; its status is ours."""
    here = os.getcwd()
    environment = dict(os.environ)
    before = shlex.split(environment.pop("NVCC_PREPEND_FLAGS", ""))
    after = shlex.split(environment.pop("NVCC_APPEND_FLAGS", ""))
    root = str(config["root"])
    real = real_tool("nvcc", config, here)
    try:
        call = parse([*before, *arguments, *after])
        effective = enforce(call, config["pairs"], int(config["threads"]))
    except ShimError as error:
        sys.stderr.write(f"orbit nvcc shim: {error}\n")
        append(config, {"error": str(error), "arguments": list(arguments), "status": 2})
        return 2
    if not call.compiles:
        return subprocess.call([real, *effective], env=environment)
    command = [*relocate(effective, root, here), *config["flags"]]
    began = time.monotonic()
    with _keep_folder(call, root) as keep:
        status = subprocess.call([real, *command, *keep], env=environment)
    status = status if status >= 0 else 128 - status
    append(
        config,
        {
            "kind": "compile" if call.sources else "link",
            "sources": [os.path.relpath(os.path.join(here, path), root) for path in call.sources or call.objects],
            "requested": list(call.requested),
            "effective": [argument.partition("=")[2] for argument in effective if argument.startswith("-gencode=")],
            "seconds": round(time.monotonic() - began, 3),
            "status": status,
        },
    )
    return status


@contextlib.contextmanager
def _keep_folder(call: Call, root: str) -> Iterator[list[str]]:
    """nvcc's flags that give its temporary files fixed names, in a folder of this call's own; deleted at the end."""
    if not call.sources or call.single:
        yield []
        return
    identity = (call.output or call.sources[0]).replace(root, "")
    folder = f"nvcc-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    try:
        yield ["--keep", f"--keep-dir={folder}"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
