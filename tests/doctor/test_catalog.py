"""The catalogue: loads, contradicts itself nowhere, answers for every known failure, names commands that exist."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from orbit.audit.rules import RULE_IDS
from orbit.cli import build_parser
from orbit.doctor import catalog as module
from orbit.doctor.catalog import LISTS, Symptom, load_catalog, patterns_of, problems
from orbit.doctor.detect import DETECTORS
from orbit.errors import InputError
from orbit.launch.lint.rules import RULES as MANIFEST_RULES
from orbit.release.gate.documents import COMMAND, bad_command

GOOD = Symptom(
    id="one-thing", title="t", where=("node",), sees="s", cause="c", fix=("f",), patterns=("abcdefgh",), unseen="why"
)


def changed(**values: object) -> Symptom:
    return msgspec.structs.replace(GOOD, **values)


def test_the_catalogue_loads_and_is_whole() -> None:
    catalog = load_catalog()
    assert len(catalog) >= 100
    assert list(problems(list(catalog.values()))) == []
    assert sum(len(patterns_of(name)) for name in catalog) >= 200


def test_every_known_failure_is_answered_for() -> None:
    named = Counter(entry for symptom in load_catalog().values() for entry in symptom.lists)
    missing = [f"{name}:{n}" for name, most in LISTS.items() for n in range(1, most + 1) if f"{name}:{n}" not in named]
    assert missing == []
    assert sum(LISTS.values()) == 129


def test_detectors_and_rules_exist_and_every_detector_is_used() -> None:
    catalog = load_catalog().values()
    named = {name for symptom in catalog for name in symptom.detectors}
    assert named == set(DETECTORS)
    assert {rule for symptom in catalog for rule in symptom.rules} <= RULE_IDS
    assert {rule for symptom in catalog for rule in symptom.manifest} <= MANIFEST_RULES.keys()


def test_commands_in_the_catalogue_exist() -> None:
    parser = build_parser()
    texts = [f"{symptom.id}\0{text}" for symptom in load_catalog().values()
             for text in (*symptom.fix, symptom.sees, symptom.cause, symptom.unseen, symptom.untold)]  # fmt: skip
    shown = [(text, line) for text in texts for line in commands_of(text)]
    assert len(shown) >= 60
    wrong = [f"{text.partition(chr(0))[0]}: {bad}" for text, line in shown if (bad := bad_command(parser, line))]
    assert wrong == []


def test_whole_commands_can_be_typed() -> None:
    """Those with arguments: placeholders stand for values. A command without any is only named."""
    parser = build_parser()
    lines = {line for symptom in load_catalog().values() for text in symptom.fix for line in commands_of(text)}
    whole = sorted(line for line in lines if re.search(r" (?:[A-Z]|--)", line))
    assert len(whole) >= 30
    for line in whole:
        parser.parse_args(shlex.split(line.replace("GIB", "8")))


def commands_of(text: str) -> list[str]:
    """What stands behind ``orbit`` in backticks or in ``$( )``."""
    spans = text.split("`")[1::2] + [part.split(")")[0] for part in text.split("$(")[1:]]
    return [line.strip() for span in spans for _, line in COMMAND.findall(span)]


def test_a_command_that_is_not_there_would_be_seen() -> None:
    assert bad_command(build_parser(), commands_of("then `orbit env heal PREFIX`")[0])


@pytest.mark.parametrize(
    ("symptoms", "word"),
    [
        ([GOOD, GOOD], "2 entries"),
        ([changed(id="One")], "not an id"),
        ([changed(title="")], "are needed"),
        ([changed(fix=())], "are needed"),
        ([changed(untold="both")], "not both"),
        ([changed(patterns=())], "not both"),
        ([changed(unseen="")], "not both"),
        ([changed(detectors=("x",))], "not both"),
        ([changed(after=("nobody-here",))], "there is no nobody-here"),
        ([changed(lists=("toolchain:79",))], "there is no toolchain:79"),
        ([changed(lists=("other:1",))], "there is no other:1"),
        ([changed(after=("two-things",)), changed(id="two-things", after=("one-thing",))], "its own cause"),
    ],
)
def test_what_contradicts_itself_is_named(symptoms: list[Symptom], word: str) -> None:
    assert word in " ".join(problems(symptoms))


def test_a_good_one_has_no_problems() -> None:
    assert list(problems([GOOD])) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("schema = 2\nsymptoms = []\n", "schema"),
        ("schema = 1\n[[symptoms]]\nid = 'a-b'\n", "missing required field"),
        ("schema = 1\nsymptom = []\n", "symptom"),
        ("schema = 1\nsymptoms = []\n", "no symptoms"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, word: str) -> None:
    (tmp_path / "x.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(module, "data_file", lambda *_parts: tmp_path)
    with pytest.raises(InputError, match=word):
        load_catalog.__wrapped__()
