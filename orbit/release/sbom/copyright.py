"""The licences of a Debian package, by its copyright file (Debian policy 12.5; machine-readable ones: DEP 5, 1.0)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orbit.audit.installed.tree import resolve
from orbit.image.base.control import paragraphs
from orbit.release.sbom.contents import Contents
from orbit.release.sbom.expressions import all_of, canonical_expression, reference
from orbit.release.sbom.knowledge import Knowledge
from orbit.release.sbom.model import Licence, LicenceText, Said, tidy

FORMAT = re.compile(r"copyright-format|dep5|dep-5", re.IGNORECASE)
AND_OR = re.compile(r"\s+(and/or|and|or)\s+", re.IGNORECASE)
COMMA = re.compile(r",\s*(?=(?:and|or)\s)", re.IGNORECASE)
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9.+_/-]*( with [A-Za-z0-9. _-]+ exceptions?)?$", re.IGNORECASE)
DOC = "usr/share/doc"


def licence_of(contents: Contents, package: str, siblings: Sequence[str], known: Knowledge) -> Licence:
    """The licences of all files of the source of ``package``: its copyright file speaks of no binary alone.

    Where the package has none (its documentation folder was a link to that of another package, Debian policy 12.5, and
    the link is not in the image), that of a sibling counts: a package of the same source and version that it needs.
    """
    own = f"{DOC}/{package}/copyright"
    path = next(
        (place for place in (own, *(f"{DOC}/{name}/copyright" for name in siblings)) if contents.read(place)), own
    )
    found = path if path in contents.tree.entries else resolve(contents.tree, path)
    text = contents.read(path)
    if found is None or text is None:
        return Licence(unknown="no copyright file", missing=(f"/{path}",))
    missing = () if path == own else (f"/{own}",)
    fact = contents.tree.entries.get(found)
    texts = (LicenceText(path=f"/{path}", sha256=contents.sha256(path), size=fact.size if fact else 0),)
    names, problem = read_copyright(text)
    if problem:
        return Licence(unknown=problem, texts=texts, missing=missing)
    parts = [to_expression(name, known) for name in names]
    if "" in parts:
        strange = names[parts.index("")]
        said = tuple(Said(where="copyright", text=tidy(name)) for name in names)
        return Licence(
            unknown=f"short name {tidy(strange, 80)!r} cannot be read", said=said, texts=texts, missing=missing
        )
    expression = canonical_expression(all_of(parts))
    said = tuple(Said(where="copyright", text=tidy(name)) for name in names)
    return Licence(expression=expression, declared=expression, said=said, texts=texts, missing=missing)


def read_copyright(text: bytes) -> tuple[tuple[str, ...], str]:
    """(short names of the licences of all files, why there are none). Names are distinct and sorted."""
    lines = text.decode("utf-8", "replace").split("\n")
    found = list(paragraphs(lines))
    head = found[0].get("Format", found[0].get("Format-Specification", "")) if found else ""
    if not FORMAT.search(head):
        return (), "its copyright file is not machine-readable"
    names = [fields.get("License", "").partition("\n")[0].strip() for fields in found if "Files" in fields]
    if not names or "" in names:
        return (), "its copyright file names no licence for some files"
    return tuple(sorted(set(names))), ""


def to_expression(name: str, known: Knowledge) -> str:
    """A short name, or several with ``and`` and ``or``, as an SPDX expression; empty when it cannot be read.

    What SPDX does not know keeps its name: ``BSD-4-clause-POWERDOG`` is ``LicenseRef-Debian-BSD-4-clause-POWERDOG``.
    """
    groups = []
    for group in COMMA.split(name):
        words = AND_OR.split(re.sub(r"^(and|or)\s+", "", group, flags=re.IGNORECASE))
        texts = [_one(word.strip(), known) if place % 2 == 0 else _operator(word) for place, word in enumerate(words)]
        if "" in texts:
            return ""
        groups.append(f"({' '.join(texts)})" if len(texts) > 1 else texts[0])
    links = re.findall(r",\s*(and|or)\s", name, flags=re.IGNORECASE)
    if len(links) != len(groups) - 1:
        return ""
    if len(groups) == 1:
        return canonical_expression(groups[0].removeprefix("(").removesuffix(")") if "(" in groups[0] else groups[0])
    whole = groups[0] + "".join(f" {link.upper()} {group}" for link, group in zip(links, groups[1:], strict=True))
    return canonical_expression(whole)


def _operator(word: str) -> str:
    """``and/or`` lets the reader choose: ``OR``."""
    return "AND" if word.lower() == "and" else "OR"


def _one(name: str, known: Knowledge) -> str:
    if found := known.debian.get(name.lower()):
        return found
    return reference(f"Debian-{name.replace('+', '-or-later')}") if NAME.match(name) else ""
