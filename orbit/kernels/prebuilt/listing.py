"""What instructions a cubin holds, as nvdisasm lists them."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orbit.core.proc import run
from orbit.errors import InputError

PACKAGE = "nvidia-cuda-nvdisasm"
"""Of the lock. The builds' environments do not have it, so its wheel is taken by itself."""
TOOL = re.compile(r"nvidia/cu\d+/bin/nvdisasm")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)
"""A line of a listing: address, predicate, operation; its modifiers behind a dot are left out."""
LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/.*$", re.MULTILINE)


def unpack_tool(wheel: Path, folder: Path) -> Path:
    """The program out of its wheel, made executable in ``folder``. Raises :class:`InputError` when it is not in it."""
    with zipfile.ZipFile(wheel) as archive:
        name = next((name for name in archive.namelist() if TOOL.fullmatch(name)), None)
        if name is None:
            raise InputError(f"{wheel.name}: holds no nvdisasm", fix=f"lock a release of {PACKAGE} that has it")
        tool = folder / "nvdisasm"
        tool.write_bytes(archive.read(name))
    tool.chmod(0o755)
    return tool


def disassemble(tool: Path, cubin: Path) -> str:
    """The instructions of ``cubin``, one a line. Raises :class:`orbit.errors.CommandFailed`."""
    shown = run([tool, "-c", cubin], doing=f"disassemble {cubin.name}").stdout.decode(errors="replace")
    return "".join(f"{match[0].strip()}\n" for match in LINE.finditer(shown))


def operations(listing: str) -> Counter[str]:
    """Operations of a listing, without modifiers: ``HGMMA.64x128x16.F32.BF16`` counts as ``HGMMA``."""
    return Counter(INSTRUCTION.findall(listing))


def count(found: Counter[str], expected: Sequence[str]) -> dict[str, int]:
    """The expected operations with their number; 0 for those that are not there."""
    return {name: found[name] for name in expected}
