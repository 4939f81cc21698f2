"""How long the nodes of a job wait for each other, by clocks that never jump; two nodes' are never compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """All in seconds."""

    lost: float = 30.0
    """Silence after which a node is lost; the three below are parts of it."""
    handshake: float = 10.0
    """For proofs, and for one attempt to connect."""
    retry: float = 1.0
    """Between rounds of attempts, at most."""

    @property
    def beat(self) -> float:
        """Between two signs of life."""
        return self.lost / 12

    @property
    def silent(self) -> float:
        """A connection on which nothing came for so long is given up: a half-open one, a cable that was pulled."""
        return self.lost / 2

    @property
    def away(self) -> float:
        """How long a node without a connection may take to come back."""
        return self.lost / 2
