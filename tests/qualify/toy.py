"""A stand-in for the stack: a few operations in pure Python that leave the same files as a real run.

``twist`` changes the result of one operation, as a wrong kernel would; ``noise`` does so in later runs alone.
"""

from __future__ import annotations

import array
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orbit.core.files import write_atomic
from orbit.core.records import compact_json
from orbit.qualify.judge import Trial
from orbit.qualify.model import Definition, load_definition
from orbit.qualify.records import Device, Identity
from orbit.qualify.tape import BACKWARD, DECODE, FORWARD, INPUT, STEP, Tape
from orbit.qualify.trials import IDENTITY_FILE, Blobs, CaseKey, Order, write_trial
from orbit.qualify.values import Bits, numbers, stats_of

type Twist = Callable[[list[float]], list[float]]
CASES: list[CaseKey] = [("torch", "float32"), ("torch", "bfloat16"), ("sdpa", "float32"), ("sdpa", "bfloat16")]
PROMPTS, NEW = 3, 4


def pack(dtype: str, values: Sequence[float]) -> bytes:
    """Values as the bytes of a tensor; bfloat16 by dropping the lower half."""
    if dtype == "int64":
        return array.array("q", [int(value) for value in values]).tobytes()
    wide = array.array("f", values).tobytes()
    if dtype == "float32":
        return wide
    return b"".join(wide[at + 2 : at + 4] for at in range(0, len(wide), 4))


def bits(dtype: str, shape: tuple[int, ...], values: Sequence[float]) -> Bits:
    """A tensor with its statistics."""
    data = pack(dtype, values)
    return Bits(dtype, shape, data, None if dtype == "int64" else stats_of(numbers(dtype, data)))


def nudge(values: list[float]) -> list[float]:
    """One value, one step of float32 further from zero."""
    (bits,) = struct.unpack("<I", struct.pack("<f", values[-1]))
    (moved,) = struct.unpack("<f", struct.pack("<I", bits + 1))
    return [*values[:-1], moved]


def push(values: list[float]) -> list[float]:
    """One value, far away."""
    return [*values[:-1], values[-1] + 1.0]


@dataclass
class Toy:
    """Runs orders in this process; see the module."""

    twist: dict[tuple[str, str], Twist] = field(default_factory=dict)
    """Phase and name -> what is done to that operation's result."""
    noise: dict[tuple[str, str], Twist] = field(default_factory=dict)
    """Likewise, in every run but the first."""
    only: str = ""
    """The path that twist and noise are for; all when empty."""
    skipped: dict[str, str] = field(default_factory=dict)
    dies_at: CaseKey | None = None
    architecture: str = "toy 1"
    versions: dict[str, str] = field(default_factory=lambda: {"torch": "1"})
    runs: int = 0

    def __call__(self, order: Order) -> str:
        """Run, as a process would."""
        folder = Path(order.folder)
        device = Device(kind=order.kind, name="toy", architecture=self.architecture)
        write_atomic(folder / IDENTITY_FILE, compact_json(Identity(device=device, versions=self.versions)))
        blobs = Blobs(folder)
        for number, (path, dtype) in enumerate(order.cases):
            if (path, dtype) == self.dies_at:
                return "signal 11"
            write_trial(folder, number, self._case(order.definition, path, dtype, blobs))
        self.runs += 1
        return ""

    def _case(self, definition: Definition, path: str, dtype: str, blobs: Blobs) -> Trial:
        if path in self.skipped:
            return Trial(path=path, dtype=dtype, status="skipped", reason=self.skipped[path])
        tape = Tape(blobs, definition.keep_bytes)
        self._compute(tape, path, dtype)
        return Trial(path=path, dtype=dtype, status="ran", phases=(DECODE, FORWARD), entries=tuple(tape.entries))

    def _compute(self, tape: Tape, path: str, dtype: str) -> None:
        values: dict[int, list[float]] = {}

        def op(phase: str, kind: str, name: str, made: list[float], inputs: Sequence[int] = (), *, of: str = "") -> int:
            if self.only in ("", path):
                for changes, active in ((self.twist, True), (self.noise, self.runs > 0)):
                    if active and (phase, name) in changes:
                        made = changes[phase, name](made)
            stored = bits(of or dtype, (PROMPTS, len(made) // PROMPTS) if len(made) > 1 else (1,), made)
            place = tape.add(phase, kind, name, stored, inputs)
            values[place] = list(numbers(of or dtype, stored.data))
            return place

        weight = op(INPUT, "weight", "weight", [0.5 + 0.125 * at for at in range(PROMPTS * NEW)])
        scaled = op(DECODE, "linear", "scaled", [2.0 * value for value in values[weight]], [weight])
        scores = op(DECODE, "linear", "shifted", [value - 8.0 for value in values[scaled]], [scaled])
        chosen = [float(math.floor(-value)) for value in values[scores]]
        tokens = op(DECODE, "stack", "tokens", chosen, [scores], of="int64")
        op(DECODE, "stack", "logprobs", values[scores], [scores, tokens], of="float32")
        op(DECODE, "stack", "margins", [0.25 for _ in chosen], [scores], of="float32")
        hidden = op(FORWARD, "linear", "scaled", [3.0 * value for value in values[weight]], [weight])
        given = op(FORWARD, "token_logprob", "logprobs", [-value for value in values[hidden]], [hidden], of="float32")
        loss = op(FORWARD, "loss", "loss", [sum(values[given])], [given], of="float32")
        grad = op(BACKWARD, "linear backward", "scaled, input 0", [3.0 for _ in chosen], [loss, hidden, weight])
        norm = [math.sqrt(sum(value * value for value in values[grad]))]
        op(BACKWARD, "norm", "grad norm", norm, [grad], of="float32")
        op(
            STEP,
            "adamw",
            "weight",
            [v - 0.001 * g for v, g in zip(values[weight], values[grad], strict=True)],
            [weight, grad],
        )


def tiny() -> Definition:
    """The definition that is shipped."""
    return load_definition("tiny")
