"""Why two builds differ: what in their bytes comes from the circumstances of a build, and what is another result.

Texts in binaries are compared as a whole, not place by place: a path that is one byte longer moves everything behind
it. Each circumstance is a pattern that is taken out of both texts; two texts that are then equal differ by it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

CAUSES: Mapping[str, str] = {
    "build-folder": "the path of the folder it was built in, in file names that compilers write down",
    "internal-name": "names of internal functions, made of the source's absolute path and a process number",
    "temporary-name": "names of temporary files, with a process number or random letters",
    "build-time": "the time of the build (__DATE__, __TIME__)",
    "compiler": "another release of a compiler or build tool",
    "build-id": "the linker's build id, which is a hash of everything else",
    "moved": "tables and addresses that moved because something else has another length",
    "packing": "compressed differently, with equal content",
    "member-order": "members are in another order",
    "member-date": "members have other dates",
    "member-mode": "members have other permissions",
    "record": "RECORD has the digests of what differs",
    "missing": "members, sections or images that only one has",
    "code": "machine code differs",
    "data": "data differ",
    "unknown": "bytes of the archive between its members differ",
}
"""What each cause is, the circumstances of a build first."""
REAL = frozenset({"missing", "code", "data", "unknown"})
"""Causes that are no circumstance: the two builds gave different results."""

TEXT = re.compile(rb"[\x20-\x7e\t]{4,}")
ZEROS = re.compile(rb"\0+")
PATH = re.compile(r"(?:(?<![\w.])|(?<=\b[IL]))(?P<folder>/?(?:[\w.+@~-]+/)+)(?P<name>[\w.+@~-]*)")
ABSOLUTE = re.compile(rb"/(?:[\w.+@~-]+/)+[\w.+@~-]*")
INTERNAL = re.compile(
    r"(?P<before>\d*)(?P<head>(?:_GLOBAL__N_|_INTERNAL|_NV_STATIC)?_[0-9a-f]{8}_\d+_)(?P<name>\w+?)_[0-9a-f]{8}"
    r"(?P<after>_\d+)?"
)
PART_BYTES = 1 << 20
"""Of data that are changed at once."""
HASH_BYTES = 9
"""A hash with its underscore."""
TEMPORARY = re.compile(r"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}(?:-\d+)?_|\bcc[A-Za-z0-9]{6}(?=\.)|\btmp[a-z0-9_]{8}\b")
MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
TIME = re.compile(
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?{MONTH} +\d{{1,2}}(?: \d{{2}}:\d{{2}}:\d{{2}})? \d{{4}}"
    r"|\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?|\b\d{2}:\d{2}:\d{2}\b"
)
TOOL = re.compile(
    r"GCC: \(.*?\) [\d.]+(?: \d{8})?|release [\d.]+, V[\d.]+|Build cuda_[\w.]+/compiler\.[\w]+|(?:clang|LLVM|LLD) "
    r"(?:version )?[\d.]+[\w.+~-]*|^Generator: .*|^Wheel-Version: .*|^Metadata-Version: .*"
)


def _without_folder(match: re.Match[str]) -> str:
    """The file's name; an absolute path that ends without a suffix is that of a folder, and nothing of it stays."""
    is_folder = match["folder"].startswith("/") and "." not in match["name"]
    return "<folder>" if is_folder else f"<folder>{match['name']}"


def _without_ids(match: re.Match[str]) -> str:
    """The source's name of an internal name, with the digits before and after it that belong to something else.

    In a mangled name its length stands before it, and the length of what follows behind it: ``...c_179756ignore`` is
    process 17975 and ``6ignore``, which the length before it says.
    """
    before, after = match["before"], match["after"] or ""
    length = len(match["head"]) + len(match["name"]) + HASH_BYTES
    for taken in range(len(after), -1, -1):
        if taken != 1 and before.endswith(str(length + taken)):
            before = before.removesuffix(str(length + taken))
            return f"{before}<internal {match['name']}>{after[taken:]}"
    return f"{before}<internal {match['name']}>"


type Change = Callable[[str], str]
TAKEN_OUT: Mapping[str, Change] = {
    "temporary-name": lambda text: TEMPORARY.sub("<temporary>", text),
    "internal-name": lambda text: INTERNAL.sub(_without_ids, text),
    "build-time": lambda text: TIME.sub("<time>", text),
    "compiler": lambda text: TOOL.sub("<tool>", text),
    "build-folder": lambda text: PATH.sub(_without_folder, text),
}
"""What a text becomes without each circumstance, in the order in which they are taken out."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What became of the texts that only one of two sides has."""

    causes: frozenset[str]
    """Circumstances that explain pairs of them."""
    pairs: Mapping[str, tuple[str, str]]
    """The first of them for each cause, left and right."""
    left: tuple[str, ...]
    """Texts that nothing explains."""
    right: tuple[str, ...]

    @property
    def explained(self) -> bool:
        """Whether every text has its partner."""
        return not self.left and not self.right


def texts_of(data: bytes) -> Counter[str]:
    """The printable texts of at least four characters, with how often each is there."""
    return Counter(match.decode("ascii") for match in TEXT.findall(data))


def skeleton(data: bytes) -> bytes:
    """``data`` without texts, each run of zeros as one: equal for two that differ in texts and padding only."""
    return squeezed(data, lambda part: TEXT.sub(b"\0", part))


def squeezed(data: bytes, change: Callable[[bytes], bytes] = bytes) -> bytes:
    """``data`` with runs of zeros as one, after ``change`` (which looks at no zeros).

    Part by part, each ending with a zero: of 50 MB with a zero at every tenth byte a substitution would hold gigabytes.
    """
    found = bytearray()
    at = 0
    while at < len(data):
        end = data.find(b"\0", at + PART_BYTES) + 1 or len(data)
        part = ZEROS.sub(b"\0", change(data[at:end]))
        found += part[1:] if found[-1:] == part[:1] == b"\0" else part
        at = end
    return bytes(found)


def plain(text: str) -> str:
    """``text`` without any circumstance of a build."""
    for change in TAKEN_OUT.values():
        text = change(text)
    return text


def explain(left: Counter[str], right: Counter[str]) -> Texts:
    """Pair the texts of two sides that are equal without the circumstances of a build."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for text in (right - left).elements():
        waiting[plain(text)].append(text)
    causes: set[str] = set()
    pairs: dict[str, tuple[str, str]] = {}
    alone = []
    for text in (left - right).elements():
        partners = waiting.get(plain(text))
        if not partners:
            alone.append(text)
            continue
        partner = partners.pop()
        for cause in differing(text, partner):
            causes.add(cause)
            pairs.setdefault(cause, (text, partner))
    rest = sorted(text for partners in waiting.values() for text in partners)
    return Texts(frozenset(causes), pairs, tuple(sorted(alone)), tuple(rest))


def differing(one: str, two: str) -> tuple[str, ...]:
    """The circumstances without which two texts would be equal: those that must be taken out for it."""
    needed = []
    for cause in TAKEN_OUT:
        left, right = one, two
        for other, change in TAKEN_OUT.items():
            if other != cause:
                left, right = change(left), change(right)
        if left != right:
            needed.append(cause)
    return tuple(needed) or ("build-folder",)


def paths_in(data: bytes) -> frozenset[str]:
    """Absolute paths of at least one folder."""
    return frozenset(match.decode("ascii") for match in ABSOLUTE.findall(data))


def is_circumstance(causes: Iterable[str]) -> bool:
    """Whether all of ``causes`` are circumstances of a build."""
    return REAL.isdisjoint(causes)
