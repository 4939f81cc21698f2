"""Package URLs (purl specification, ECMA-427): what a component is called across formats and databases."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

SAFE = "-._~:"
"""Everything else is percent-encoded; a colon stays as it is."""


def purl(
    kind: str, name: str, version: str, *, namespace: str = "", qualifiers: Mapping[str, str] | None = None
) -> str:
    """The package URL in canonical form; ``name`` as its registry spells it. Empty qualifiers are left out.

    >>> purl("deb", "libstdc++6", "12.2.0-14", namespace="debian", qualifiers={"arch": "amd64"})
    'pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64'
    """
    parts = [quote(part, safe=SAFE) for part in (namespace, name) if part]
    text = f"pkg:{kind}/{'/'.join(parts)}" + (f"@{quote(version, safe=SAFE)}" if version else "")
    said = {key: value for key, value in sorted((qualifiers or {}).items()) if value}
    return text + ("?" + "&".join(f"{key}={quote(value, safe=SAFE)}" for key, value in said.items()) if said else "")
