"""Facts that may leave the machine: no secrets, no names of people and machines, no addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orbit.audit.rules.settings.shipped_secret import secret_of

REDACTED = "[redacted]"
USERINFO = re.compile(r"://[^/\s@:]{1,200}(?::[^/\s@]{0,200})?@")
HOME = re.compile(r"/(home|Users|lustre/home|scratch|users)/(?!USER\b)[^/\s:'\"]{1,64}")
ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d\.)")
ADDRESS6 = re.compile(
    r"(?<![\w:.])(?:(?:[0-9a-fA-F]{1,4}:){5,7}[0-9a-fA-F]{1,4}"
    r"|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}|(?:[0-9a-fA-F]{1,4}:){1,6}:)(?![\w:])"
)
"""Also those of network cards. Times have three groups and no empty one."""
HERE = ("::1", "127.0.0.1", "0.0.0.0", "255.255.255.255")  # noqa: S104 - addresses that say nothing
ASSIGNED = re.compile(
    r"(?i)\b([\w-]{0,40}(?:token|secret|password|passwd|api[_-]?key|credential|authorization)[\w-]{0,20})([\"']?\s{0,3}[=:]\s{0,3})"
    r"(\"[^\"]{1,400}\"|'[^']{1,400}'|(?:bearer |basic )?[^\s,;'\"]{4,400})"
)
NAMES = re.compile(r"(?i)token|secret|passw|api_?key|credential|cookie|private|_auth\b|_key\b")
HARMLESS_ENDS = ("_FILE", "_PATH", "_DIR", "_MODE")
"""Variables of these names say where a secret is, or how it is used."""
MOST_VALUE = 1000
MIN_NAME = 3
"""Shorter names of users and hosts would hit words."""


class Redactor:
    """Replaces what must not leave, the same thing by the same word everywhere: addresses become ip-1, ip-2, ..."""

    def __init__(self, *, user: str, hosts: tuple[str, ...]) -> None:
        self._addresses: dict[str, str] = {}
        names = [(user, "USER"), *((host, "HOST") for host in hosts)]
        self._names = [
            (re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"), word)
            for name, word in sorted(names, key=lambda pair: -len(pair[0]))
            if len(name) >= MIN_NAME and name not in ("root", "localhost")
        ]

    def text(self, value: str) -> str:
        """One string."""
        value = USERINFO.sub(f"://{REDACTED}@", value)
        value = ASSIGNED.sub(lambda match: f"{match[1]}{match[2]}{REDACTED}", value)
        value = " ".join(REDACTED if _is_secret(word) else word for word in value.split(" "))
        value = HOME.sub(lambda match: f"/{match[1]}/USER", value)
        for pattern in (ADDRESS, ADDRESS6):
            value = pattern.sub(lambda match: self._address(match[0]), value)
        for name, word in self._names:
            value = name.sub(word, value)
        return value

    def variables(self, values: Mapping[str, str]) -> dict[str, str]:
        """Variables: what their name or their form calls a secret is gone, the rest is text."""
        return {
            name: REDACTED if _hides(name, value) else self.text(value[:MOST_VALUE]) for name, value in values.items()
        }

    def tree(self, value: object) -> object:
        """Plain data (what JSON has): every string in it, and every key."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.tree(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(item) for item in value]
        return value

    def _address(self, found: str) -> str:
        if found in HERE:
            return found
        return self._addresses.setdefault(found, f"ip-{len(self._addresses) + 1}")


def _hides(name: str, value: str) -> bool:
    """Whether a variable is one whose value must not be seen."""
    if not value:
        return False
    return bool(secret_of(name, value)) or (NAMES.search(name) is not None and not name.endswith(HARMLESS_ENDS))


def _is_secret(word: str) -> bool:
    """Whether a word is a secret by its own form (tokens with a known beginning)."""
    return len(word) >= 8 and bool(secret_of("", word))
