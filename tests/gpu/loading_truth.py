"""The audit's verdicts against a real GPU. Needs a GPU, its driver, nvcc, a host compiler and Orbit's upper floor.

    python -m tests.gpu.loading_truth [--only TEXT]... [--json FILE] [--jobs N] [--keep FOLDER]

Compiles every library of :mod:`tests.gpu.truth_cases`, asks the audit's readers what the device of this machine would
load of it, and runs each kernel in processes of its own: as usual, with compiling of PTX forbidden
(``CUDA_DISABLE_PTX_JIT``), with machine code ignored (``CUDA_FORCE_PTX_JIT``), and with everything loaded at start
(``CUDA_MODULE_LOADING=EAGER``). Exit status: 0 every row agrees, 1 one does not, 3 something could not be checked.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orbit.audit.binary.coverage import RELOCATABLE, container_archs, results_of
from orbit.audit.binary.cubin import Kernel, read_cubin, read_ptx
from orbit.audit.binary.elf import open_elf
from orbit.audit.binary.fatbin import Container, Image
from orbit.audit.binary.payload import unpack
from orbit.audit.deep.depth import best_image, read_depth
from orbit.audit.facts import SharedObject
from orbit.audit.files.objects import object_of
from orbit.audit.known.device import own_capability
from orbit.audit.rules.coverage import arch_coverage
from orbit.audit.rules.depth import arch_guard
from orbit.audit.targets import profile_for
from orbit.core.console import Silent
from orbit.kernels.capabilities import parse_arch
from orbit.profile.model import GpuTarget, load_profile
from tests.gpu.truth_cases import BODY_NAMES, CASES, Case

MODES = {
    "usual": {},
    "no jit": {"CUDA_DISABLE_PTX_JIT": "1"},
    "only jit": {"CUDA_FORCE_PTX_JIT": "1"},
    "eager": {"CUDA_MODULE_LOADING": "EAGER"},
}
ROOT = Path(__file__).resolve().parents[2]
ATTRIBUTES = (75, 76)
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""


NO_IMAGE = (98, 200, 209, 218, 222, 223, 500)
"""The runtime's errors for code that cannot be loaded: no such function, no image for this device, PTX that is refused
or may not be compiled; a symbol that is in no module, which is how relocatable code says it."""
TRAPPED = (710, 719)
"""Assertion, and an exception of the device."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the device did with one kernel."""

    value: int
    """The mark it wrote, or 0."""
    error: int
    """Of the CUDA runtime; -1 when the process ended without an answer."""

    @property
    def outcome(self) -> str:
        """``no image``, ``idle`` (ran and wrote nothing), ``error N``, or ``wrote N``."""
        if self.error in NO_IMAGE:
            return "no image"
        if self.error and self.error not in TRAPPED:
            return f"error {self.error}"
        return f"wrote {self.value}" if self.value else "idle"


@dataclass(slots=True)
class Row:
    """One kernel of one library."""

    case: str
    kernel: str
    images: str
    """Of the containers that hold it."""
    verdict: str
    """The audit's: ``sass``, ``ptx-jit``, ``none``; with a stub's kind after a colon."""
    guarded: bool
    """The audit says (rule arch-guard) that the kernel was compiled without what it is for."""
    expected: dict[str, str]
    """Outcome by mode; ``wrote`` for any mark."""
    seen: dict[str, Seen] = field(default_factory=dict)

    def differences(self) -> Iterator[str]:
        """Where the device did something else."""
        for mode, outcome in self.expected.items():
            if not f"{self.seen[mode].outcome} ".startswith(f"{outcome} "):
                yield f"{mode}: expected {outcome}"
        if own_capability(self.kernel) and self.guarded == bool(self.seen["usual"].value):
            yield f"arch-guard says {'' if self.guarded else 'not '}guarded"


@dataclass(frozen=True, slots=True)
class Whole:
    """One library."""

    case: str
    gaps: str
    """What rule arch-coverage counts: containers by result; empty when it says nothing."""
    rows: tuple[Row, ...]

    def differences(self) -> Iterator[str]:
        """Whether the rule speaks exactly when a kernel has no machine code for the device."""
        lacking = [row.kernel for row in self.rows if "no jit" in row.seen and row.seen["no jit"].outcome == "no image"]
        if bool(lacking) != bool(self.gaps):
            yield f"arch-coverage says {self.gaps or 'nothing'}, without machine code: {', '.join(lacking) or 'none'}"


