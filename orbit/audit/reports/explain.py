"""The page of a rule, for a terminal: ``orbit audit explain RULE``. The pages are docs/rules/<id>.md."""

from __future__ import annotations

import difflib
import functools
import re
import textwrap
from collections.abc import Iterator

from orbit.audit.rules import RULES, TITLES
from orbit.core.paths import data_file
from orbit.errors import InputError

RULE_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
LONGEST = 80
"""Characters of a rule id."""
WIDTH = 100
NEAR = 3
"""How many similar ids an error names."""


def rule_page(rule: str) -> str:
    """The Markdown page of a rule, or empty when there is none of that name."""
    if len(rule) > LONGEST or not RULE_ID.fullmatch(rule):
        return ""
    path = data_file("docs", "rules", f"{rule}.md")
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@functools.cache
def title_of(rule: str) -> str:
    """What holds when a rule is silent; for one that is not the audit's own the first words of its page."""
    return TITLES.get(rule) or " ".join(sections(rule_page(rule))[""].split())


def sections(page: str) -> dict[str, str]:
    """The ``##`` sections of a page by heading, as Markdown; what stands before the first is under the empty name."""
    found = {"": ""}
    name = ""
    for line in page.splitlines(keepends=True):
        if line.startswith("## "):
            name = line[3:].strip()
            found[name] = ""
        elif not line.startswith("# "):
            found[name] += line
    return {name: text.strip() for name, text in found.items()}


def explain(rule: str, *, width: int | None = None, color: bool = False) -> str:
    """What people see, why, how it is found and what to do, as text for a terminal.

    Raises :class:`InputError` naming similar rules when there is none of that name.
    """
    page = rule_page(rule) or (f"# {rule}\n" if rule in TITLES else "")
    if not page:
        near = difflib.get_close_matches(rule, TITLES, NEAR, 0.4) or [name for name in TITLES if rule and rule in name]
        guess = f"did you mean {', '.join(near[:NEAR])}? " if near else ""
        raise InputError(f"no rule named {rule!r}", fix=f'{guess}"orbit audit explain" lists the rules')
    lines = list(_lines(page, width or WIDTH, color))
    if rule in TITLES:
        place = 1 if color else 2  # below the heading
        lines[place:place] = textwrap.wrap(f"wanted: {TITLES[rule]}", width or WIDTH)
    return "\n".join(lines).rstrip() + "\n"


def list_rules() -> str:
    """Every rule with what holds when it finds nothing, by the room it stands in."""
    rooms: dict[str, list[str]] = {}
    for name in TITLES:
        rooms.setdefault(_room(name), []).append(name)
    width = max(map(len, TITLES))
    lines = []
    for room, names in rooms.items():
        lines += [room, *(f"  {name:{width}}  {TITLES[name]}" for name in names), ""]
    lines.append("orbit audit explain RULE prints the page of a rule")
    return "\n".join(lines) + "\n"


def _room(rule: str) -> str:
    """``integrity``, ``coverage``, ...: the package of the rule's module."""
    if rule not in RULES:
        return "depth (--deep)"
    parts = RULES[rule].check.__module__.split(".")
    return parts[3] if len(parts) > 4 else "expectations"


def _lines(page: str, width: int, color: bool) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", page.strip()):
        lines = block.splitlines()
        if lines[0].startswith("#"):
            heading = lines.pop(0).lstrip("#").strip()
            yield f"\x1b[1m{heading}\x1b[0m" if color else heading
            if not color:
                yield "-" * len(heading)
        yield from _body(lines, width, color)
        yield ""


def _body(lines: list[str], width: int, color: bool) -> Iterator[str]:
    """Prose, lists and the rows of tables wrapped anew; code and what is indented as it is."""
    prose: list[str] = []
    fenced = False
    for line in [*_rows(lines), ""]:
        item = re.match(ITEM, line)
        verbatim = fenced or line.startswith(("    ", "```"))
        if prose and (verbatim or item or not line):
            yield from _wrapped(" ".join(prose), width, color)
            prose = []
        if line.startswith("```"):
            fenced = not fenced
        elif verbatim:
            yield f"    {line}" if fenced else line
        elif line:
            prose.append(line.strip())


def _rows(lines: list[str]) -> Iterator[str]:
    """A table as a list: ``- first: second; third``. Its headings go: the page's words say what the columns are."""
    table = [line for line in lines if line.startswith("|")]
    for line in lines:
        if line not in table:
            yield line
        elif line not in table[:1] and not re.fullmatch(r"[|: -]+", line):
            first, *rest = (cell.strip() for cell in line.strip().strip("|").split("|"))
            yield f"- {first}: {'; '.join(cell for cell in rest if cell)}"


def _wrapped(text: str, width: int, color: bool) -> list[str]:
    item = re.match(ITEM, text)
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    text = re.sub(r"(?<![\w*])\*{1,2}(?! )([^*]+)(?<! )\*{1,2}(?![\w*])", r"\1", text)
    lines = textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * item.end() if item else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [re.sub(r"`([^`]+)`", "\x1b[36m\\1\x1b[0m", line) for line in lines] if color else lines
