"""YAML that every reader understands alike."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.launch.render.manifest import documents, dollars

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
TREES = st.recursive(
    TEXT | st.integers(-(10**6), 10**6) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
TRAPS = [
    "y", "N", "yes", "On", "off", "true", "NULL", "~", "1e3", "0x10", "0o14", "1_000", ".5", "-", "- a", "a: b", "#",
    "a #b", "<<", "=", "@a", "`a", "%a", "&a", "*a", "!a", "|", ">", "[", "{", "?", "1:20", "2026-12-01", "", " ", "e1",
    "a\nb", "a\n", "\n", "a \n", "a\n\n", "\ta\n", "nan", ".inf", "'", '"', "\\", "a:", "\u2028", "\ufeff",
]  # fmt: skip


@given(st.dictionaries(TEXT, TREES, max_size=4))
@settings(deadline=None)
def test_what_is_written_is_what_is_read(tree: dict[str, Any]) -> None:
    assert yaml.safe_load(documents([tree], ["a comment"])) == tree


@pytest.mark.parametrize("text", TRAPS)
def test_text_stays_text(text: str) -> None:
    written = documents([{"a": text, "b": [text]}])
    assert yaml.safe_load(written) == {"a": text, "b": [text]}
    bare = re.search(r"^a: ([^\"|].*)$", written, re.MULTILINE)
    assert bare is None or re.fullmatch(r"[A-Za-z/].*", bare[1])


def test_no_word_is_bare_that_a_reader_of_yaml_1_1_takes_for_something_else() -> None:
    assert documents([{"a": "y", "b": "1e3", "c": "on", "d": "0x10"}]) == 'a: "y"\nb: "1e3"\nc: "on"\nd: "0x10"\n'


def test_lines_are_shown_as_lines() -> None:
    assert documents([{"run.sh": "set -eu\n  exec x\n"}]) == "run.sh: |\n  set -eu\n    exec x\n"


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kubectl_reads_the_same(tmp_path: Path) -> None:
    """kustomize is part of kubectl and asks no server."""
    # what kubectl writes bare and PyYAML then cannot read, or what a ConfigMap may not hold
    data = {f"k{number}": text for number, text in enumerate(TRAPS) if text not in ("<<", "=", "\u2028", "\ufeff")}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    (tmp_path / "a.yaml").write_text(documents([config]))
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    said = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, check=True, text=True)
    read = yaml.safe_load(said.stdout)
    assert json.dumps(read["data"], sort_keys=True) == json.dumps(data, sort_keys=True)


def test_several_objects_are_several_documents() -> None:
    text = documents([{"kind": "A"}, {"kind": "B"}], ["one", "", "two"])
    assert text == "# one\n#\n# two\nkind: A\n---\nkind: B\n"
    assert list(yaml.safe_load_all(text)) == [{"kind": "A"}, {"kind": "B"}]


def expanded(text: str, env: dict[str, str]) -> str:
    """What the kubelet makes of ``$(NAME)`` and ``$$`` (third_party/forked/golang/expansion of Kubernetes)."""
    out, place = "", 0
    while place < len(text):
        if text[place] != "$" or place + 1 == len(text):
            out, place = out + text[place], place + 1
        elif text[place + 1] == "$":
            out, place = out + "$", place + 2
        elif text[place + 1] == "(" and ")" in text[place:]:
            end = text.index(")", place)
            name = text[place + 2 : end]
            out, place = out + env.get(name, f"$({name})"), end + 1
        else:
            out, place = out + text[place : place + 2], place + 2
    return out


@given(st.text(st.sampled_from("$()AB '"), max_size=20))
def test_the_kubelet_gives_back_what_was_written(text: str) -> None:
    assert expanded(dollars(text), {"A": "wrong", "B": "wrong", "": "wrong"}) == text


def test_the_kubelet_of_this_test_does_expand() -> None:
    assert expanded("$(A) $$(A) $(C) $x", {"A": "1"}) == "1 $(A) $(C) $x"
