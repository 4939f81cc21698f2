"""Puts a torch computation on a tape: each operation's result, and in the backward pass each gradient it makes.

Every differentiable input of an operation goes in through a view of its own. A hook on that view sees the gradient
which this one operation makes for this one input, before autograd adds the gradients of several users together; so a
kernel whose backward is wrong is told from its neighbours. Views copy nothing and change no number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from orbit.qualify.tape import BACKWARD, Tape
from orbit.qualify.values import Bits, Stats

type Tensor = Any


def bits(tensor: Tensor) -> Bits:
    """A tensor's bytes and statistics; needs no numpy."""
    plain = tensor.detach().contiguous()
    stats = _stats(plain) if plain.is_floating_point() and plain.numel() else None
    host = plain.cpu()
    count = host.numel() * host.element_size()
    data = ctypes.string_at(host.data_ptr(), count) if count else b""
    return Bits(str(host.dtype).removeprefix("torch."), tuple(host.shape), data, stats)


def _stats(plain: Tensor) -> Stats:
    """Computed where the tensor is, and brought over in one piece."""
    wide = plain.double().flatten()
    finite = torch.isfinite(wide)
    missing = int((~finite).sum())
    if missing == wide.numel():
        return Stats(nonfinite=missing)
    wide = wide[finite] if missing else wide
    parts = torch.stack([wide.amin(), wide.amax(), wide.mean(), wide.square().mean().sqrt()])
    low, high, mean, rms = parts.tolist()
    return Stats(min=low, max=high, mean=mean, rms=rms, nonfinite=missing)


@dataclass(frozen=True, slots=True)
class _Edge:
    """One input of one operation, as the backward pass will meet it."""

    op: str
    name: str
    target: int | None
    """Place of the tensor that went in."""
    source: list[int]
    """Places of the operation's result and of its inputs, filled in once they are known."""


class Recorder:
    """Runs operations and notes them on ``tape`` in the phase that is set; with no tape it only runs them."""

    def __init__(self, tape: Tape | None) -> None:
        self.tape = tape
        self.phase = ""
        self._place: dict[int, int] = {}
        self._edges: dict[int, list[int]] = {}
        self._totals: dict[int, int] = {}
        self._kept: list[Tensor] = []

    def note(
        self, op: str, name: str, tensor: Tensor, inputs: Sequence[Tensor] = (), gradients_of: Sequence[Tensor] = ()
    ) -> Tensor:
        """Put a tensor on the tape that no operation of :meth:`run` made; returns it.

        It was made from ``inputs`` and from the gradients of ``gradients_of``; what is not on the tape is left out.
        """
        if self.tape is not None:
            places = [self._place[id(item)] for item in inputs if id(item) in self._place]
            owners = [self._place[id(item)] for item in gradients_of]
            places += [self._totals[place] for place in owners if place in self._totals]
            self._remember(tensor, self.tape.add(self.phase, op, name, bits(tensor), places))
        return tensor

    def run(self, op: str, name: str, function: Callable[..., Tensor], *tensors: Tensor, **options: Any) -> Tensor:
        """``function(*tensors, **options)``, noted as the operation ``op`` at ``name`` of the model."""
        if self.tape is None:
            return function(*tensors, **options)
        source: list[int] = []
        views = []
        for number, tensor in enumerate(tensors):
            if torch.is_grad_enabled() and tensor.requires_grad:
                view = tensor.view_as(tensor)
                edge = _Edge(f"{op} backward", f"{name}, input {number}", self._place.get(id(tensor)), source)
                view.register_hook(partial(self._edge, edge))
                views.append(view)
            else:
                views.append(tensor)
        result = function(*views, **options)
        places = [self._place[id(tensor)] for tensor in tensors if id(tensor) in self._place]
        place = self.tape.add(self.phase, op, name, bits(result), places)
        source += [place, *places]
        self._remember(result, place)
        return result

    def _remember(self, tensor: Tensor, place: int) -> None:
        self._place[id(tensor)] = place
        self._kept.append(tensor)  # so that its id stays its own
        if torch.is_grad_enabled() and tensor.requires_grad:
            tensor.register_hook(partial(self._total, place))

    def _edge(self, edge: _Edge, grad: Tensor) -> None:
        """The gradient that one operation makes for one of its inputs."""
        assert self.tape is not None
        above = self._totals.get(edge.source[0])
        sources = edge.source if above is None else [above, *edge.source]
        place = self.tape.add(BACKWARD, edge.op, edge.name, bits(grad), sources)
        if edge.target is not None:
            self._edges.setdefault(edge.target, []).append(place)

    def _total(self, place: int, grad: Tensor) -> None:
        """The whole gradient of a tensor, once all its users have added theirs."""
        assert self.tape is not None
        edges = self._edges.get(place, [])
        if len(edges) == 1:
            self._totals[place] = edges[0]
            return
        entry = self.tape.entries[place]
        op = "sum of gradients" if edges else "start of the backward pass"
        self._totals[place] = self.tape.add(BACKWARD, op, f"{entry.phase} {entry.name}", bits(grad), edges)
