"""The log-prob ops on CPU: values, gradients, registrations, edge cases, tensor parallelism by hand."""

from __future__ import annotations

import math
import types

import pytest

torch = pytest.importorskip("torch")

from orbit_kernels import _logprob_ops, token_logprob, vocab_parallel_token_logprob  # noqa: E402

from tests.orbit_kernels.test_partials import naive  # noqa: E402

OPS = torch.ops.orbit_kernels
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def inputs(tokens: int = 5, vocab: int = 19, dtype=torch.float64, seed: int = 3):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(tokens, vocab, generator=generator, dtype=torch.float64) * 4).to(dtype)
    return logits, torch.randint(0, vocab, (tokens,), generator=generator)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_torchs_in_float32(dtype) -> None:
    logits, targets = inputs(dtype=dtype)
    logprob, entropy = token_logprob(logits, targets, temperature=0.7)
    expected, expected_entropy = naive(logits.double(), targets, 0.7)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert (logprob.dtype, entropy.dtype, logprob.shape) == (wide, wide, (5,))
    torch.testing.assert_close(logprob, expected.to(wide), rtol=2e-7, atol=0)
    torch.testing.assert_close(entropy, expected_entropy.to(wide), rtol=2e-7, atol=0)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("which", ["logprob", "entropy", "both"])
def test_gradients_by_differences(temperature: float, which: str) -> None:
    logits, targets = inputs(3, 6)
    targets[1] = -100

    def chosen(x):
        logprob, entropy = token_logprob(x, targets, temperature=temperature)
        return {"logprob": logprob, "entropy": entropy, "both": (logprob, entropy)}[which]

    assert torch.autograd.gradcheck(chosen, logits.requires_grad_())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_has_the_dtype_of_the_logits_and_is_zero_in_the_padding(dtype) -> None:
    logits, targets = inputs(vocab=24, dtype=dtype)
    targets = targets % 19
    padded = torch.full((5, 32), math.nan, dtype=dtype)
    padded[:, :24] = logits
    view = padded[:, :24].requires_grad_()  # rows 32 apart
    logprob, entropy = token_logprob(view, targets, vocab_size=19)
    (2 * logprob.sum() - entropy.sum()).backward()
    wide = logits[:, :19].double().requires_grad_()
    expected, expected_entropy = naive(wide, targets, 1.0)
    (2 * expected.sum() - expected_entropy.sum()).backward()
    assert view.grad.dtype == dtype
    assert view.grad[:, 19:].tolist() == [[0.0] * 5] * 5
    torch.testing.assert_close(
        view.grad[:, :19], wide.grad.to(dtype), rtol=2e-7 if dtype != torch.float64 else 1e-12, atol=1e-12
    )


def test_ignored_tokens_have_no_gradient() -> None:
    logits, targets = inputs()
    targets[2] = -100
    logits.requires_grad_()
    logprob, entropy = token_logprob(logits, targets)
    (logprob.sum() + entropy.sum()).backward()
    assert (logprob[2].item(), entropy[2].item()) == (0.0, 0.0)
    assert logits.grad[2].tolist() == [0.0] * 19
    assert bool((logits.grad[[0, 1, 3, 4]] != 0).all())


def test_masked_logits_have_no_gradient() -> None:
    logits, targets = inputs(2, 8)
    logits[:, 5] = -math.inf
    logits.requires_grad_()
    logprob, entropy = token_logprob(logits, targets % 5)
    (logprob.sum() + entropy.sum()).backward()
    assert logits.grad[:, 5].tolist() == [0.0, 0.0]
    assert bool(logits.grad.isfinite().all())


def test_a_target_that_is_no_class_makes_a_nan_gradient() -> None:
    logits = inputs(2, 8)[0].requires_grad_()
    logprob, _ = token_logprob(logits, torch.tensor([8, 3]))
    logprob.sum().backward()
    assert logits.grad.isnan().all(1).tolist() == [True, False]


def test_only_the_log_prob_or_only_the_entropy_may_be_used() -> None:
    logits, targets = inputs()
    for index in (0, 1):
        leaf = logits.clone().requires_grad_()
        token_logprob(leaf, targets)[index].sum().backward()
        wide = logits.clone().requires_grad_()
        naive(wide, targets, 1.0)[index].sum().backward()
        torch.testing.assert_close(leaf.grad, wide.grad, rtol=1e-12, atol=1e-14)


def test_the_gradient_can_be_written_over_the_logits() -> None:
    logits, targets = inputs(dtype=torch.float32)
    leaf = logits.clone().requires_grad_()
    token_logprob(leaf, targets)[0].sum().backward()
    other = logits.clone().requires_grad_()
    computed = other * 1.0
    logprob, _ = token_logprob(computed, targets, inplace_backward=True)
    logprob.sum().backward(retain_graph=True)
    assert torch.equal(other.grad, leaf.grad)
    assert torch.equal(computed.detach(), leaf.grad)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        logprob.sum().backward()


