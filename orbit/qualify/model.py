"""The definition of a qualification: model, batch, optimizer, required paths and tolerances, as data in ci/qualify."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from orbit.core.paths import data_file
from orbit.core.records import Record, content_key, load_toml
from orbit.errors import InputError

FORMAT = 1
"""Of the model and the way its numbers are made; raised with any change of either, so that old records do not match."""

type Kind = Literal["cpu", "cuda"]
type Between = Literal["architectures", "paths"]
DTYPES = ("float32", "bfloat16")
FOLDER = ("ci", "qualify")


class ModelShape(Record, frozen=True, kw_only=True):
    """A causal language model; each layer: causal convolution, attention, gated MLP, each behind an RMSNorm."""

    vocab: int
    """A power of two, so that random bits are random tokens."""
    width: int
    layers: int
    heads: int
    kv_heads: int
    """Heads of keys and values; each serves ``heads / kv_heads`` heads."""
    hidden: int
    """Width of the MLP."""
    positions: int
    """Longest sequence."""
    taps: int
    """Of the causal convolution."""


class BatchShape(Record, frozen=True, kw_only=True):
    """How much is generated, and the batch of the training step."""

    prompts: int
    prompt_tokens: int
    new_tokens: int
    sequences: int
    sequence_tokens: int


class Optimizer(Record, frozen=True, kw_only=True):
    """AdamW (Loshchilov and Hutter, Decoupled Weight Decay Regularization), on float32 weights."""

    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float


class Tolerance(Record, frozen=True, kw_only=True):
    """How far two results may be apart where equal bits cannot be asked for."""

    between: Between
    """``architectures``: one path on two kinds of device. ``paths``: a kernel's path and the plain one on a device."""
    dtype: str
    p50: float
    """Of |difference| of log-probs, natural logarithm; likewise the next three."""
    mean: float
    p95: float
    max: float
    grad_norm: float
    """Relative difference of the gradient's norm."""
    tie: float
    """A prompt may go on with another token only where the two best tokens are no further apart than this, in both."""
    reason: str


class Definition(Record, frozen=True, kw_only=True):
    """One file of ``ci/qualify``."""

    schema: int
    name: str
    description: str
    seed: int
    dtypes: tuple[str, ...]
    keep_bytes: int
    """Tensors of at most this many bytes are kept beside the record, so that differences can be measured."""
    required: dict[Kind, tuple[str, ...]]
    """Kind of device -> paths without which a record is not passed."""
    model: ModelShape
    batch: BatchShape
    optimizer: Optimizer
    tolerances: tuple[Tolerance, ...]

    @property
    def identity(self) -> str:
        """sha256 over all that decides the numbers; not over what is demanded of them."""
        return content_key(
            {
                "format": FORMAT,
                "seed": self.seed,
                "dtypes": self.dtypes,
                "model": self.model,
                "batch": self.batch,
                "optimizer": self.optimizer,
            }
        )

    def tolerance(self, between: Between, dtype: str) -> Tolerance:
        """The one that applies."""
        return next(item for item in self.tolerances if item.between == between and item.dtype == dtype)


def load_definition(name: str) -> Definition:
    """Read ``ci/qualify/NAME.toml``, or the file ``name`` when it ends in ``.toml``. Raises :class:`InputError`."""
    path = Path(name) if name.endswith(".toml") else data_file(*FOLDER, f"{name}.toml")
    if not path.is_file():
        known = ", ".join(sorted(item.stem for item in data_file(*FOLDER).glob("*.toml")))
        raise InputError(f"no qualification named {name!r}", fix=f"known: {known}; or name a .toml file")
    definition = load_toml(path, Definition)
    for problem, fix in _problems(definition):
        raise InputError(f"{path}: {problem}", fix=fix)
    return definition


def _problems(definition: Definition) -> Iterator[tuple[str, str]]:
    """What is wrong with a definition, and what to do."""
    model, batch = definition.model, definition.batch
    if definition.schema != 1:
        yield f"schema = {definition.schema}", "this version of orbit reads schema 1"
    if not definition.dtypes or not set(definition.dtypes) <= set(DTYPES):
        yield f"dtypes = {list(definition.dtypes)}", f"known: {', '.join(DTYPES)}"
    if model.vocab < 2 or model.vocab & (model.vocab - 1):
        yield f"model.vocab = {model.vocab}", "write a power of two"
    if min(model.width, model.layers, model.heads, model.kv_heads, model.hidden, model.taps) < 1:
        yield "model: a size below one", "write sizes of at least one"
    elif model.width % model.heads or model.heads % model.kv_heads:
        yield "model: heads do not divide width, or kv_heads do not divide heads", "choose sizes that divide"
    if min(batch.prompts, batch.prompt_tokens, batch.new_tokens, batch.sequences) < 1 or batch.sequence_tokens < 2:
        yield "batch: nothing to compute", "write sizes of at least one, and sequences of two tokens"
    if max(batch.prompt_tokens + batch.new_tokens, batch.sequence_tokens) > model.positions:
        yield f"model.positions = {model.positions}", "make it the longest sequence at least"
    yield from _tolerance_problems(definition)


def _tolerance_problems(definition: Definition) -> Iterator[tuple[str, str]]:
    wanted = {(between, dtype) for between in ("architectures", "paths") for dtype in definition.dtypes}
    stated = [(item.between, item.dtype) for item in definition.tolerances]
    if set(stated) != wanted or len(stated) != len(wanted):
        yield "tolerances: not one for each dtype, between architectures and between paths", "add or remove tables"
    for item in definition.tolerances:
        if not item.reason.strip():
            yield f"tolerances: no reason given for {item.dtype} between {item.between}", "say why that much is allowed"
