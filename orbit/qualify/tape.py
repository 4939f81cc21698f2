"""A tape: every tensor of a computation in the order it came to be, with what it was made from.

The tape knows no tensor library. What computes hands it :class:`orbit.qualify.values.Bits`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from orbit.core.records import Record
from orbit.qualify.values import Bits, Stats

INPUT, DECODE, FORWARD, BACKWARD, STEP = "input", "decode", "forward", "backward", "step"
PHASES = (INPUT, DECODE, FORWARD, BACKWARD, STEP)

TOKENS = (DECODE, "tokens")
LOGPROBS = (DECODE, "logprobs")
MARGINS = (DECODE, "margins")
SCORES = (FORWARD, "logprobs")
LOSS = (FORWARD, "loss")
GRAD_NORM = (BACKWARD, "grad norm")
"""Phase and name of the entries that comparisons by tolerance read."""


class Entry(Record, frozen=True, kw_only=True):
    """One tensor of a tape; its place in the list is its order."""

    phase: str
    """One of :data:`PHASES`."""
    op: str
    """What made it, e.g. ``linear`` or ``linear backward``."""
    name: str
    """Where in the model; unique in its phase."""
    inputs: tuple[int, ...] = ()
    """Places of the tensors it was made from."""
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    """Of its bytes."""
    stats: Stats | None = None
    kept: bool = True
    """Whether its bytes are in the file beside the record."""

    @property
    def key(self) -> tuple[str, str]:
        """What names it in another tape of the same computation."""
        return self.phase, self.name


class Tape:
    """Collects entries; ``store`` is handed the bytes of those of at most ``keep_bytes``, each content once."""

    def __init__(self, store: Callable[[str, bytes], None], keep_bytes: int) -> None:
        self.entries: list[Entry] = []
        self._store = store
        self._keep_bytes = keep_bytes
        self._stored: set[str] = set()
        self._keys: set[tuple[str, str]] = set()

    def add(self, phase: str, op: str, name: str, bits: Bits, inputs: Sequence[int] = ()) -> int:
        """Note one tensor and return its place. Raises ValueError for a name that the phase has already."""
        if (phase, name) in self._keys:
            raise ValueError(f"{phase} {name}: is on the tape already")
        digest = hashlib.sha256(bits.data).hexdigest()
        kept = len(bits.data) <= self._keep_bytes
        if kept and digest not in self._stored:
            self._store(digest, bits.data)
            self._stored.add(digest)
        self._keys.add((phase, name))
        self.entries.append(
            Entry(
                phase=phase,
                op=op,
                name=name,
                inputs=tuple(inputs),
                dtype=bits.dtype,
                shape=bits.shape,
                sha256=digest,
                stats=bits.stats,
                kept=kept,
            )
        )
        return len(self.entries) - 1