def test_a_leaf_is_not_overwritten() -> None:
    logits, targets = inputs()
    logits.requires_grad_()
    with pytest.raises(ValueError, match="overwrite a leaf"):
        token_logprob(logits, targets, inplace_backward=True)
    with pytest.raises(ValueError, match="overwrite a leaf"):
        vocab_parallel_token_logprob(logits, targets, torch.stack, vocab_start=0, vocab_total=19, inplace_backward=True)
    with torch.no_grad():
        token_logprob(logits.detach(), targets, inplace_backward=True)


def test_without_machine_code_for_the_gpu_it_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = types.SimpleNamespace(device=types.SimpleNamespace(index=0), dtype=torch.bfloat16, shape=(1, 1))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "Some GPU")
    monkeypatch.setattr(_logprob_ops._library, "image", lambda _index: None)
    with pytest.warns(RuntimeWarning, match="no machine code for Some GPU"):
        assert not _logprob_ops._has_kernels(gpu)
    monkeypatch.setattr(_logprob_ops._library, "image", lambda _index: _logprob_ops._library.Image(90, 90))
    assert _logprob_ops._has_kernels(gpu)
    gpu.dtype = torch.float64
    with pytest.raises(ValueError, match="expected bfloat16, float16 or float32 on CUDA"):
        _logprob_ops._has_kernels(gpu)


def test_second_derivatives_are_refused() -> None:
    logits, targets = inputs()
    logits.requires_grad_()
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(token_logprob(logits, targets)[0].sum(), logits, create_graph=True)


