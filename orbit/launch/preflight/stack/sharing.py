"""Memory of one process, really opened by another one: read, compared, written to; the first one sees it.

GPU memory goes by CUDA IPC, main memory (``cpu``) by /dev/shm, both as torch hands tensors to other processes.
:func:`main` is the second process.
"""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing

from orbit.core.proc import own_python, run

MODULE = "orbit.launch.preflight.stack.sharing"
WORDS = 1 << 20
MARK = -7
LIMIT_S = 60.0


def try_sharing(device: Any, pattern: Any) -> dict[str, Any]:
    """Hand ``pattern`` (a tensor of whole numbers on ``device``) to another process. Raises :class:`RuntimeError`."""
    if device.type == "cpu":
        torch.multiprocessing.set_sharing_strategy("file_system")
    said = bytes(ForkingPickler.dumps(pattern))
    done = run(
        own_python(MODULE),
        doing="opening memory of another process",
        env=dict(os.environ),
        stdin=said,
        timeout_s=LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(" ".join(tail) or f"the second process ended with status {done.returncode}")
    total = int(done.stdout)
    wanted = WORDS * (WORDS - 1) // 2
    if total != wanted:
        raise RuntimeError(f"the second process read a sum of {total} instead of {wanted}")
    if int(pattern[0]) != MARK:
        raise RuntimeError("what the second process wrote is not seen by the first one: it was given a copy")
    return {"bytes": 8 * WORDS}


def main() -> None:
    """Open what comes on stdin, say its sum, leave a mark in it."""
    data = sys.stdin.buffer.read()
    if torch.cuda.is_available():
        torch.cuda.init()
    else:
        torch.multiprocessing.set_sharing_strategy("file_system")
    opened = pickle.loads(data)  # noqa: S301 - from the process that started this one
    sys.stdout.write(str(int(opened.sum())))
    opened[0] = MARK
    if opened.is_cuda:
        torch.cuda.synchronize(opened.device)
    del opened
