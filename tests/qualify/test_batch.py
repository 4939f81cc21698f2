"""The frozen batch is frozen: its bytes are pinned here, and exact in both types."""

from __future__ import annotations

import array
import math
import statistics

import msgspec

from orbit.qualify.batch import batch_digest, parameters, random_bytes, tokens, weights, weights_digest
from tests.qualify.toy import tiny

# Another digest is another batch: records made before cannot be compared any more, and FORMAT must be raised.
WEIGHTS = "d9f9ff96791bca72b00e13e4a91bc4256394d02973f270cdce2e21de091a42b9"
BATCH = "cbdfbae6ea42de5107bb4eb3d02376475bcf591d2a2f1ee4870b0766440c0609"


def test_the_bytes_are_those_of_every_record_so_far() -> None:
    assert weights_digest(tiny()) == WEIGHTS
    assert batch_digest(tiny()) == BATCH


def test_random_bytes_depend_on_seed_and_name_alone() -> None:
    assert random_bytes(1, "a", 4).hex() == "03c6802c"
    assert random_bytes(1, "a", 8)[:4] == random_bytes(1, "a", 4)
    assert len({random_bytes(seed, name, 8) for seed in (1, 2) for name in ("a", "b")}) == 4


def test_every_weight_is_exact_in_bfloat16() -> None:
    for weight in weights(tiny()):
        values = weight.values()
        assert len(values) == math.prod(weight.shape)
        wide = array.array("I", array.array("f", values).tobytes())
        assert array.array("f", values).tolist() == values
        assert all(bits & 0xFFFF == 0 for bits in wide)


def test_weights_are_spread_as_asked() -> None:
    gains = {name: gain for name, _shape, gain in parameters(tiny().model)}
    for weight in weights(tiny()):
        if weight.positive:
            assert all(0.5 <= value < 1 for value in weight.values())
        elif len(weight.data) >= 1024:
            wanted = gains[weight.name] / math.sqrt(weight.shape[-1])
            assert 0.65 < statistics.pstdev(weight.values()) / wanted < 1.5


def test_tokens_are_in_the_vocabulary_and_advantages_alternate() -> None:
    made = tokens(tiny())
    flat = [token for row in (*made.prompts, *made.sequences) for token in row]
    assert min(flat) >= 0
    assert max(flat) < tiny().model.vocab
    assert len(set(flat)) > 50
    assert made.advantages[:4] == (1.0, -1.0, 1.0, -1.0)
    assert {len(row) for row in made.sequences} == {tiny().batch.sequence_tokens}


def test_another_seed_is_another_batch() -> None:
    other = msgspec.structs.replace(tiny(), seed=7)
    assert weights_digest(other) != WEIGHTS
    assert batch_digest(other) != BATCH
