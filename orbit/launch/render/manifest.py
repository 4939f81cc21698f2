"""Kubernetes manifests as YAML that every reader understands alike.

Readers differ in what a bare word is: PyYAML takes ``1e3`` and ``y`` for text, kubectl takes them for a number and for
true. So a text value is bare only where no reader can take it for anything else, and in double quotes otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

BARE = re.compile(r"^[A-Za-z/][-A-Za-z0-9._/@]*\Z")
"""Words that begin with a letter or a slash and hold nothing YAML gives a meaning to."""
LINES = re.compile(r"^(?:[!-~](?:[ -~]*[!-~])?\n(?: *(?=[!-~])(?:[ -~]*[!-~])\n)*)\Z")
"""Lines a person reads better as they are: printable, none of them empty or ending in a space."""
WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])
"""What some reader of YAML 1.1 takes for something else than text."""


class _Dumper(yaml.SafeDumper):
    """Mappings in their own order, text as :func:`_text` decides, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class' signature
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    bare = BARE.match(value) and value.lower() not in WORDS
    style = None if bare else "|" if LINES.match(value) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _key(dumper: yaml.SafeDumper, value: dict[Any, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items())


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _key)


def documents(objects: Iterable[dict[str, Any]], comments: Iterable[str] = ()) -> str:
    """One YAML file: ``comments`` on top, then each object as a document. The same objects give the same bytes."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in comments)
    bodies = (yaml.dump(each, Dumper=_Dumper, default_flow_style=False, width=10000) for each in objects)
    return head + "---\n".join(bodies)


def dollars(text: str) -> str:
    """``text`` where the kubelet expands ``$(NAME)`` (command, args, values of variables): it gets it back unchanged.

    There ``$$`` stands for ``$``.
    """
    return text.replace("$", "$$")