def capability() -> str:
    """``9.0`` of device 0. Raises OSError or RuntimeError when there is no driver or no device."""
    driver = ctypes.CDLL("libcuda.so.1")
    if error := driver.cuInit(0):
        raise RuntimeError(f"cuInit: error {error}")
    found = []
    for attribute in ATTRIBUTES:
        value = ctypes.c_int()
        if error := driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0):
            raise RuntimeError(f"cuDeviceGetAttribute: error {error}")
        found.append(str(value.value))
    return ".".join(found)


def gencode(archs: tuple[str, ...]) -> list[str]:
    """nvcc's options for a list of architectures."""
    pairs = ((f"compute_{arch.partition('_')[2]}", arch) for arch in archs)
    return [f"-gencode=arch={virtual},code={real}" for virtual, real in pairs]


def build(case: Case, folder: Path, nvcc: str) -> Path | str:
    """The library of a case, or why nvcc did not make it."""
    folder.mkdir(parents=True)
    objects = []
    options = [*case.options, "-Xcompiler=-fPIC"]
    compiling = [
        "-dc" if "-rdc=true" in case.options else "-c",
        *(o for o in options if o not in ("-rdc=true", "-dlto")),
    ]
    for number, unit in enumerate(case.units):
        source, target = folder / f"unit{number}.cu", folder / f"unit{number}.o"
        source.write_text(unit.source)
        if problem := _run([nvcc, *compiling, *gencode(unit.archs), source, "-o", target]):
            return problem
        objects.append(target)
    link = ["-nodlink"] if case.link is None else [*options, *gencode(case.link)]
    library = folder / "library.so"
    return _run([nvcc, "-shared", *link, *objects, "-o", library]) or library


