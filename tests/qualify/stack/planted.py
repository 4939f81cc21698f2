"""Runs in an environment with torch: tapes of the plain model and of one in which a single kernel is wrong.

    python -c "..." OUT PLANT...      writes OUT/PLANT.json, the entries of that tape

A plant changes one element of one operation's result (``op:NAME``), or of the gradient it makes (``grad:NAME``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from orbit.core.records import compact_json
from orbit.qualify.model import load_definition
from orbit.qualify.records import Settings
from orbit.qualify.stack.child import pin
from orbit.qualify.stack.network import Ops, run_all
from orbit.qualify.stack.recorder import Recorder
from orbit.qualify.tape import BACKWARD, Tape


class Wrong(torch.autograd.Function):
    """The identity, but for one element of the gradient."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        del ctx
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        del ctx
        return bump(grad)


def bump(value: Any) -> Any:
    """One element, one representable number further."""
    with torch.no_grad():
        chosen = torch.zeros_like(value, dtype=torch.bool)
        chosen.view(-1)[3] = True
        moved = torch.nextafter(value, torch.full_like(value, torch.inf))
    return torch.where(chosen, moved, value)


class Planted(Recorder):
    """A recorder that spoils the operation at one name, in the training phases."""

    def __init__(self, tape: Tape, plant: str) -> None:
        super().__init__(tape)
        self.kind, _, self.name = plant.partition(":")

    def run(self, op: str, name: str, function: Any, *tensors: Any, **options: Any) -> Any:
        """As the plain one, with another function where the plant is."""
        if name != self.name or self.phase == "decode":
            return super().run(op, name, function, *tensors, **options)

        def spoiled(first: Any, *rest: Any, **given: Any) -> Any:
            if self.kind == "grad":
                return function(Wrong.apply(first), *rest, **given)
            return bump(function(first, *rest, **given))

        return super().run(op, name, spoiled, *tensors, **options)


def main() -> None:
    """One tape for each plant, and the plain one."""
    out, plants = Path(sys.argv[1]), sys.argv[2:]
    pin(Settings())
    definition = load_definition("tiny")
    for plant in ("none", *plants):
        tape = Tape(lambda _digest, _data: None, keep_bytes=0)
        run_all(Planted(tape, plant), Ops(), definition, (torch.float32, "cpu"), trains=True)
        assert any(entry.phase == BACKWARD for entry in tape.entries)
        (out / f"{plant.replace(':', '_')}.json").write_bytes(compact_json(tape.entries))


if __name__ == "__main__":
    main()
