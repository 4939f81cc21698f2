"""The model, written out in operations that a path may replace one by one, and what is done with it.

Shapes: B sequences, T tokens, W width, V vocabulary, H heads of D = W / H, K heads of keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

from orbit.qualify.batch import Tokens
from orbit.qualify.batch import tokens as all_tokens
from orbit.qualify.batch import weights as all_weights
from orbit.qualify.model import Definition
from orbit.qualify.stack.recorder import Recorder
from orbit.qualify.tape import (
    BACKWARD,
    DECODE,
    FORWARD,
    GRAD_NORM,
    INPUT,
    LOGPROBS,
    LOSS,
    MARGINS,
    SCORES,
    STEP,
    TOKENS,
)

type Tensor = Any
type Function = Callable[..., Tensor]
EPSILON = 1e-6


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """x / rms(x) * weight in float32, rounded once (Zhang and Sennrich, Root Mean Square Layer Normalization)."""
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)
    return (scaled * weight.float()).to(x.dtype)


def gated_silu(x: Tensor) -> Tensor:
    """silu(gate) * up in float32, rounded once; the gate is the first half of ``x`` [..., 2 hidden]."""
    gate, up = x.float().chunk(2, dim=-1)
    return (functional.silu(gate) * up).to(x.dtype)


def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """silu of a causal convolution of each channel with its own taps, in float32: [B, T, W], [W, taps], [W]."""
    taps, length = weight.shape[1], x.shape[1]
    padded = functional.pad(x.float(), (0, 0, taps - 1, 0))
    total = bias.float() + sum(padded[:, tap : tap + length] * weight[:, tap].float() for tap in range(taps))
    return functional.silu(total).to(x.dtype)


def token_logprob(logits: Tensor, targets: Tensor) -> Tensor:
    """Log-prob of one token a row, float32: [N, V], [N] -> [N]."""
    return torch.log_softmax(logits.float(), -1).gather(1, targets[:, None])[:, 0]


def plain_attention(rec: Recorder, name: str, heads: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Causal attention of q, k and v, [B, H, T, D] each: products in their type, softmax in float32."""
    q, k, v = heads
    scores = rec.run("matmul", f"{name}.scores", _scores, q, k)
    share = rec.run("softmax", f"{name}.softmax", _softmax, scores)
    return rec.run("matmul", f"{name}.mix", torch.matmul, share, v)


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.matmul(q * (1.0 / math.sqrt(q.shape[-1])), k.transpose(-1, -2))


