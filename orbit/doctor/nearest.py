"""Entries that share rare words with a short text that no pattern matches: a guess, and called one."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping

from orbit.doctor.catalog import Symptom, load_catalog

WORD = re.compile(r"[a-z_][a-z0-9_]{3,}")
MOST_BYTES = 4000
"""Of a text; a longer one shares words with everything."""
MOST = 3
LEAST_SCORE = 4.5
"""Two rare words, or more of the common ones. In a catalogue of 130 entries a word of one entry alone counts 4.9."""
LONG_WORD = 9
"""Characters of a word that is enough by itself."""


def nearest(text: str) -> tuple[str, ...]:
    """Names of at most :data:`MOST` entries, the nearest first; none where too little is shared."""
    if len(text) > MOST_BYTES:
        return ()
    words, weights = set(WORD.findall(text.lower())), _weights()
    scores: dict[str, float] = {}
    for name, own in _words(load_catalog()).items():
        both = own & words
        if len(both) > 1 or any(len(word) >= LONG_WORD for word in both):
            scores[name] = sum(weights[word] for word in both)
    found = sorted((name for name, score in scores.items() if score >= LEAST_SCORE), key=lambda n: (-scores[n], n))
    return tuple(found[:MOST])


@functools.cache
def _weights() -> Mapping[str, float]:
    """How rare a word is in the catalogue."""
    own = _words(load_catalog())
    counts = Counter(word for words in own.values() for word in words)
    return {word: math.log(len(own) / count) for word, count in counts.items()}


def _words(catalog: Mapping[str, Symptom]) -> dict[str, frozenset[str]]:
    return {name: _own(symptom) for name, symptom in catalog.items()}


@functools.cache
def _own(symptom: Symptom) -> frozenset[str]:
    patterns = " ".join(re.sub(r"\\.|[^A-Za-z0-9_]+", " ", pattern) for pattern in symptom.patterns)
    return frozenset(WORD.findall(f"{symptom.id.replace('-', ' ')} {symptom.title} {symptom.sees} {patterns}".lower()))
