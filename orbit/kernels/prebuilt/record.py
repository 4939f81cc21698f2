"""What was verified of a wheel that somebody else built; part of the build manifest."""

from __future__ import annotations

from orbit.core.findings import Finding, Skipped
from orbit.core.records import Record


class Loaded(Record, frozen=True, kw_only=True):
    """What one GPU would load of one file."""

    file: str
    target: str
    kernels: int
    stubs: int
    """Kernels that do nothing there."""
    code_bytes: int


class Verified(Record, frozen=True, kw_only=True):
    """What a published wheel was held against. Holds no path, time or name of the machine."""

    targets: tuple[str, ...]
    """GPUs of the profile, ``h100 9.0``."""
    rules: tuple[str, ...]
    """Rules of the audit that judged it."""
    declared: tuple[str, ...]
    """Gaps that upstream has by design, with the reason: what ``kernels/expectations`` says about its files."""
    loaded: tuple[Loaded, ...]
    """Of every file with device code, for every target."""
    image_bytes: dict[str, int]
    """Device code of all files as it lies in them (mostly compressed), by architecture, PTX under ``compute_``."""
    symbols: dict[str, int]
    """Symbols without a version that it wants and that are there, by who defines them: ``{"torch 2.11.0": 321}``."""
    modules: tuple[str, ...]
    """Extension modules that the profile's Python can import, dotted names."""
    notes: tuple[Finding, ...]
    """Findings that do not make it unusable: warnings, notes, and what is waived."""
    skipped: tuple[Skipped, ...]
    """What was not judged, and why."""


class Probed(Record, frozen=True, kw_only=True):
    """One kernel that was compiled the way its package does it at run time."""

    name: str
    target: str
    """GPU of the profile, ``h100``."""
    arch: str
    """What it was compiled for, ``sm_90a``."""
    source_sha256: str
    """Of the translation unit."""
    kernels: tuple[str, ...]
    """Mangled names."""
    code_bytes: int
    """Machine code of all kernels."""
    listing_sha256: str
    """Of the disassembled instructions: the file around them holds a process number of the compiler."""
    instructions: dict[str, int]
    """How often each expected instruction is in the machine code."""


class JitProof(Record, frozen=True, kw_only=True):
    """What was proved of a package that compiles at run time."""

    compiler: str
    """Version line of the CUDA compiler."""
    host_compiler: str
    flags: tuple[str, ...]
    """As the package gives them; the folder of its headers is written ``{include}``, the architecture ``{arch}``."""
    headers: int
    """Number of header files in the wheel."""
    headers_sha256: str
    """Identity of their tree."""
    cache_variable: str
    keyed: str
    """What the name of a cache entry depends on."""
    unkeyed: str
    """What it does not depend on though the result does."""
    probes: tuple[Probed, ...]
