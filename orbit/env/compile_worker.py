"""Compile files, each folder in a process of its own. Run by the interpreter of an environment, not imported by Orbit.

``marshal`` marks an object as shared when it has more than one reference, and equal constants are merged or not by
whether their strings are interned already: what a process compiled before shows in the bytes (seen with CPython
3.12.1: the second compilation of one file differs from the first). So every folder is compiled in a child forked
from the same young process, its files in order: a pyc depends on its folder, its place and the interpreter alone.
A process for each *file* gives the same guarantee for twice the time, most of it page faults.

stdin: lines ``file NUL name-in-the-code``, sorted. stdout: a line ``file NUL error`` for each file that does not
compile. Exit status 75: a file could not be read or written (the reason is on stderr).
"""

from __future__ import annotations

import _imp
import itertools
import marshal
import os
import sys
from importlib._bootstrap_external import MAGIC_NUMBER

FLAGS_UNCHECKED_HASH = (0b01).to_bytes(4, "little")
"""PEP 552: bit 0 hash-based; bit 1, check the source at import, is not set (the files of an image do not change)."""
RAW_MAGIC = int.from_bytes(MAGIC_NUMBER, "little")
CANNOT = 75
"""Exit status for trouble with the file system (EX_TEMPFAIL)."""


def compile_file(path: str, name: str) -> None:
    """Write ``__pycache__/<stem>.cpython-312.pyc`` beside ``path``; ``name`` is the file name in the code object."""
    with open(path, "rb") as file:
        source = file.read()
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    folder, _, base = path.rpartition("/")
    header = MAGIC_NUMBER + FLAGS_UNCHECKED_HASH + _imp.source_hash(RAW_MAGIC, source)
    compiled = f"{folder}/__pycache__/{base[:-3]}.{sys.implementation.cache_tag}.pyc"
    with open(f"{compiled}.new", "wb") as file:
        file.write(header + marshal.dumps(code))
    # in one step: another worker may be starting from this very standard library
    os.replace(f"{compiled}.new", compiled)


def compile_folder(folder: str, pairs: list[tuple[str, str]]) -> int:
    """Compile the files of one folder; return the exit status of this process."""
    try:
        if not os.path.isdir(f"{folder}/__pycache__"):
            os.mkdir(f"{folder}/__pycache__")
        for path, name in pairs:
            try:
                compile_file(path, name)
            except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
                message = f"{path}\0{type(error).__name__}: {error}".replace("\n", " ")[:2000]
                os.write(1, f"{message}\n".encode(errors="replace"))
    except OSError as error:
        os.write(2, f"{folder}: {error.strerror}\n".encode())
        return CANNOT
    return 0


def main() -> int:
    """Fork once for each folder named on stdin."""
    lines = [line.partition("\0") for line in sys.stdin.read().splitlines()]
    pairs = [(path, name) for path, _, name in lines]
    for folder, members in itertools.groupby(pairs, key=lambda pair: pair[0].rpartition("/")[0]):
        child = os.fork()
        if child == 0:
            os._exit(compile_folder(folder, list(members)))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == CANNOT:
            return CANNOT
        if status != 0:
            os.write(2, f"{folder}: the compiler ended with status {status}\n".encode())
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
