"""The page docs/symptoms.md, made from the catalogue; and how much of what is known is found, by which way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orbit.doctor.catalog import LISTS, Symptom, load_catalog

WHAT: Mapping[str, str] = {
    "toolchain": "building, installing and running the stack",
    "reports": "what people reported of wheels, environments and images",
    "cluster": "what people reported of clusters",
}
HEAD = """# symptoms: everything the doctor knows

Made from `env/symptoms/*.toml` by `orbit doctor --page`; a test holds the two together. `orbit doctor --about NAME`
shows an entry whole: what you see, the cause, what to do. How it is found: [doctor](doctor.md).
"""
KINDS: Mapping[str, str] = {
    "build": "Versions, compilers, packages",
    "layout": "Files, links, caches, locks",
    "loader": "Libraries and modules",
    "gpu": "GPUs and drivers",
    "transport": "Between trainer and engine",
    "node": "What a node or a container does not offer",
    "cluster": "Between nodes, schedulers and Ray",
    "quiet": "Ran, and measured nothing",
}
"""Files of env/symptoms, in the order in which the page shows them."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one list of known failures."""

    both: int
    """Found on a machine or in an environment, and by the text of an error."""
    live: int
    """On a machine or in an environment alone."""
    text: int
    """By the text of an error alone."""
    neither: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.both + self.live + self.text + self.neither


def coverage(catalog: Mapping[str, Symptom], name: str) -> Coverage:
    """How many failures of the list ``name`` are found, by which way; of several symptoms the best counts."""
    counts = {"both": 0, "live": 0, "text": 0, "neither": 0}
    for number in range(1, LISTS[name] + 1):
        own = [symptom for symptom in catalog.values() if f"{name}:{number}" in symptom.lists]
        counts[_way(any(s.live for s in own), any(s.patterns for s in own))] += 1
    return Coverage(**counts)


def count(catalog: Mapping[str, Symptom], key: str) -> int:
    """A number on a page by its key: ``all``, or a way of :class:`Coverage` over all lists (``neither``, ``total``)."""
    if key in ("", "all"):
        return len(catalog)
    return sum(int(getattr(coverage(catalog, name), key)) for name in LISTS)


def _way(live: bool, text: bool) -> str:
    return {(True, True): "both", (True, False): "live", (False, True): "text", (False, False): "neither"}[live, text]


def render_page() -> str:
    """The whole page."""
    catalog = load_catalog()
    return "\n".join([HEAD, *_coverage(catalog), *_tables(catalog), *_reasons(catalog)]) + "\n"


def _coverage(catalog: Mapping[str, Symptom]) -> Iterator[str]:
    yield f"## What is found\n\n{len(catalog)} entries, which answer for three lists of known failures.\n"
    yield "| list | failures | on the machine and by text | on the machine alone | by text alone | not at all |"
    yield "|---|---|---|---|---|---|"
    yield from coverage_rows(catalog)
    yield ""


def coverage_rows(catalog: Mapping[str, Symptom]) -> Iterator[str]:
    """A row of the table for each list."""
    for name, what in WHAT.items():
        found = coverage(catalog, name)
        cells = (found.total, found.both, found.live, found.text, found.neither)
        yield f"| `{name}`: {what} | {' | '.join(map(str, cells))} |"


def _tables(catalog: Mapping[str, Symptom]) -> Iterator[str]:
    for file, title in KINDS.items():
        yield f"## {title}\n\n| name | what it is | found here by | text | answers for |\n|---|---|---|---|---|"
        for symptom in catalog.values():
            if symptom.file == file:
                text = "yes" if symptom.patterns else "-"
                yield f"| `{symptom.id}` | {symptom.title} | {_seen_by(symptom)} | {text} | {' '.join(symptom.lists)} |"
        yield ""


def _seen_by(symptom: Symptom) -> str:
    ways = ["a look"] if symptom.detectors else []
    checks = [re.split("[=~]", each)[0] for each in symptom.checks if each != "*"]
    ways += [f"preflight `{name}`" for name in dict.fromkeys(checks)]
    ways += ["any other check of the preflight"] if "*" in symptom.checks else []
    ways += [f"audit [{rule}](rules/{rule}.md)" for rule in symptom.rules]
    ways += [f"lint [{rule}](rules/{rule}.md)" for rule in symptom.manifest]
    return ", ".join(ways) or "-"


def _reasons(catalog: Mapping[str, Symptom]) -> Iterator[str]:
    yield "## What is not found here, and why\n\n| name | why nothing on the machine shows it |\n|---|---|"
    yield from (f"| `{symptom.id}` | {symptom.unseen} |" for symptom in catalog.values() if symptom.unseen)
    yield "\n## What no text names, and why\n\n| name | why |\n|---|---|"
    yield from (f"| `{symptom.id}` | {symptom.untold} |" for symptom in catalog.values() if symptom.untold)
