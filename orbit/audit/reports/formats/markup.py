"""HTML that cannot forget to escape: every plain string is text, only what :func:`el` made is markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import msgspec

from orbit.audit.reports.view import visible

VOID = frozenset(("input", "meta"))


class Html(str):
    """Finished markup."""

    __slots__ = ()


def text(value: str) -> Html:
    """``value`` as visible text: markup, quotes, controls and what reorders a line are all written out."""
    return Html(html.escape(visible(value), quote=True))


def el(name: str, /, *children: str | Html, cls: str = "", **attributes: str) -> Html:
    """One element. ``cls`` is its class; in the names of other attributes ``_`` is a hyphen, at the end nothing."""
    named = {"class": cls, **{key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}}
    written = "".join(f' {key}="{text(value)}"' for key, value in named.items() if value or key != "class")
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[str | Html], between: str = "") -> Html:
    """Elements and texts one after the other."""
    return Html(between.join(child if isinstance(child, Html) else text(child) for child in children))


def data_block(identifier: str, value: object) -> Html:
    """JSON in the page for its script. No character in it can end the element or start a comment."""
    encoded = msgspec.json.encode(value).decode()
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{text(identifier)}">{encoded}</script>')


def bar(*parts: tuple[float, str], label: str = "") -> Html:
    """A horizontal bar of 100 units: (width, class) from left to right."""
    drawn: list[Html] = []
    at = 0.0
    for width, cls in parts:
        if width > 0:
            drawn.append(el("rect", cls=cls, x=f"{at:.3f}", y="0", width=f"{width:.3f}", height="10"))
        at += width
    return el("svg", *drawn, cls="bar", viewBox="0 0 100 10", preserveAspectRatio="none", role="img", aria_label=label)


def fold(summary: str | Html, *children: str | Html, cls: str = "", open_: bool = False) -> Html:
    """A ``details`` element."""
    made = el("details", el("summary", summary), *children, cls=cls)
    return Html(made.replace("<details", "<details open", 1)) if open_ else made


def table(
    heads: Sequence[str | Html], rows: Sequence[Html], *, cls: str, identifier: str = "", caption: str = ""
) -> Html:
    """A table that scrolls sideways where it must."""
    head = el("thead", el("tr", *(h if isinstance(h, Html) else el("th", h, scope="col") for h in heads)))
    extra = {"id": identifier} if identifier else {}
    named = [el("caption", caption)] if caption else []
    return el("div", el("table", *named, head, el("tbody", *rows), cls=cls, **extra), cls="scroll")


def sorter(label: str, key: str, kind: str) -> Html:
    """A column head that a script sorts rows by: their ``data-KEY``, as ``text`` or ``number``."""
    return el("th", el("button", label, type="button", data_sort=key, data_kind=kind), scope="col")
