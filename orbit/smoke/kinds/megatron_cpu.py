"""Whether megatron-core builds and trains a model: a tiny GPT, a few steps on the CPU, twice with equal results.

megatron-core 0.18.2 runs on a CPU but for two places, which :func:`cpu_stand_ins` covers and nothing else:

* ``RotaryEmbedding.get_emb`` moves its frequencies to ``torch.cuda.current_device()`` at the first forward;
* ``DotProductAttention`` forks the CUDA random-state tracker around its dropout. The model here has no dropout, so no
  random number is drawn inside and a fork that does nothing gives the same result.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from orbit.smoke.model import CheckError, Context

VOCABULARY = 64
SEQUENCE = 32
BATCH = 4
STEPS = 8
LAYERS = 2
HIDDEN = 64
LEARNING_RATE = 3e-3
SEED = 1234
STRIDES = (1, 3, 5, 7)
"""Row b of the batch counts up by STRIDES[b] modulo the vocabulary, so the next token is learnable."""
FIRST_LOSS_TOLERANCE = 0.25
"""An untrained model with 0.02-scaled weights is nearly uniform: its loss is ln(64) = 4.16 within this much."""
REQUIRED_FALL = 0.2
"""Share of the first loss that eight AdamW steps must at least take away."""


def check_megatron_cpu(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Train twice from the same seed; the first loss is that of a uniform guess, it falls, and the runs are equal."""
    del parameters, context
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    torch.set_num_threads(1)
    with _one_rank(torch), cpu_stand_ins(torch):
        first, second = _train(torch), _train(torch)
    judge_losses(first, second)
    return {"summary": f"loss {first[0]:.3f} -> {first[-1]:.3f} in {STEPS} steps, twice the same", "losses": first}


def judge_losses(first: list[float], second: list[float]) -> None:
    """Raise :class:`CheckError` unless the two runs are equal, start at a uniform guess and learn."""
    if not all(math.isfinite(loss) for loss in (*first, *second)):
        raise CheckError(f"a loss is not finite: {first} {second}")
    if first != second:
        step = next(index for index, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1])
        raise CheckError(f"two runs from one seed differ at step {step}: {first[step]!r} and {second[step]!r}")
    uniform = math.log(VOCABULARY)
    if abs(first[0] - uniform) > FIRST_LOSS_TOLERANCE:
        raise CheckError(f"the first loss is {first[0]:.4f}, an untrained model's is ln {VOCABULARY} = {uniform:.4f}")
    if first[-1] > first[0] * (1 - REQUIRED_FALL):
        raise CheckError(f"the loss does not fall: {first[0]:.4f} -> {first[-1]:.4f} in {len(first) - 1} steps")


@contextlib.contextmanager
def cpu_stand_ins(torch: Any) -> Iterator[None]:
    """Inside the ``with`` block the current device is the CPU and forking the CUDA random state does nothing."""
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    def no_fork(self: object, *args: object) -> contextlib.AbstractContextManager[None]:
        del self, args
        return contextlib.nullcontext()

    with (
        mock.patch.object(torch.cuda, "current_device", return_value=torch.device("cpu")),
        mock.patch.object(CudaRNGStatesTracker, "fork", no_fork),
    ):
        yield


@contextlib.contextmanager
def _one_rank(torch: Any) -> Iterator[None]:
    """A process group of one over gloo (rendezvous in a file: no port, no host name) and megatron's groups on it."""
    from megatron.core import parallel_state

    with tempfile.TemporaryDirectory(prefix="gloo-") as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        try:
            parallel_state.initialize_model_parallel()
            yield
        finally:
            parallel_state.destroy_model_parallel()
            torch.distributed.destroy_process_group()


def _model(torch: Any) -> Any:
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.torch_norm import WrappedTorchNorm
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

    # Named outright: by default the last norm is Transformer Engine's whenever that is installed, and it needs a GPU.
    layer = get_gpt_layer_local_spec(normalization="LayerNorm")
    block = TransformerBlockSubmodules(layer_specs=[layer] * LAYERS, layer_norm=WrappedTorchNorm)
    config = TransformerConfig(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        ffn_hidden_size=2 * HIDDEN,
        num_attention_heads=4,
        use_cpu_initialization=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        normalization="LayerNorm",
        pipeline_dtype=torch.float32,
        params_dtype=torch.float32,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        persist_layer_norm=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        apply_rope_fusion=False,
    )
    return GPTModel(
        config=config,
        transformer_layer_spec=block,
        vocab_size=VOCABULARY,
        max_sequence_length=SEQUENCE,
        position_embedding_type="rope",
    )


def _train(torch: Any) -> list[float]:
    """Losses before the first step and after each of :data:`STEPS` steps."""
    torch.manual_seed(SEED)
    model = _model(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    rows = [[(start + stride * t) % VOCABULARY for t in range(SEQUENCE + 1)] for start, stride in enumerate(STRIDES)]
    data = torch.tensor(rows[:BATCH])
    tokens, labels = data[:, :-1].contiguous(), data[:, 1:].contiguous()
    positions = torch.arange(SEQUENCE).expand(BATCH, SEQUENCE).contiguous()
    hidden = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool).triu(1).view(1, 1, SEQUENCE, SEQUENCE)
    losses: list[float] = []
    for step in itertools.count():
        loss = model(tokens, positions, hidden, labels=labels).mean()
        losses.append(float(loss))
        if step == STEPS:
            return losses
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    raise AssertionError("unreachable")
