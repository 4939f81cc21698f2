"""Programs that kill themselves at the N-th call of some functions of :mod:`os`, and say how many calls there were."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = """
import os, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
{imports}
point, calls = int(sys.argv[1]), 0
def wrap(real):
    def call(*args, **rest):
        global calls
        calls += 1
        if calls == point:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **rest)
    return call
for name in {names!r}:
    setattr(os, name, wrap(getattr(os, name)))
{call}
print(calls)
"""


def killing(imports: Sequence[str], names: Sequence[str], call: str) -> str:
    """Source of a program: ``imports``, then ``call``, killed at call number ``sys.argv[1]`` of any of ``names``.

    It finds what these tests find.
    """
    path = [str(Path(__file__).parents[2]), *[place for place in sys.path if place]]
    return PROGRAM.format(path=path, imports="\n".join(imports), names=tuple(names), call=call)
