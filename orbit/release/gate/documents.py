"""Whether pages are true: links lead somewhere, commands exist with the options shown, stated counts are the data's.

The release gate and the tests of the house use this one code. Pages are read as text; nothing in them is run.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from orbit.core.findings import Finding, error_finding
from orbit.core.records import Record, load_toml
from orbit.doctor.catalog import load_catalog
from orbit.doctor.page import count as count_symptoms
from orbit.errors import InputError
from orbit.image.base.lock import load_base_lock, lock_path
from orbit.kernels.recipe import recipe_names
from orbit.profile.model import load_profile, profile_names
from orbit.profile.place import profile_lock
from orbit.release.checkout import git
from orbit.release.gate.facts import Documents

RULE = "page-truth"
PAGES = ("README.md", "docs/")
COUNTS = ("ci", "counts.toml")
COMMAND = re.compile(r"(?:^|[\s`$(])(orbit|\./orbitw) +([a-z][^\n`#|;&)]*)")
OUTSIDE = frozenset({"test"})
"""Words after ``./orbitw`` that are no command of ``orbit``."""
OPTION = re.compile(r"--[a-z][a-z0-9-]*")


class Count(Record, frozen=True, kw_only=True):
    """A number on a page that follows from data."""

    page: str
    text: str
    """The sentence, with ``{}`` where the number stands."""
    of: str
    """What it counts: a key of :data:`COUNTERS`, with a name behind a colon where it takes one."""


class Counts(Record, frozen=True, kw_only=True):
    """``ci/counts.toml``."""

    schema: int
    counts: tuple[Count, ...]


def check_documents(root: Path, parser: argparse.ArgumentParser) -> Documents:
    """Check every page of the checkout at ``root``; ``parser`` is that of the whole command line.

    Raises :class:`InputError` when the checkout's own data cannot be read.
    """
    names = page_names(root)
    found: list[Finding] = []
    checked = dict.fromkeys(("links", "commands", "counts"), 0)
    for page in names:
        text = (root / page).read_text(encoding="utf-8")
        for target in links(text):
            checked["links"] += 1
            found += _finding(page, bad_link(root, page, target), "correct the link, or bring back what it leads to")
        if page.startswith(PAGES):
            for line in commands(text):
                checked["commands"] += 1
                found += _finding(page, bad_command(parser, line), "show a command that works, or bring it back")
    for count in read_counts(root):
        checked["counts"] += 1
        found += _finding(
            count.page, bad_count(root, count), "write the number that is true, or correct ci/counts.toml"
        )
    return Documents(checked={"pages": len(names), **checked}, findings=tuple(found))


def page_names(root: Path) -> list[str]:
    """Every Markdown page of the checkout that git knows or does not ignore, relative to ``root``."""
    listed = git(
        root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md", doing="listing the pages"
    )
    return [name for name in sorted(set(listed.split("\0"))) if name and (root / name).is_file()]


def _finding(page: str, problem: str, fix: str) -> Iterator[Finding]:
    if problem:
        yield error_finding(RULE, page, problem, {}, fix)


# --- links ------------------------------------------------------------------------------------------------------------


def links(text: str) -> list[str]:
    """Targets of the page's own links; addresses elsewhere are left out."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", target)]


def bad_link(root: Path, page: str, target: str) -> str:
    """Why a link of ``page`` leads nowhere; empty when it does not."""
    path, _, anchor = target.partition("#")
    there = (root / page).parent / path if path else root / page
    if not there.exists():
        return f"{target} leads nowhere"
    if anchor and anchor not in anchors(there):
        return f"{target} has no such section"
    return ""


def headings(page: Path) -> list[str]:
    """Text of the headings of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [line.lstrip("#").strip().strip("`") for line in lines if re.match("#+ ", line)]


def anchors(page: Path) -> set[str]:
    """What a link can name behind ``#``, as GitHub and GitLab make it."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


# --- commands ---------------------------------------------------------------------------------------------------------


def code_of(text: str) -> str:
    """The code of a page: fenced blocks and inline spans."""
    fenced = re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join([*fenced, *re.findall(r"`([^`\n]+)`", rest)])


