"""What a detector says."""

from __future__ import annotations

from dataclasses import dataclass

from orbit.doctor.catalog import Certainty


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that is wrong: a sentence with the value found, and how sure its cause is."""

    message: str
    certainty: Certainty = Certainty.CERTAIN


def likely(message: str) -> Seen:
    """Mostly the cause."""
    return Seen(message, Certainty.LIKELY)


def possible(message: str) -> Seen:
    """A cause among others, or a risk."""
    return Seen(message, Certainty.POSSIBLE)
