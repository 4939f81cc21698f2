"""The mathematics of log-probs from parts of a vocabulary, by hand calculation and against torch in float64."""

from __future__ import annotations

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from orbit_kernels import partials  # noqa: E402

INF, NAN = math.inf, math.nan


def of(rows: list[list[float]], targets: list[int], *, temperature: float = 1.0, ignore_index: int = -100):
    logits = torch.tensor(rows, dtype=torch.float64)
    wanted = torch.tensor(targets)
    own = partials.compute_partials(
        logits, wanted, temperature=temperature, vocab_total=logits.shape[1], ignore_index=ignore_index
    )
    return partials.finish(own, wanted, temperature=temperature, ignore_index=ignore_index)


def test_by_hand() -> None:
    # softmax([0, ln 3]) = [1/4, 3/4]
    logprob, entropy, saved = of([[0.0, math.log(3)]], [0])
    assert logprob.item() == pytest.approx(math.log(0.25), abs=1e-15)
    assert entropy.item() == pytest.approx(0.25 * math.log(4) + 0.75 * math.log(4 / 3), abs=1e-15)
    assert saved[:, 0].tolist() == pytest.approx([math.log(3), math.log(4 / 3)], abs=1e-15)


def test_the_temperature_divides_the_logits() -> None:
    logprob, entropy, _ = of([[0.0, 2 * math.log(3)]], [1], temperature=2.0)
    assert logprob.item() == pytest.approx(math.log(0.75), abs=1e-15)
    assert entropy.item() == pytest.approx(0.25 * math.log(4) + 0.75 * math.log(4 / 3), abs=1e-15)


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("level", [0.0, -1e30, 3e38])
def test_equal_logits_are_the_uniform_distribution(size: int, level: float) -> None:
    logprob, entropy, _ = of([[level] * size], [size - 1])
    assert logprob.item() == pytest.approx(-math.log(size), abs=1e-14)
    assert entropy.item() == pytest.approx(math.log(size), abs=1e-14)


@pytest.mark.parametrize("high", [1e3, 1e30, 3e38])
def test_one_logit_far_above_all_others(high: float) -> None:
    logprob, entropy, _ = of([[-high, high, 0.0], [-high, high, 0.0]], [1, 2])
    assert logprob.tolist() == [0.0, -high]
    assert entropy.tolist() == [0.0, 0.0]


def test_masked_classes_have_no_part_in_it() -> None:
    logprob, entropy, _ = of([[-INF, 0.0, math.log(3), -INF]] * 2, [2, 0])
    assert logprob.tolist() == [pytest.approx(math.log(0.75)), -INF]
    assert entropy.tolist() == pytest.approx([0.25 * math.log(4) + 0.75 * math.log(4 / 3)] * 2)


@pytest.mark.parametrize("bad", [[-INF, -INF], [NAN, 0.0], [0.0, INF], [-INF, NAN]])
def test_no_distribution_is_nan_and_stays_in_its_row(bad: list[float]) -> None:
    logprob, entropy, _ = of([bad, [0.0, 0.0]], [0, 0])
    assert [math.isnan(value) for value in (*logprob.tolist(), *entropy.tolist())] == [True, False, True, False]


def test_ignored_tokens_are_zero_whatever_their_logits() -> None:
    for index in (-100, 5):
        logprob, entropy, saved = of([[NAN, 1.0], [0.0, 0.0]], [index, 0], ignore_index=index)
        assert (logprob[0].item(), entropy[0].item(), saved[:, 0].tolist()) == (0.0, 0.0, [0.0, 0.0])
        assert logprob[1].item() == pytest.approx(-math.log(2))


@pytest.mark.parametrize("target", [-1, 2, 10**12])
def test_a_target_that_is_no_class_is_nan(target: int) -> None:
    logprob, entropy, _ = of([[0.0, 0.0]], [target])
    assert math.isnan(logprob.item())
    assert entropy.item() == pytest.approx(math.log(2))


def naive(logits, targets, temperature: float):
    """torch's own words for it, with autograd."""
    log_p = (logits / temperature).log_softmax(1)
    entropy = -(log_p.exp() * log_p.masked_fill(log_p == -INF, 0)).sum(1)
    return log_p.gather(1, targets[:, None])[:, 0], entropy