def commands(text: str) -> list[str]:
    """What the page shows behind ``orbit`` or ``./orbitw``, one command line each."""
    found = COMMAND.findall(code_of(text))
    return [line.strip() for wrapper, line in found if wrapper == "orbit" or line.split()[0] not in OUTSIDE]


def bad_command(parser: argparse.ArgumentParser, line: str) -> str:
    """What of a command line today's parser does not know: a command, an action, an option; empty when it knows all.

    Values are not judged: pages write NAME, [...] and | for them.
    """
    # help and aligned remarks stand two blanks behind the command
    line = re.split(r" {2,}", line.strip())[0]
    words = line.split()
    here = parser
    for word in words:
        inner = _choices(here)
        if inner is None or not re.fullmatch(r"[a-z][a-z-]+", word):
            break
        if word not in inner:
            return f"`orbit {line}`: no command {word!r}"
        here = inner[word]
    known = {option for action in here._actions for option in action.option_strings}  # noqa: SLF001 - argparse has no way
    unknown = [option for option in OPTION.findall(" ".join(words)) if option not in known]
    return f"`orbit {line}`: no option {unknown[0]}" if unknown and _choices(here) is None else ""


def unknown_command(parser: argparse.ArgumentParser, words: list[str]) -> str:
    """The first word that names no command; empty when all do."""
    inner = _choices(parser)
    if inner is None or not words or not re.fullmatch(r"[a-z][a-z-]+", words[0]):
        return ""
    return unknown_command(inner[words[0]], words[1:]) if words[0] in inner else words[0]


def _choices(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser] | None:
    """The commands or actions below a parser; None when it has none."""
    for action in parser._subparsers._group_actions if parser._subparsers else []:  # noqa: SLF001 - argparse has no way
        if isinstance(action.choices, dict):
            return action.choices
    return None


# --- counts -----------------------------------------------------------------------------------------------------------


def read_counts(root: Path) -> tuple[Count, ...]:
    """The entries of ``ci/counts.toml``. Raises :class:`InputError` for one that counts nothing known."""
    path = root.joinpath(*COUNTS)
    read = load_toml(path, Counts)
    if read.schema != 1:
        raise InputError(f"{path}: schema {read.schema} is not known", fix="this version of orbit reads schema 1")
    for number, count in enumerate(read.counts):
        if count.of.partition(":")[0] not in COUNTERS or count.text.count("{}") != 1:
            raise InputError(
                f"{path}: counts[{number}]: of = {count.of!r}, text = {count.text!r}",
                fix=f"of is one of {', '.join(COUNTERS)}; text has one {{}} where the number stands",
            )
    return read.counts


def bad_count(root: Path, count: Count) -> str:
    """What is wrong with a number on a page; empty when it is the data's."""
    kind, _, name = count.of.partition(":")
    right = COUNTERS[kind](root, name)
    page = root / count.page
    if not page.is_file():
        return "no such page, and ci/counts.toml names it"
    pattern = re.escape(count.text).replace(r"\{\}", r"([0-9][0-9,]*)")
    said = {text.replace(",", "") for text in re.findall(pattern, page.read_text(encoding="utf-8"))}
    if not said:
        return f"does not say {count.text!r}, and ci/counts.toml names it"
    wrong = sorted(said - {str(right)})
    return f"says {count.text.replace('{}', wrong[0])!r}; there are {right}" if wrong else ""


def _packages(root: Path, name: str) -> int:
    profile = load_profile(name)
    return len(profile_lock(profile, root).closure(profile.extras))


COUNTERS: Mapping[str, Callable[[Path, str], int]] = {
    "packages": _packages,
    "base-packages": lambda _root, name: len(load_base_lock(lock_path(name)).packages),
    "recipes": lambda _root, _name: len(recipe_names()),
    "profiles": lambda _root, _name: len(profile_names()),
    "symptoms": lambda _root, name: count_symptoms(load_catalog(), name),
}
"""What can be counted, by name."""