def test_no_tokens() -> None:
    logits, targets = torch.zeros(0, 7, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    logprob, entropy = token_logprob(logits, targets)
    (logprob.sum() + entropy.sum()).backward()
    assert (logprob.shape, entropy.shape, logits.grad.shape) == ((0,), (0,), (0, 7))


LOGITS, TARGETS = torch.zeros(3, 8), torch.zeros(3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("logits", "targets", "keywords", "complaint"),
    [
        (LOGITS[0], TARGETS, {}, r"logits: torch.float32 \[8\] on cpu, expected floating point \[tokens, vocab\]"),
        (LOGITS.long(), TARGETS, {}, r"logits: torch.int64 \[3, 8\]"),
        (LOGITS.t(), torch.zeros(8, dtype=torch.int64), {}, r"stride 8 along the vocabulary.*contiguous"),
        (LOGITS, TARGETS.int(), {}, r"targets: torch.int32 \[3\] on cpu, expected torch.int64 \[3\]"),
        (LOGITS, TARGETS[:2], {}, r"targets: torch.int64 \[2\]"),
        (LOGITS, TARGETS[None], {}, r"targets: torch.int64 \[1, 3\]"),
        (LOGITS, TARGETS, {"vocab_size": 9}, r"vocab_size: 9, expected 1 to 8"),
        (LOGITS, TARGETS, {"vocab_size": 0}, r"vocab_size: 0"),
        (LOGITS, TARGETS, {"temperature": 0.0}, r"temperature: 0.0, expected 1e-20 to 1e\+20"),
        (LOGITS, TARGETS, {"temperature": -1.0}, r"temperature: -1.0"),
        (LOGITS, TARGETS, {"temperature": math.nan}, r"temperature: nan"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(logits, targets, keywords: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        token_logprob(logits, targets, **keywords)


@pytest.mark.parametrize("start", [-1, 8])
def test_a_shard_outside_the_vocabulary_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match=rf"vocab_start: classes {start} to {start + 8} of a vocabulary of 15"):
        vocab_parallel_token_logprob(LOGITS, TARGETS, torch.stack, vocab_start=start, vocab_total=15)


def test_merged_statistics_must_fit() -> None:
    with pytest.raises(ValueError, match=r"merged: torch.float32 \[3, 4\] on cpu, expected torch.float32 \[4, 3\]"):
        OPS.token_logprob_finish(LOGITS, TARGETS, torch.zeros(3, 4), 1.0, 8, -100, 0, 8, False)


def test_gradients_given_to_the_op_must_fit() -> None:
    rest = (torch.zeros(2, 3), torch.zeros(3), torch.zeros(3, dtype=torch.float64), None, 1.0, 8, -100, 0, 8)
    with pytest.raises(ValueError, match=r"grad_logprob: torch.float64 \[3\] on cpu, expected torch.float32 \[3\]"):
        OPS.token_logprob_grad(LOGITS, TARGETS, *rest)


# --- registrations ----------------------------------------------------------------------------------------------------


def samples(dtype):
    logits, targets = inputs(dtype=dtype)
    targets = targets % 17
    targets[1] = -100
    shard = (0.7, 17, -100, 0, 17)
    leaf = logits.clone().requires_grad_()
    own = OPS.token_logprob_partials(logits, targets, *shard)
    logprob, entropy, saved = OPS.token_logprob(logits, targets, *shard, False)
    yield OPS.token_logprob.default, (leaf, targets, *shard, False)
    yield OPS.token_logprob_partials.default, (logits, targets, *shard)
    yield OPS.token_logprob_finish.default, (leaf, targets, own, *shard, False)
    for grads in ((logprob, entropy), (logprob, None), (None, entropy)):
        yield OPS.token_logprob_grad.default, (logits, targets, saved, entropy, *grads, *shard)
        yield OPS.token_logprob_grad_.default, (logits.clone(), targets, saved, entropy, *grads, *shard)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_torch_finds_nothing_wrong_with_the_registrations(dtype) -> None:
    results = [torch.library.opcheck(op, arguments) for op, arguments in samples(dtype)]
    assert len(results) == 9
    assert {value for result in results for value in result.values()} == {"SUCCESS"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("inplace", [False, True])
def test_compiled_without_a_break(inplace: bool) -> None:
    logits, targets = inputs(dtype=torch.float32)
    weights = torch.randn(5, generator=torch.Generator().manual_seed(1))

    def loss(x):
        logprob, entropy = token_logprob(x * 2.0, targets, temperature=0.9, inplace_backward=inplace)
        return (weights * logprob).sum() - 0.1 * entropy.sum()

    eager, traced = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = loss(eager)
    expected.backward()
    value = torch.compile(loss, fullgraph=True, backend="aot_eager")(traced)
    value.backward()
    assert torch.equal(value, expected)
    assert torch.equal(traced.grad, eager.grad)


def test_shapes_without_data() -> None:
    logits = torch.empty(4, 9, dtype=torch.bfloat16, device="meta", requires_grad=True)
    logprob, entropy = token_logprob(logits, torch.empty(4, dtype=torch.int64, device="meta"))
    (logprob + entropy).sum().backward()
    assert (logprob.shape, logprob.dtype, logits.grad.shape, logits.grad.dtype) == (
        (4,), torch.float32, (4, 9), torch.bfloat16,
    )  # fmt: skip


# --- tensor parallel --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_ranks_together_are_the_whole_vocabulary(ranks: int, dtype) -> None:
    """Each rank computes its own statistics; ``gather`` hands every rank those of all, as an all-gather does."""
    total = 16
    logits, targets = inputs(6, total, dtype=dtype)
    targets[0], targets[1] = -100, 15
    weights = torch.randn(2, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    whole = logits.double().clone().requires_grad_()
    logprob, entropy = token_logprob(whole, targets, temperature=0.8)
    (weights[0] * logprob + weights[1] * entropy).sum().backward()

    width = -(-total // ranks)
    shards = [logits[:, at : at + width].contiguous().requires_grad_() for at in range(0, total, width)]
    place = [{"vocab_start": rank * width, "vocab_total": total, "temperature": 0.8} for rank in range(ranks)]
    everyone = torch.stack(
        [
            OPS.token_logprob_partials(shard.detach(), targets, 0.8, shard.shape[1], -100, rank * width, total)
            for rank, shard in enumerate(shards)
        ]
    )
    tolerance = {"rtol": 1e-12, "atol": 1e-13} if dtype == torch.float64 else {"rtol": 1e-6, "atol": 1e-6}
    for rank, shard in enumerate(shards):

        def gather(own, rank=rank):
            assert torch.equal(own, everyone[rank])
            return everyone

        got, got_entropy = vocab_parallel_token_logprob(shard, targets, gather, **place[rank])
        torch.testing.assert_close(got.double(), logprob.detach(), **tolerance)
        torch.testing.assert_close(got_entropy.double(), entropy.detach(), **tolerance)
        (weights[0] * got + weights[1] * got_entropy).sum().backward()
        expected = whole.grad[:, rank * width : rank * width + width]
        torch.testing.assert_close(
            shard.grad.double(), expected, **(tolerance if dtype == torch.float64 else {"rtol": 2**-8, "atol": 1e-6})
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_tensor_parallel_function_compiles() -> None:
    logits, targets = inputs(dtype=torch.float32)

    def loss(x):
        logprob, entropy = vocab_parallel_token_logprob(
            x * 2.0, targets, lambda own: own[None], vocab_start=0, vocab_total=19
        )
        return logprob.sum() + entropy.sum()

    eager, traced = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss(eager).backward()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(traced).backward()
    assert torch.equal(traced.grad, eager.grad)
