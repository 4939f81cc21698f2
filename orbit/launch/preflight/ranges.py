"""Many hosts or ranks in few words: ``gpu-[001-004,007]``, ``ranks 0-3, 7``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$")
"""The last number of a name: ``gpu-12.site.example`` has 12."""


def compress(hosts: Iterable[str]) -> str:
    """Names that differ in their last number alone are one, with ranges; the order is that of the names."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    alone: list[str] = []
    for host in dict.fromkeys(hosts):
        match = NUMBERED.match(host)
        if match is None:
            alone.append(host)
        else:
            # 7 and 12 belong together, 07 and 7 do not: leading zeros fix the width
            width = len(match[2]) if match[2].startswith("0") else 0
            groups.setdefault((match[1], match[3], width), []).append(int(match[2]))
    _join_widths(groups)
    found = list(alone)
    for (before, after, width), numbers in groups.items():
        text = spans(numbers, width)
        found.append(f"{before}{text}{after}" if len(numbers) == 1 else f"{before}[{text}]{after}")
    return ", ".join(sorted(found))


def ranks_of(ranks: Sequence[int]) -> str:
    """``rank 7``, ``ranks 0-3,7``."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {spans(ranks)}"


def spans(numbers: Iterable[int], width: int = 0) -> str:
    """``1-4,7`` of whole numbers, each with at least ``width`` digits."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in runs)


def _join_widths(groups: dict[tuple[str, str, int], list[int]]) -> None:
    """099 and 100 are of one family: numbers as long as a padded family's belong to it."""
    for before, after, width in [key for key in groups if not key[2]]:
        for padded in [key[2] for key in groups if key[:2] == (before, after) and key[2]]:
            plain = groups.get((before, after, width), [])
            fits = [number for number in plain if len(str(number)) == padded]
            groups[(before, after, padded)] += fits
            rest = [number for number in plain if number not in fits]
            groups[(before, after, width)] = rest
        if not groups[(before, after, width)]:
            del groups[(before, after, width)]