def _run(argv: list[str | Path]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return f"{Path(argv[0]).name}: {(done.stderr or done.stdout).strip()}"[-400:] if done.returncode else ""


def kernels_of(data: bytes, image: Image) -> dict[str, Kernel]:
    """What the audit reads in an image, by name."""
    if image.kind == "ir":
        return {}  # input of the device linker
    content = unpack(
        data[image.offset : image.offset + image.size], image.compression, image.uncompressed_size, "image"
    )
    code = read_cubin(content, "image") if image.kind == "elf" else read_ptx(content)
    return {kernel.name: kernel for kernel in code.kernels}


def mark(arch: str) -> int:
    """What a kernel compiled for ``arch`` writes."""
    parsed = parse_arch(arch)
    return (parsed.major * 100 + parsed.minor * 10) * 10 + {"": 0, "f": 1, "a": 2}[parsed.suffix]


def rows_of(case: Case, library: Path, device: str) -> Iterator[Row]:
    """What the audit says of each kernel."""
    data = library.read_bytes()
    boxes = object_at(library).containers
    contents = {image.offset: kernels_of(data, image) for box in boxes for image in box.images}
    target = target_of(device)
    (depth,) = read_depth(library.parent, [object_at(library)], [target], Silent(), workers=1).files
    guarded = {
        name
        for box in depth.containers
        for name, kernel in (box.loaded[target.name].kernels if target.name in box.loaded else {}).items()
        if arch_guard.is_guarded(box, kernel, target)
    }
    results = results_of(boxes, device)
    for unit in case.units:
        for name, _body in unit.bodies:
            mine = [at for at, box in enumerate(boxes) if any(name in contents[image.offset] for image in box.images)]
            row = _row(case, name, _joined([boxes[at] for at in mine]), device, contents)
            # relocatable code: the part, not the image that parts were linked to
            parts = sorted(mine, key=lambda at: boxes[at].section != RELOCATABLE)
            verdict = results[parts[0]] if parts else "none"
            row.verdict, row.guarded = f"{verdict}{row.verdict}", name in guarded
            if case.relocatable and verdict == "ptx-jit":
                row.expected["no jit"] = "no image"
            if case.name in BODY_NAMES:
                row.expected = {"usual": row.expected["usual"]}
            yield row


def target_of(device: str) -> GpuTarget:
    """A target for the device, as ``orbit audit --gpu`` makes it."""
    return profile_for(load_profile("probe"), (device,)).targets[0]


def object_at(library: Path) -> SharedObject:
    """The audit's facts of a library."""
    with open_elf(library) as elf:
        return object_of(elf, library.name)


def whole(case: Case, library: Path, device: str, rows: tuple[Row, ...]) -> Whole:
    """What rule arch-coverage says of a library."""
    gaps = arch_coverage.gaps_of(object_at(library), target_of(device), dispatching=False)
    return Whole(case.name, " ".join(f"{result}:{len(places)}" for result, places in gaps.items()), rows)


def _joined(boxes: list[Container]) -> Container:
    """Relocatable code stands in two containers, linked and not: the driver may take either."""
    images = tuple(image for box in boxes for image in box.images)
    return Container(boxes[0].section if boxes else "", 0, 0, images)


def _row(case: Case, name: str, box: Container, device: str, contents: dict[int, dict[str, Kernel]]) -> Row:
    archs = container_archs(box)
    stub, expected = "", {}
    for mode, kinds in (("usual", ("elf", "ptx")), ("no jit", ("elf",)), ("only jit", ("ptx",))):
        image = best_image(Container("", 0, 0, tuple(image for image in box.images if image.kind in kinds)), device)
        kernel = contents[image.offset].get(name) if image else None
        # what the device linker made of PTX or of intermediate code bears the mark of that
        wrote = "wrote" if case.relocatable else f"wrote {mark(image.arch)}" if image else ""
        expected[mode] = "no image" if not image or not kernel else "idle" if kernel.stub else wrote
        if mode == "usual" and kernel and kernel.stub:
            stub = f": {kernel.stub}"
    return Row(case.name, name, " ".join(sorted(archs)), stub, False, expected | {"eager": expected["usual"]})


def probe(library: str, kernel: str) -> int:
    """In a process of its own: run one kernel, print what it wrote and the runtime's error."""
    value = ctypes.c_int()
    error = getattr(ctypes.CDLL(library), f"run_{kernel}")(ctypes.byref(value))
    print(json.dumps({"value": value.value, "error": error}))
    return 0


def ask(library: Path, kernel: str, mode: str) -> Seen:
    """What the device does."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.loading_truth", "--probe", library, kernel],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CUDA_CACHE_DISABLE": "1", **MODES[mode]},
        check=False,
        timeout=300,
    )
    try:
        return Seen(**json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError):
        return Seen(0, -1)


def show(rows: list[Row], libraries: list[Whole]) -> None:
    """The tables: kernels with what was seen in each mode, then libraries."""
    print(f"{'library':56} {'kernel':18} {'audit':14} {' '.join(f'{mode:>10}' for mode in MODES)}  agrees")
    for row in rows:
        cells = " ".join(f"{row.seen[mode].outcome if mode in row.seen else '-':>10}" for mode in MODES)
        verdict = row.verdict + (", guarded" if row.guarded else "")
        print(f"{row.case:56} {row.kernel:18} {verdict:14} {cells}  {'; '.join(row.differences()) or 'yes'}")
    for item in libraries:
        print(f"{item.case:56} arch-coverage: {item.gaps or 'covered':14} {'; '.join(item.differences()) or 'yes'}")


def check(args: argparse.Namespace, folder: Path, nvcc: str, device: str) -> int:
    """Build, ask, compare."""
    cases = [case for case in CASES if any(text in case.name for text in args.only or [""])]
    not_built: list[str] = []
    rows: list[Row] = []
    wholes: list[Whole] = []
    libraries: dict[str, Path] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        built = list(pool.map(lambda item: build(item[1], folder / f"{item[0]:03d}", nvcc), enumerate(cases)))
        for case, library in zip(cases, built, strict=True):
            if isinstance(library, str):
                not_built.append(f"{case.name}: {library}")
                continue
            libraries[case.name] = library
            mine = tuple(rows_of(case, library, device))
            rows += mine
            if case.name not in BODY_NAMES:
                wholes.append(whole(case, library, device, mine))
        asked = [(row, mode) for row in rows for mode in row.expected]
        answers = pool.map(lambda pair: ask(libraries[pair[0].case], pair[0].kernel, pair[1]), asked)
        for (row, mode), answer in zip(asked, answers, strict=True):
            row.seen[mode] = answer
    show(rows, wholes)
    wrong = sum(any(item.differences()) for item in rows) + sum(any(item.differences()) for item in wholes)
    for text in not_built:
        print(f"not built: {text}")
    print(f"capability {device}: {len(libraries)} libraries, {len(rows)} kernels, {len(asked)} runs; "
          f"{wrong} differ, {len(not_built)} not built")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps({"capability": device, "not_built": not_built, "rows": [
            {**asdict(row), "differences": list(row.differences())} for row in rows]}, indent=1))  # fmt: skip
    return 1 if wrong else 3 if not_built or not rows else 0


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="cases whose name has this text; repeatable")
    parser.add_argument("--json", type=Path, help="also write all of it there")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, help="build there (a new folder) and keep the libraries")
    parser.add_argument("--probe", nargs=2, metavar=("LIBRARY", "KERNEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.probe:
        return probe(*args.probe)
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("loading_truth: nvcc is not on PATH", file=sys.stderr)
        return 3
    try:
        device = capability()
    except (OSError, RuntimeError) as error:
        print(f"loading_truth: no GPU: {error}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as scratch:
        return check(args, args.keep or Path(scratch), nvcc, device)


if __name__ == "__main__":
    sys.exit(main())
