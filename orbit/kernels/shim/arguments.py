"""nvcc command lines: taken apart, and put together again with the configured architectures.

Build scripts choose architectures in their own ways and ignore each other's variables, so the choice is taken from
them: every ``-gencode``, ``-arch`` and ``-code`` is removed, whether from the command line, an option file or
NVCC_PREPEND_FLAGS / NVCC_APPEND_FLAGS, and the configured pairs are put in their place, for compiling and for
device linking. Flags as documented by ``nvcc --help`` of CUDA 13.0.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GENCODE = ("-gencode", "--generate-code")
ARCH = ("-arch", "--gpu-architecture")
CODE = ("-code", "--gpu-code")
THREADS = ("-t", "--threads", "-split-compile", "--split-compile")
"""How much runs at once inside one call; ``--split-compile=0`` makes the result depend on the number of cores."""
LTO = ("-dlto", "--dlink-time-opt", "-lto", "--lto", "-ltoir", "--ltoir", "-gen-opt-lto", "--gen-opt-lto")
COMPILE_ONLY = ("-c", "--compile", "-dc", "--device-c", "-dw", "--device-w")
KEEP = ("-keep", "--keep", "-keep-dir", "--keep-dir", "-save-temps", "--save-temps")
DRY = ("-dryrun", "--dryrun", "-clean", "--clean-targets")
WITH_COMPILE = ("-MD", "--generate-dependencies-with-compile", "-MMD", "--generate-nonsystem-dependencies-with-compile")
OPTION_FILE = ("-optf", "--options-file")
SOURCES = (".cu", ".c", ".cc", ".cxx", ".cpp", ".ptx")
OBJECTS = (".o", ".a", ".so", ".obj", ".lib", ".cubin", ".fatbin")
SINGLE_ARCH = ("-ptx", "--ptx", "-cubin", "--cubin", "-E", "--preprocess")
DEPENDENCIES = ("-M", "--generate-dependencies", "-MM", "--generate-nonsystem-dependencies")
WITH_VALUE = """
-o --output-file -I --include-path -isystem --system-include -include --pre-include -D --define-macro
-U --undefine-macro -L --library-path -l --library -x --x -O --optimize -std --std -m --machine -ccbin
--compiler-bindir -cudart --cudart -cudadevrt --cudadevrt -rdc --relocatable-device-code -odir --output-directory
-Xcompiler --compiler-options -Xlinker --linker-options -Xptxas --ptxas-options -Xnvlink --nvlink-options
-Xfatbin --fatbin-options -Xcudafe -Xarchive --archive-options -keep-dir --keep-dir -objtemp -MF --dependency-output
-MT --dependency-target-name -maxrregcount --maxrregcount -default-stream --default-stream -diag-suppress
--diag-suppress -diag-error --diag-error -diag-warn --diag-warn -MQ -dopt --dopt -Ofc --Ofast-compile -time --time
-fdevice-time-trace --fdevice-time-trace -e --entries -ftemplate-depth --ftemplate-depth
"""
"""Flags whose value may be the next argument: it must not be taken for a source."""
TAKES_VALUE = frozenset(WITH_VALUE.split())


class ShimError(Exception):
    """The call cannot be enforced."""


class Call:
    """An nvcc command line, taken apart."""

    __slots__ = ("arguments", "depfile", "flags", "objects", "output", "requested", "single", "sources")

    def __init__(self, arguments: Sequence[str], requested: Sequence[str]) -> None:
        positional, values = _walk(arguments)
        language = values.get("-x") or values.get("--x")
        self.arguments = tuple(arguments)
        """All arguments but those about architectures and threads, option files expanded."""
        self.requested = tuple(requested)
        """``virtual:real`` pairs that were asked for; empty when nothing was."""
        self.flags = frozenset(values)
        """Names of all flags that stayed."""
        self.sources = tuple(path for path in positional if language or path.endswith(SOURCES))
        self.objects = tuple(path for path in positional if path not in self.sources and _is_object(path))
        self.output = values.get("-o") or values.get("--output-file") or ""
        self.single = not self.flags.isdisjoint((*SINGLE_ARCH, *DEPENDENCIES))
        """Asks for a result that can hold one architecture only (PTX text, a cubin, preprocessed text)."""
        self.depfile = ""
        """Dependency file written beside an object; empty when none was asked for."""
        if not self.flags.isdisjoint(WITH_COMPILE):
            self.depfile = values.get("-MF") or values.get("--dependency-output") or os.devnull

    @property
    def compiles(self) -> bool:
        """Whether device code may be compiled or linked; False for queries such as ``--version``."""
        return bool(self.sources or self.objects)

    @property
    def is_dry(self) -> bool:
        """Whether nvcc only says what it would do (cmake reads that), or removes files."""
        return not self.flags.isdisjoint(DRY)

    @property
    def is_text(self) -> bool:
        """Whether the result is for reading: preprocessed text or dependencies."""
        return not self.flags.isdisjoint(("-E", "--preprocess", *DEPENDENCIES))

    @property
    def makes_one_object(self) -> bool:
        """One source in, one object out, and every file that is written is known."""
        one = len(self.sources) == 1 and not self.single and not self.flags.isdisjoint(COMPILE_ONLY)
        return one and bool(self.output) and self.depfile != os.devnull


def parse(arguments: Sequence[str]) -> Call:
    """Take a command line apart. Raises :class:`ShimError` for an option file that cannot be read."""
    kept, settings = _split(arguments)
    pairs = [pair for name, value in settings if name in GENCODE for pair in _gencode(value)]
    archs = [value for name, value in settings if name in ARCH]
    codes = [code for name, value in settings if name in CODE for code in value.split(",")]
    return Call(kept, (*pairs, *_from_arch(archs, codes)))


def enforce(call: Call, pairs: Sequence[Sequence[str]], threads: int) -> list[str]:
    """The arguments to run instead: the call's own plus our architectures.

    Raises :class:`ShimError` for a single-architecture result when several are configured, for link-time optimisation
    of device code (its objects hold code for a later compiler, not machine code), and for a pair whose code
    has a suffix that its PTX lacks: ``compute_90`` compiled to ``sm_90a`` has none of the device's own instructions,
    because the feature macros were never defined.
    """
    check_pairs(pairs)
    if not call.compiles:
        return list(call.arguments)
    if not call.flags.isdisjoint(LTO):
        asked = " ".join(sorted(call.flags.intersection(LTO)))
        raise ShimError(
            f"{' '.join(call.sources or call.objects)}: asks for link-time optimisation ({asked}), "
            "which puts code into objects that a linker compiles later; the profile wants machine code"
        )
    if call.single and len(pairs) > 1:
        if not call.is_text:
            raise ShimError(
                f"{' '.join(call.sources)}: asks for PTX or a cubin, which holds one architecture, "
                f"but {len(pairs)} are configured"
            )
        pairs = pairs[:1]
    gencode = [f"-gencode=arch={virtual},code={real}" for virtual, real in pairs]
    return [*gencode, f"--threads={threads}", *call.arguments]


def check_pairs(pairs: Sequence[Sequence[str]]) -> None:
    """Raise :class:`ShimError` for an empty list or a pair such as ``compute_90`` with ``sm_90a``."""
    if not pairs:
        raise ShimError("no architecture is configured")
    for virtual, real in pairs:
        suffix = real[-1] if real[-1] in "af" else ""
        if suffix and not virtual.endswith(suffix):
            raise ShimError(f"{real} from {virtual} would lack the instructions that make it {real}")


def relocate(arguments: Sequence[str], root: str, here: str) -> list[str]:
    """Replace absolute paths below ``root`` by paths relative to ``here``, also in ``-I/path`` and ``--x=/path``."""
    prefix = root.rstrip("/") + "/"
    changed = []
    for argument in arguments:
        at = argument.find(prefix)
        if at < 0 or "," in argument[:at] or argument.startswith("-D"):
            changed.append(argument)
        else:
            changed.append(argument[:at] + os.path.relpath(argument[at:], here))
    return changed


def _split(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The arguments to keep, and the (flag, value) pairs taken away; option files are read in place."""
    kept: list[str] = []
    settings: list[tuple[str, str]] = []
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        name, joined, value = argument.partition("=")
        if name not in (*GENCODE, *ARCH, *CODE, *THREADS, *OPTION_FILE):
            kept.append(argument)
            if argument in TAKES_VALUE and queue:
                kept.append(queue.pop(0))
            continue
        if not joined:
            if not queue:
                raise ShimError(f"{name} without a value")
            value = queue.pop(0)
        if name in OPTION_FILE:
            queue[:0] = _option_files(value)
        else:
            settings.append((name, value))
    return kept, settings


