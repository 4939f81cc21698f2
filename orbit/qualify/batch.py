"""The frozen weights and tokens: the same bytes everywhere, made with nothing but the standard library.

Random bytes are SHAKE-256 (FIPS 202) of seed and name, so each tensor's are independent of all others, of torch and of
the platform. A weight is an odd integer of at most 255, or for norms one from 128 to 255, times a power of two: eight
significant bits, which bfloat16 and float32 both hold exactly. Both types therefore start from the same numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from orbit.qualify.model import Definition, ModelShape

SPREAD = 148.0
"""Standard deviation of the odd integers from -255 to 255."""
HEAD_GAIN = 6.0
"""Of the last product: log-probs are spread like those of a trained model, and few tokens are nearly tied."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter: value = integer of ``data`` times 2^-``exponent``."""

    name: str
    shape: tuple[int, ...]
    exponent: int
    positive: bool
    """Integers are ``byte | 128``; else ``2 * byte - 255``."""
    data: bytes

    def values(self) -> list[float]:
        """All values, row by row."""
        scale = 2.0**-self.exponent
        if self.positive:
            return [(byte | 128) * scale for byte in self.data]
        return [(2 * byte - 255) * scale for byte in self.data]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Everything of the batch that is no weight."""

    prompts: tuple[tuple[int, ...], ...]
    sequences: tuple[tuple[int, ...], ...]
    advantages: tuple[float, ...]
    """One per sequence: 1 and -1 in turn."""


def random_bytes(seed: int, name: str, count: int) -> bytes:
    """``count`` bytes that depend on ``seed`` and ``name`` alone."""
    return hashlib.shake_256(f"orbit.qualification {seed} {name}".encode()).digest(count)


def weights(definition: Definition) -> Iterator[Weight]:
    """Every parameter of the model, in the order of its definition."""
    for name, shape, gain in parameters(definition.model):
        positive = gain == 0.0
        exponent = 8 if positive else _exponent(gain / math.sqrt(shape[-1]))
        data = random_bytes(definition.seed, name, math.prod(shape))
        yield Weight(name, shape, exponent, positive, data)


def parameters(model: ModelShape) -> Iterator[tuple[str, tuple[int, ...], float]]:
    """Name, shape and gain (standard deviation times the root of the last size; 0: a norm's weight)."""
    width, keys = model.width, model.kv_heads * (model.width // model.heads)
    yield "embedding", (model.vocab, width), math.sqrt(width)
    yield "position", (model.positions, width), math.sqrt(width) / 2
    for layer in range(model.layers):
        at = f"layers.{layer}"
        yield f"{at}.conv_norm", (width,), 0.0
        yield f"{at}.conv.weight", (width, model.taps), 1.0
        yield f"{at}.conv.bias", (width,), math.sqrt(width) / 4
        yield f"{at}.attention_norm", (width,), 0.0
        yield f"{at}.q", (width, width), 1.5
        yield f"{at}.k", (keys, width), 1.5
        yield f"{at}.v", (keys, width), 1.0
        yield f"{at}.o", (width, width), 1.0
        yield f"{at}.mlp_norm", (width,), 0.0
        yield f"{at}.gate_up", (2 * model.hidden, width), 1.0
        yield f"{at}.down", (width, model.hidden), 1.0
    yield "final_norm", (width,), 0.0
    yield "head", (model.vocab, width), HEAD_GAIN


def tokens(definition: Definition) -> Tokens:
    """Prompts, sequences and advantages."""
    batch = definition.batch
    return Tokens(
        prompts=_rows(definition, "prompts", batch.prompts, batch.prompt_tokens),
        sequences=_rows(definition, "sequences", batch.sequences, batch.sequence_tokens),
        advantages=tuple(1.0 if index % 2 == 0 else -1.0 for index in range(batch.sequences)),
    )


def weights_digest(definition: Definition) -> str:
    """sha256 over every parameter: name, shape, exponent, kind and bytes."""
    digest = hashlib.sha256()
    for weight in weights(definition):
        digest.update(f"{weight.name} {weight.shape} {weight.exponent} {weight.positive}\n".encode())
        digest.update(weight.data)
    return digest.hexdigest()


def batch_digest(definition: Definition) -> str:
    """sha256 over prompts, sequences and advantages."""
    made = tokens(definition)
    return hashlib.sha256(repr((made.prompts, made.sequences, made.advantages)).encode()).hexdigest()


def _rows(definition: Definition, name: str, rows: int, length: int) -> tuple[tuple[int, ...], ...]:
    data = random_bytes(definition.seed, name, 4 * rows * length)
    mask = definition.model.vocab - 1
    flat = [int.from_bytes(data[at : at + 4], "little") & mask for at in range(0, len(data), 4)]
    return tuple(tuple(flat[row * length : (row + 1) * length]) for row in range(rows))


def _exponent(deviation: float) -> int:
    """The power of two that brings :data:`SPREAD` nearest to ``deviation``; comparisons only, no logarithm."""
    exponent = 0
    while SPREAD * 2.0**-exponent > deviation * math.sqrt(2.0):
        exponent += 1
    return exponent
