"""SPDX licence expressions (SPDX 2.3 annex D): which licences they name, and the best that a reader may choose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

TOKEN = re.compile(r"\(|\)|[^\s()]+")
MAX_CHARS = 4000
MAX_DEPTH = 50
NOT_IN_NAME = re.compile(r"[^A-Za-z0-9.-]+")


class Term(NamedTuple):
    """A part of an expression: a licence (``word`` is its id, with its exception) or ``AND``/``OR`` of ``parts``."""

    word: str
    parts: tuple[Term, ...] = ()


def canonical_expression(text: str) -> str:
    """``text`` as a canonical SPDX expression; empty when it is none."""
    if len(text) > MAX_CHARS or text.count("(") > MAX_DEPTH:
        return ""
    try:
        return str(canonicalize_license_expression(text))
    except (InvalidLicenseExpression, RecursionError, SyntaxError, ValueError, MemoryError):
        return ""


def parse(expression: str) -> Term:
    """The structure of a canonical expression."""
    tokens = TOKEN.findall(expression)[::-1]

    def either() -> Term:
        parts = [both()]
        while tokens and tokens[-1] == "OR":
            tokens.pop()
            parts.append(both())
        return parts[0] if len(parts) == 1 else Term("OR", tuple(parts))

    def both() -> Term:
        parts = [one()]
        while tokens and tokens[-1] == "AND":
            tokens.pop()
            parts.append(one())
        return parts[0] if len(parts) == 1 else Term("AND", tuple(parts))

    def one() -> Term:
        word = tokens.pop()
        if word == "(":
            inner = either()
            tokens.pop()
            return inner
        if len(tokens) > 1 and tokens[-1] == "WITH":
            tokens.pop()
            word = f"{word} WITH {tokens.pop()}"
        return Term(word)

    return either()


def licences_in(expression: str) -> tuple[str, ...]:
    """The licences that a canonical expression names, each once, with their exceptions, sorted."""
    found: set[str] = set()
    pending = [parse(expression)] if expression else []
    while pending:
        term = pending.pop()
        pending += term.parts
        if not term.parts:
            found.add(term.word)
    return tuple(sorted(found))


def weigh(expression: str, weight: Callable[[str], int]) -> int:
    """The weight of an expression: of ``AND`` the heaviest part counts, of ``OR`` the lightest."""

    def of(term: Term) -> int:
        if not term.parts:
            return weight(term.word)
        return (max if term.word == "AND" else min)(of(part) for part in term.parts)

    return of(parse(expression))


def all_of(expressions: Iterable[str]) -> str:
    """One expression that demands all of ``expressions``; each part once, sorted."""
    parts: set[str] = set()
    for expression in expressions:
        term = parse(expression)
        parts |= {render(part) for part in term.parts} if term.word == "AND" else {render(term)}
    return " AND ".join(f"({part})" if parse(part).word == "OR" and len(parts) > 1 else part for part in sorted(parts))


def render(term: Term) -> str:
    """The expression of a term."""
    if not term.parts:
        return term.word
    texts = [f"({render(part)})" if part.parts else part.word for part in term.parts]
    return f" {term.word} ".join(texts)


def reference(name: str) -> str:
    """A licence that has no SPDX id, as one that SPDX can refer to: ``LicenseRef-`` and its name."""
    return "LicenseRef-" + (NOT_IN_NAME.sub("-", name).strip("-.")[:100] or "unnamed")