def _softmax(scores: Tensor) -> Tensor:
    length = scores.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.float().masked_fill(later, -torch.inf), -1).to(scores.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """The operations of a path; by default torch's plain ones."""

    norm: Function = rms_norm
    silu: Function = gated_silu
    linear: Function = functional.linear
    conv: Function = convolve
    logprob: Function = token_logprob
    attention: Callable[[Recorder, str, tuple[Tensor, Tensor, Tensor]], Tensor] = plain_attention


def load_weights(definition: Definition, dtype: Any, device: str) -> dict[str, Tensor]:
    """Every parameter, exact in ``dtype``, ready for gradients."""
    found = {}
    for weight in all_weights(definition):
        raw = torch.frombuffer(bytearray(weight.data), dtype=torch.uint8).to(torch.float32)
        values = (raw.to(torch.int32) | 128).float() if weight.positive else 2.0 * raw - 255.0
        exact = (values * 2.0**-weight.exponent).reshape(weight.shape).to(dtype).to(device)
        found[weight.name] = exact.requires_grad_()
    return found


@dataclass(frozen=True, slots=True)
class Network:
    """The model with its weights, the operations of a path, and who notes what they give."""

    rec: Recorder
    ops: Ops
    definition: Definition
    weights: dict[str, Tensor]

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, T, V] of tokens [B, T]."""
        rows = self.rec.run("embedding", "embedding", functional.embedding, tokens, self.weights["embedding"])
        length = tokens.shape[1]
        at = self.rec.run("slice", "position", lambda table: table[:length], self.weights["position"])
        x = self.rec.run("add", "embedded", torch.add, rows, at)
        for layer in range(self.definition.model.layers):
            x = self._layer(f"layers.{layer}", x)
        x = self._norm("final_norm", x)
        return self.rec.run("linear", "logits", self.ops.linear, x, self.weights["head"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        return self.rec.run("rms_norm", name, self.ops.norm, x, self.weights[name])

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return self.rec.run("linear", name, self.ops.linear, x, self.weights[name])

    def _layer(self, at: str, x: Tensor) -> Tensor:
        run = self.rec.run
        y = self._norm(f"{at}.conv_norm", x)
        y = run("conv", f"{at}.conv", self.ops.conv, y, *(self.weights[f"{at}.conv.{w}"] for w in ("weight", "bias")))
        x = run("add", f"{at}.conv_sum", torch.add, x, y)
        y = self._norm(f"{at}.attention_norm", x)
        q, k, v = (self._heads(f"{at}.{name}", self._linear(f"{at}.{name}", y)) for name in ("q", "k", "v"))
        y = self.ops.attention(self.rec, f"{at}.attention", (q, k, v))
        y = run("reshape", f"{at}.attention.joined", lambda value: value.transpose(1, 2).flatten(2), y)
        x = run("add", f"{at}.attention_sum", torch.add, x, self._linear(f"{at}.o", y))
        y = self._linear(f"{at}.gate_up", self._norm(f"{at}.mlp_norm", x))
        y = run("gated_silu", f"{at}.gated_silu", self.ops.silu, y)
        return run("add", f"{at}.mlp_sum", torch.add, x, self._linear(f"{at}.down", y))

    def _heads(self, name: str, value: Tensor) -> Tensor:
        """[B, T, heads D] -> [B, H, T, D]; heads of keys and values are repeated for the heads they serve."""
        shape = self.definition.model
        size = shape.width // shape.heads
        own = value.shape[-1] // size
        repeat = shape.heads // own

        def split(flat: Tensor) -> Tensor:
            parts = flat.unflatten(-1, (own, size)).transpose(1, 2)
            return parts[:, :, None].expand(-1, -1, repeat, -1, -1).flatten(1, 2).contiguous()

        return self.rec.run("reshape", f"{name}.heads", split, value)


def run_all(rec: Recorder, ops: Ops, definition: Definition, where: tuple[Any, str], *, trains: bool) -> list[str]:
    """Everything a path does, in order, in a type and on a device (``where``); the names of the phases it had."""
    made = all_tokens(definition)
    network = Network(rec, ops, definition, load_weights(definition, *where))
    rec.phase = INPUT
    for name, value in network.weights.items():
        rec.note("weight", name, value)
    with torch.no_grad():
        decode(network, made)
    return [DECODE, *train(network, made, backward=trains)]


def decode(network: Network, made: Tokens) -> None:
    """Greedy decoding; every step runs the whole prefix, the first one operation by operation on the tape.

    Of equal logits the lowest token is taken, on every device.
    """
    rec, device = network.rec, network.weights["embedding"].device
    rec.phase = INPUT
    tokens = rec.note("tokens", "prompts", torch.tensor(made.prompts, device=device))
    rec.phase = DECODE
    silent = replace(network, rec=Recorder(None))
    chosen: list[Tensor] = []
    logprobs: list[Tensor] = []
    margins: list[Tensor] = []
    seen: list[Tensor] = []
    for step in range(network.definition.batch.new_tokens):
        logits = (silent if step else network).forward(tokens)
        last = logits[:, -1].contiguous()
        # later steps are the first one's operations on other tokens: what is wrong there began there
        seen.append(rec.note("last logits", f"step {step:02d} logits", last, (logits, tokens, *seen[:1], *chosen[-1:])))
        lowest = torch.arange(last.shape[1], device=device).where(last == last.amax(1, keepdim=True), last.shape[1])
        token = rec.note("argmax", f"step {step:02d} tokens", lowest.amin(1), (last,))
        best = last.float().topk(2, dim=1).values
        chosen.append(token)
        logprobs.append(network.ops.logprob(last, token))
        margins.append(best[:, 0] - best[:, 1])
        tokens = torch.cat([tokens, token[:, None]], 1)
    for key, values, source in ((TOKENS, chosen, chosen), (LOGPROBS, logprobs, seen), (MARGINS, margins, seen)):
        rec.note("stack", key[1], torch.stack(values, 1), source)


def train(network: Network, made: Tokens, *, backward: bool) -> list[str]:
    """Forward on the frozen batch, and with ``backward`` also gradients and one step of AdamW; the phases it had."""
    rec, device = network.rec, network.weights["embedding"].device
    rec.phase = INPUT
    sequences = rec.note("tokens", "sequences", torch.tensor(made.sequences, device=device))
    targets = rec.note("tokens", "targets", sequences[:, 1:].flatten(), (sequences,))
    advantages = rec.note("advantages", "advantages", torch.tensor(made.advantages, device=device))
    rec.phase = FORWARD
    with torch.set_grad_enabled(backward):
        logits = network.forward(sequences)
        flat = rec.run("reshape", "scored logits", lambda value: value[:, :-1].flatten(0, 1).contiguous(), logits)
        scores = rec.run("token_logprob", SCORES[1], network.ops.logprob, flat, targets)
        loss = rec.run("loss", LOSS[1], policy_loss, scores, advantages)
    if not backward:
        return [FORWARD]
    rec.phase = BACKWARD
    loss.backward()
    weights = list(network.weights.values())
    norms = torch.stack([torch.linalg.vector_norm(weight.grad.float()) for weight in weights])
    rec.note("norm", GRAD_NORM[1], torch.linalg.vector_norm(norms), gradients_of=weights)
    rec.phase = STEP
    optimize(network)
    return [FORWARD, BACKWARD, STEP]


def policy_loss(scores: Tensor, advantages: Tensor) -> Tensor:
    """-mean(advantage * log-prob) over all tokens, [B T] and [B]: the policy gradient with every mask at one."""
    return -(scores.unflatten(0, (len(advantages), -1)) * advantages[:, None]).mean()


def optimize(network: Network) -> None:
    """One step of AdamW on float32 copies of the weights, which hold them exactly."""
    chosen, weights = network.definition.optimizer, network.weights
    masters = {name: weight.detach().float().clone().requires_grad_() for name, weight in weights.items()}
    for name, master in masters.items():
        master.grad = weights[name].grad.float()
    torch.optim.AdamW(
        list(masters.values()),
        lr=chosen.learning_rate,
        betas=(chosen.beta1, chosen.beta2),
        eps=chosen.epsilon,
        weight_decay=chosen.weight_decay,
        foreach=False,
        fused=False,
    ).step()
    with torch.no_grad():
        for name, master in masters.items():
            network.rec.note("adamw", name, master, (weights[name],), gradients_of=(weights[name],))
