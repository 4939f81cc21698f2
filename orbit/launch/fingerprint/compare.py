"""What differs between fingerprints: nodes that agree are a group, and the largest is what others differ from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orbit.launch.fingerprint.model import Fingerprint, must_agree
from orbit.launch.preflight.ranges import compress

MOST_LINES = 40
"""Of one field; the rest is counted."""
MAY_DIFFER = ("driver", "devices")


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes with one fingerprint, as far as it must agree."""

    hosts: tuple[str, ...]
    one: Fingerprint

    @property
    def title(self) -> str:
        """``998 nodes: gpu-[001-998]``."""
        return f"{counted(len(self.hosts))}: {compress(self.hosts)}"


def groups(reports: Iterable[tuple[str, Fingerprint]]) -> tuple[Group, ...]:
    """Nodes (name, fingerprint) by what they agree in: the largest group first; of equals the one that came first."""
    by_key: dict[str, tuple[list[str], Fingerprint]] = {}
    for host, one in reports:
        by_key.setdefault(one.agreed, ([], one))[0].append(host)
    found = [Group(tuple(hosts), one) for hosts, one in by_key.values()]
    return tuple(sorted(found, key=lambda group: -len(group.hosts)))


def differences(reports: Iterable[tuple[str, Fingerprint]]) -> tuple[str, ...]:
    """Lines like those of a diff, for each group that differs from the largest one; nothing when all nodes agree.

    ``---`` is the largest group, ``+++`` the one that differs; then each field with what both have.
    """
    most, *others = groups(reports) or (None,)
    lines: list[str] = []
    for group in others:
        if most is not None:
            lines += [f"--- {most.title}", f"+++ {group.title}", *_fields(most.one, group.one)]
    return tuple(lines)


def remarks(reports: Iterable[tuple[str, Fingerprint]]) -> tuple[str, ...]:
    """What differs and may: driver and devices, a line for each value with the nodes that have it."""
    pairs = list(reports)
    lines: list[str] = []
    for name in MAY_DIFFER:
        by_value: dict[str, list[str]] = {}
        for host, one in pairs:
            by_value.setdefault(_text(getattr(one, name)), []).append(host)
        if len(by_value) > 1:
            lines += [f"{name}: {value} on {compress(hosts)}" for value, hosts in by_value.items()]
    return tuple(lines)


def doubles(one: Fingerprint) -> tuple[str, ...]:
    """Libraries that are mapped more than once with different content: ``libcudnn.so.9: PATH and PATH``."""
    by_name: dict[str, dict[str, str]] = {}
    for library in one.libraries:
        by_name.setdefault(library.name, {}).setdefault(library.sha256, library.path)
    return tuple(f"{name}: {' and '.join(found.values())}" for name, found in by_name.items() if len(found) > 1)


def counted(number: int) -> str:
    """``1 node``, ``7 nodes``."""
    return f"{number} node{'' if number == 1 else 's'}"


def _fields(old: Fingerprint, new: Fingerprint) -> Iterator[str]:
    before, after = must_agree(old), must_agree(new)
    for name in before:
        if before[name] == after[name]:
            continue
        yield f"  {name}"
        if name == "libraries" and not (old.libraries and new.libraries):
            count = len(old.libraries or new.libraries)
            yield f"{'-' if old.libraries else '+'} {count} mapped; the other was taken without --loaded"
        else:
            yield from _diff(_lines(old, name), _lines(new, name))


def _diff(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Lines of one side alone, those of one library or version side by side."""
    gone, come = set(old) - set(new), set(new) - set(old)
    lines = [f"- {line}" for line in gone] + [f"+ {line}" for line in come]
    lines.sort(key=lambda line: (line[2:].split(" ")[0] if len(old) > 1 or len(new) > 1 else "", line[0] == "+", line))
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"  and {len(lines) - MOST_LINES} more lines"


def _lines(one: Fingerprint, name: str) -> list[str]:
    if name == "libraries":
        return [f"{each.name} {_short(each.sha256)}" for each in one.libraries if each.inside]
    if name == "versions":
        return [f"{key} {value}" for key, value in sorted(one.versions.items())]
    return [_text(getattr(one, name))]


def _text(value: object) -> str:
    return (", ".join(value) if isinstance(value, tuple) else str(value)) or "nothing"


def _short(sha256: str) -> str:
    return f"sha256:{sha256[:16]}" if sha256 else "(cannot be read any more)"