@pytest.mark.parametrize("temperature", [1.0, 0.3, 7.0])
@pytest.mark.parametrize("spread", [0.1, 3.0, 80.0])
def test_values_and_gradients_are_those_of_torch(temperature: float, spread: float) -> None:
    generator = torch.Generator().manual_seed(5)
    logits = (torch.randn(6, 37, generator=generator, dtype=torch.float64) * spread).requires_grad_()
    targets = torch.randint(0, 37, (6,), generator=generator)
    weights = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    expected, expected_entropy = naive(logits, targets, temperature)
    own = partials.compute_partials(logits.detach(), targets, temperature=temperature, vocab_total=37)
    logprob, entropy, saved = partials.finish(own, targets, temperature=temperature)
    torch.testing.assert_close(logprob, expected.detach(), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(entropy, expected_entropy.detach(), rtol=1e-13, atol=1e-13)
    (weights[0] * expected + weights[1] * expected_entropy).sum().backward()
    gradient = partials.logits_gradient(
        logits.detach(), targets, saved, entropy, (weights[0], weights[1]), temperature=temperature, vocab_total=37
    )
    torch.testing.assert_close(gradient, logits.grad, rtol=1e-11, atol=1e-13)


def split_of(logits, targets, cuts: list[int], temperature: float):
    edges = [0, *cuts, logits.shape[1]]
    return torch.stack(
        [
            partials.compute_partials(
                logits[:, start:end],
                targets,
                temperature=temperature,
                vocab_start=start,
                vocab_total=logits.shape[1],
            )
            for start, end in itertools.pairwise(edges)
        ]
    )


@pytest.mark.parametrize("cuts", [[], [20], [1, 2, 36], [9, 18, 27]])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_parts_merge_to_the_whole(cuts: list[int], temperature: float) -> None:
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(5, 37, generator=generator, dtype=torch.float64) * 10
    logits[1, :20] = -INF  # a part with nothing in it
    logits[2] = -INF
    logits[3, 5] = NAN
    logits[4, :9] = 2000.0  # a part so far above that the others are 0
    targets = torch.tensor([0, 36, 3, 30, 10])
    whole = partials.compute_partials(logits, targets, temperature=temperature, vocab_total=37)
    merged = partials.merge_partials(split_of(logits, targets, cuts, temperature), temperature)
    torch.testing.assert_close(merged, whole, rtol=1e-13, atol=1e-13, equal_nan=True)
    pairwise = split_of(logits, targets, cuts, temperature)
    while len(pairwise) > 1:
        head = partials.merge_partials(pairwise[:2], temperature)
        pairwise = torch.cat([head[None], pairwise[2:]])
    torch.testing.assert_close(pairwise[0], whole, rtol=1e-13, atol=1e-13, equal_nan=True)


def test_a_part_far_below_the_rest_adds_nothing() -> None:
    parts = torch.tensor([[[3e38], [2.0], [-0.5], [0.0]], [[-3e38], [1.0], [0.0], [7.0]]])
    merged = partials.merge_partials(parts)
    assert merged[:, 0].tolist() == [pytest.approx(3e38), 2.0, -0.5, 7.0]


def test_shards_of_the_gradient_are_columns_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(7)
    logits = torch.randn(4, 24, generator=generator, dtype=torch.float64)
    targets = torch.tensor([0, 11, 23, -100])
    grads = (torch.randn(4, dtype=torch.float64), torch.randn(4, dtype=torch.float64))
    own = partials.compute_partials(logits, targets, vocab_total=24)
    _, entropy, saved = partials.finish(own, targets)
    whole = partials.logits_gradient(logits, targets, saved, entropy, grads, vocab_total=24)
    shards = [
        partials.logits_gradient(
            logits[:, start : start + 8], targets, saved, entropy, grads, vocab_start=start, vocab_total=24
        )
        for start in (0, 8, 16)
    ]
    torch.testing.assert_close(torch.cat(shards, 1), whole, rtol=0, atol=0)
    assert whole[3].tolist() == [0.0] * 24


def test_long_inputs_are_widened_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, targets = torch.randn(7, 11), torch.arange(7)
    whole = partials.compute_partials(logits, targets, vocab_total=11)
    monkeypatch.setattr(partials, "CHUNK_ELEMENTS", 22)
    assert torch.equal(partials.compute_partials(logits, targets, vocab_total=11), whole)
    assert partials.compute_partials(logits[:0], targets[:0], vocab_total=11).shape == (4, 0)
