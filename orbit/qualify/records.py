"""The record of a qualification, as it is written, signed and compared (docs/schemas/qualification.json)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from orbit.core.records import Record, dump_json, load_json
from orbit.errors import InputError
from orbit.qualify.model import Kind
from orbit.qualify.tape import Entry
from orbit.qualify.values import Difference

SCHEMA = "orbit.qualification/1"

type CaseResult = Literal["proven", "not-repeatable", "failed", "skipped"]
type Verdict = Literal["passed", "failed", "unproven"]


class Spread(Record, frozen=True, kw_only=True):
    """Absolute differences of ``count`` log-probs. Percentiles by nearest rank."""

    count: int
    p50: float
    mean: float
    p95: float
    max: float


class Divergence(Record, frozen=True, kw_only=True):
    """Where two greedy continuations of one prompt part."""

    prompt: int
    position: int
    """Of the new token, from 0."""
    left: int
    right: int
    """The tokens."""
    margin: float
    """Distance of the two best log-probs there, the larger one of both sides: 0 is a tie."""


class Deltas(Record, frozen=True, kw_only=True):
    """How far two runs of one batch are apart."""

    prompts: int
    identical: int
    """Prompts with the same new tokens."""
    diverged: tuple[Divergence, ...] = ()
    decode: Spread
    """Log-probs of new tokens, up to the first other token."""
    forward: Spread | None = None
    """Log-probs of given tokens; None where a path has no forward pass."""
    loss: float | None = None
    """Absolute."""
    grad_norm: float | None = None
    """Relative to the left one; None where nothing is trained."""


class FirstDifference(Record, frozen=True, kw_only=True):
    """The first tensor, in order of execution, that is not the same in two runs."""

    order: int
    """Its place, from 0."""
    of: int
    """Tensors of the run."""
    phase: str
    op: str
    name: str
    inputs: tuple[str, ...]
    """What it was made from, by phase and name."""
    unequal_inputs: tuple[str, ...] = ()
    """Those of them that differ: then the cause lies before what is traced."""
    difference: Difference | None = None
    """None where the tensor was too large to be kept, or its shape differs."""


class Repeat(Record, frozen=True, kw_only=True):
    """One more run in a process of its own, against the first."""

    equal: bool
    """Every bit of every tensor."""
    changed: dict[str, str] = {}
    """Phase and name of a tensor that differs -> sha256 of its bytes."""


class Noise(Record, frozen=True, kw_only=True):
    """What repeats of one build differ by: the floor under every comparison."""

    deltas: Deltas
    """Of the repeat that is furthest from the first run."""
    first: FirstDifference


class Agreement(Record, frozen=True, kw_only=True):
    """A kernel's path against the plain one on the same device."""

    deltas: Deltas
    exceeded: tuple[str, ...] = ()
    """Sentences; empty when within the definition's tolerance."""


class CaseRecord(Record, frozen=True, kw_only=True):
    """One path in one type."""

    path: str
    dtype: str
    result: CaseResult
    """``proven``: ran, finite, the same bits in every repeat, and within tolerance of the plain path."""
    reason: str = ""
    """Why it is nothing better."""
    phases: tuple[str, ...] = ()
    seconds: float = 0.0
    """Of the first run."""
    entries: tuple[Entry, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    noise: Noise | None = None
    """None when every repeat has the same bits."""
    agreement: Agreement | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Path and type."""
        return self.path, self.dtype


class DefinitionId(Record, frozen=True, kw_only=True):
    """Which frozen batch it was."""

    name: str
    identity: str
    """sha256 over seed, model, batch and optimizer."""
    batch: str
    """sha256 of prompts, sequences and advantages."""
    weights: str
    """sha256 of the weights."""


class Device(Record, frozen=True, kw_only=True):
    """What computed."""

    kind: Kind
    name: str
    architecture: str
    """``sm_90``, or machine and vector instructions: ``x86_64 AVX2``. Equal ones must give equal bits."""
    capability: str = ""
    """``9.0``; empty for a CPU."""
    driver: str = ""


class Identity(Record, frozen=True, kw_only=True):
    """Environment and device, as the process that computed saw them."""

    device: Device
    versions: dict[str, str]
    """Of what is loaded: ``torch``, ``cuda-runtime``, ``cudnn``, ``cublas``, ``nccl``; of kernels, as installed."""
    environment: str = ""
    """Identity of the environment (its environment.json); empty outside one."""
    variables: dict[str, str] = {}
    """Variables that are set and change numbers."""


class Settings(Record, frozen=True, kw_only=True):
    """What is pinned. Anything but the default is a deliberate change, to look for a cause."""

    deterministic: bool = True
    """``torch.use_deterministic_algorithms`` and a fixed workspace of cuBLAS."""
    tf32: bool = False
    """Products of float32 in TensorFloat-32."""
    reduced_precision: bool = False
    """Sums of bfloat16 products partly in bfloat16."""
    attention: Literal["pinned", "math", "flash", "efficient", "cudnn"] = "pinned"
    """Backend of scaled_dot_product_attention; pinned: flash for bfloat16, efficient for float32, math on a CPU."""
    threads: int = 1
    """Of a CPU."""


class TensorFileId(Record, frozen=True, kw_only=True):
    """The file with the tensors."""

    file: str
    """Its name, beside the record."""
    bytes: int
    sha256: str
    index: dict[str, tuple[int, int]]
    """sha256 of a tensor's bytes -> where they start, how many."""


class Qualification(Record, frozen=True, kw_only=True):
    """A whole record."""

    schema: Literal["orbit.qualification/1"] = "orbit.qualification/1"
    verdict: Verdict
    """``failed``: a case failed. ``unproven``: none did, but a required path is not proven."""
    unproven: tuple[str, ...] = ()
    """Required cases that are not proven, with the reason."""
    recorded: str
    """When it began, ISO 8601, UTC."""
    profile: str = ""
    image: str = ""
    """Manifest digest of the image, ``sha256:...``; empty when the caller gave none."""
    definition: DefinitionId
    identity: Identity
    settings: Settings
    repeats: int
    """Runs of each case, each in a process of its own."""
    counts: dict[CaseResult, int]
    cases: tuple[CaseRecord, ...]
    tensors: TensorFileId


def load_record(path: Path) -> Qualification:
    """Read a record. Raises :class:`InputError` for anything else, a record of another schema included."""
    record = load_json(path, Qualification)
    problem = _inconsistent(record)
    if problem:
        raise InputError(f"{path}: {problem}", fix="the file was edited or cut short: make it anew")
    return record


def save_record(path: Path, record: Qualification) -> None:
    """Write a record, atomically."""
    dump_json(path, record)


def _inconsistent(record: Qualification) -> str:
    """What in a record contradicts the rest; empty when nothing does."""
    keys = [case.key for case in record.cases]
    if len(set(keys)) != len(keys):
        return "a case stands twice"
    for case in record.cases:
        label = f"{case.path} {case.dtype}"
        for place, entry in enumerate(case.entries):
            if any(not 0 <= at < place for at in entry.inputs):
                return f"{label}: {entry.name}: made from something later"
            if entry.kept and entry.sha256 not in record.tensors.index:
                return f"{label}: {entry.name}: its values are in no file"
        if case.result in ("proven", "not-repeatable") and not case.entries:
            return f"{label}: {case.result}, and nothing was computed"
        known = {" ".join(entry.key) for entry in case.entries}
        if any(not known.issuperset(repeat.changed) for repeat in case.repeats):
            return f"{label}: a repeat changed what is not there"
    return ""
