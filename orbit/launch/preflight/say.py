"""Checks as they are written: one sentence with the limit and the value, one with what to do. Amounts in binary units,
as ``--shm-size`` and cgroups count them."""

from __future__ import annotations

from orbit.launch.preflight.model import Check, State

MIB, GIB = 1 << 20, 1 << 30


def passed(name: str, message: str, **found: object) -> Check:
    """It is as it must be."""
    return Check(name=name, state=State.PASSED, message=message, found=_texts(found))


def failed(name: str, message: str, fix: str, **found: object) -> Check:
    """The job must not run here."""
    return Check(name=name, state=State.FAILED, message=message, fix=fix, found=_texts(found))


def warned(name: str, message: str, fix: str, **found: object) -> Check:
    """It runs, and somebody should know."""
    return Check(name=name, state=State.WARNING, message=message, fix=fix, found=_texts(found))


def skipped(name: str, reason: str, **found: object) -> Check:
    """It was not looked at."""
    return Check(name=name, state=State.SKIPPED, message=reason, found=_texts(found))


def size(count: int) -> str:
    """``64 MiB``, ``15.5 GiB``, ``2 TiB``."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} bytes"


def line(check: Check) -> str:
    """The check on one line: what is wrong and what to do."""
    message = " ".join(check.message.split())
    return f"{message}; fix: {' '.join(check.fix.split())}" if check.fix else message


def _texts(found: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in found.items()}
