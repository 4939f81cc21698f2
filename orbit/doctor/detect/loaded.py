"""What running processes have loaded twice, from two places, or from files that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from orbit.doctor.detect.seen import Seen, likely
from orbit.doctor.facts import Facts, Loaded

CUDART = re.compile(r"^libcudart(?:-[0-9a-f]+)?\.so\.(\d+)")


def nccl_loaded_twice(facts: Facts) -> Iterator[Seen]:
    """Two files of NCCL in one process."""
    for one in facts.loaded:
        files = [path for path in one.libraries if PurePath(path).name.startswith("libnccl.so")]
        if len(files) > 1:
            yield Seen(f"{_who(one)} has loaded {' and '.join(files)}")


def cudnn_loaded_from_two(facts: Facts) -> Iterator[Seen]:
    """Parts of cuDNN from two folders in one process."""
    for one in facts.loaded:
        folders = sorted({str(p.parent) for path in one.libraries if (p := PurePath(path)).name.startswith("libcudnn")})
        if len(folders) > 1:
            yield Seen(f"{_who(one)} has loaded parts of cuDNN from {' and '.join(folders)}")


def cudarts_loaded(facts: Facts) -> Iterator[Seen]:
    """CUDA runtimes of two major releases in one process."""
    for one in facts.loaded:
        majors = sorted({match[1] for path in one.libraries if (match := CUDART.match(PurePath(path).name))})
        if len(majors) > 1:
            yield likely(f"{_who(one)} has loaded the CUDA runtimes {' and '.join(majors)}")


def stub_without_runtime(facts: Facts) -> Iterator[Seen]:
    """tilelang's stub, and no CUDA runtime behind it."""
    for one in facts.loaded:
        names = [PurePath(path).name for path in one.libraries]
        if "libcudart_stub.so" in names and not any(map(CUDART.match, names)):
            yield likely(f"{_who(one)} has loaded libcudart_stub.so and no CUDA runtime")


def libraries_replaced(facts: Facts) -> Iterator[Seen]:
    """Libraries whose file was removed or replaced since they were loaded."""
    for one in facts.loaded:
        if one.deleted:
            more = f" and {len(one.deleted) - 1} more" if len(one.deleted) > 1 else ""
            yield likely(f"{_who(one)} runs {one.deleted[0]}{more}, which is not on disk any more")


def _who(one: Loaded) -> str:
    return f"process {one.pid} ({one.name})"
