"""The frame of every page: self-contained, its content security policy allows its own style and script alone."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path

from orbit.audit.reports.formats.markup import Html, el, join

HOUSE_STYLE = Path(__file__).parent / "page.css"
"""What all pages look like; light and dark."""


def document(title: str, body: Html, *, style: str, script: str) -> bytes:
    """The page, UTF-8. ``style`` and ``script`` are our own and stand in it as they are."""
    policy = f"default-src 'none'; style-src '{_source(style)}'; script-src '{_source(script)}'"
    head = join(
        (
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=policy),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            el("title", title),
            Html(f"<style>{style}</style>"),
        ),
        "\n",
    )
    body = join((body, Html(f"<script>{script}</script>")), "\n")
    page = f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    return page.encode("utf-8", "backslashreplace")


@functools.cache
def asset(path: Path) -> str:
    """A style or script that lies beside a module."""
    return path.read_text(encoding="ascii")


def _source(content: str) -> str:
    """The hash by which a content security policy allows exactly this style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