def _gencode(value: str) -> list[str]:
    """``arch=compute_90,code=[sm_90,compute_90]`` as pairs."""
    virtual, _, codes = value.strip("'\"").partition(",code=")
    virtual = virtual.removeprefix("arch=")
    return [f"{virtual}:{code}" for code in codes.strip("[]\"'").split(",") if code] or [f"{virtual}:{virtual}"]


def _from_arch(archs: Sequence[str], codes: Sequence[str]) -> list[str]:
    """What ``-arch`` (and ``-code``) mean: ``-arch=sm_90`` is code for sm_90 and PTX for compute_90."""
    pairs: list[str] = []
    for arch in archs:
        virtual = arch.replace("sm_", "compute_")
        default = [arch, virtual] if arch.startswith("sm_") else [arch]
        pairs.extend(f"{virtual}:{code}" for code in (codes or default))
    return pairs


def _option_files(value: str) -> list[str]:
    words: list[str] = []
    for name in value.split(","):
        try:
            words.extend(option_words(name))
        except OSError as error:
            raise ShimError(f"option file {name}: {error.strerror}") from None
    return words


def option_words(path: str) -> list[str]:
    """The words of a file with options. Raises :class:`OSError`."""
    import shlex  # noqa: PLC0415 - rare

    with open(path, encoding="utf-8") as file:
        return shlex.split(file.read())


def _walk(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """(what is no flag, flag -> value)."""
    positional: list[str] = []
    values: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, joined, value = word.partition("=")
        if joined or word not in TAKES_VALUE:
            values[name] = value
            if not word.startswith("-"):
                positional.append(word)
        else:
            values[word] = next(words, "")
    return positional, values


def _is_object(path: str) -> bool:
    return path.endswith(OBJECTS) or ".so." in path
