"""Pages that are true, and each way in which one is not."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from orbit.cli import build_parser
from orbit.errors import InputError
from orbit.release.gate import documents
from orbit.release.gate.documents import (
    COUNTERS,
    Count,
    bad_command,
    bad_count,
    bad_link,
    check_documents,
    code_of,
    commands,
    links,
    read_counts,
    unknown_command,
)
from tests.release.repositories import repository

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    return build_parser()


def test_the_pages_of_this_checkout_are_true(parser: argparse.ArgumentParser) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git here: it is git that tells which pages there are")
    found = check_documents(ROOT, parser)
    assert [f"{item.subject}: {item.message}" for item in found.findings] == []
    assert found.checked["pages"] >= 40
    assert found.checked["links"] >= 100
    assert found.checked["commands"] >= 100
    assert found.checked["counts"] == len(read_counts(ROOT)) >= 2


def test_links(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One\n\n## Two words, `x`\n")
    text = "[x](a.md) [y](a.md#two-words-x) [z](https://example.com/a) [w](#one)"
    assert links(text) == ["a.md", "a.md#two-words-x", "#one"]
    assert [bad_link(tmp_path, "docs/a.md", target) for target in links(text)] == ["", "", ""]
    assert bad_link(tmp_path, "docs/a.md", "b.md") == "b.md leads nowhere"
    assert bad_link(tmp_path, "docs/a.md", "a.md#three") == "a.md#three has no such section"


def test_what_is_code_on_a_page() -> None:
    block = "```\n./orbitw ship --json       all of it\n./orbitw test -x\n```\n"
    page = f"say `orbit lock check` or\n\n{block}and orbit env.\n"
    assert "orbit env" not in code_of(page)
    assert commands(page) == ["ship --json       all of it", "lock check"]


@pytest.mark.parametrize(
    "line",
    [
        "ship --profile probe         the same pipeline with --anything",
        "ship [--json]",
        "lock check",
        "image diff A B",
        "image smoke LAYOUT --engine podman",
        "audit TARGET... [--profile NAME | --uid N]",
        "--version",
    ],
)
def test_commands_that_parse(parser: argparse.ArgumentParser, line: str) -> None:
    assert bad_command(parser, line) == ""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("shipp", "no command 'shipp'"),
        ("image dif A B", "no command 'dif'"),
        ("ship --profil probe", "no option --profil"),
        ("image diff A B [--loud]", "no option --loud"),
        ("gate decide RUN --evidenz DIR", "no option --evidenz"),
    ],
)
def test_commands_that_do_not(parser: argparse.ArgumentParser, line: str, says: str) -> None:
    assert says in bad_command(parser, line)


def test_the_first_word_that_is_no_command(parser: argparse.ArgumentParser) -> None:
    assert unknown_command(parser, ["image", "dif"]) == "dif"
    assert unknown_command(parser, ["image", "diff", "one"]) == ""


@pytest.mark.parametrize("kind", sorted(COUNTERS))
def test_each_counter_counts_something(kind: str) -> None:
    name = {"packages": "cu130", "base-packages": "base"}.get(kind, "")
    assert COUNTERS[kind](ROOT, name) > 0


def test_a_number_that_is_not_the_datas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COUNTERS, "recipes", lambda _root, _name: 1234)  # type: ignore[arg-type]
    page = tmp_path / "p.md"
    count = Count(page="p.md", text="all {} recipes", of="recipes")
    page.write_text("builds all 1,234 recipes\n")
    assert bad_count(tmp_path, count) == ""
    page.write_text("builds all 1,234 recipes; all 12 recipes\n")
    assert bad_count(tmp_path, count) == "says 'all 12 recipes'; there are 1234"
    page.write_text("builds them\n")
    assert "does not say" in bad_count(tmp_path, count)
    page.unlink()
    assert "no such page" in bad_count(tmp_path, count)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('of = "stars"\ntext = "{} stars"', "of = 'stars'"),
        ('of = "recipes"\ntext = "many"', "text = 'many'"),
        ('of = "recipes"\ntext = "{} and {}"', "text"),
        ('of = "recipes"\ntext = "{}"\nmore = 1', "more"),
    ],
)
def test_counts_of_nothing_known(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "counts.toml").write_text(f'schema = 1\n[[counts]]\npage = "p.md"\n{row}\n')
    with pytest.raises(InputError, match=says):
        read_counts(tmp_path)


def test_a_checkout_with_bad_pages(tmp_path: Path, parser: argparse.ArgumentParser) -> None:
    files = {
        "README.md": "[gone](docs/gone.md) and `orbit nonsense`\n",
        "docs/a.md": "`orbit ship --no-such-flag`\n",
        "tests/README.md": "commands of others are not judged: `orbit nonsense`\n",
        "ci/counts.toml": 'schema = 1\n[[counts]]\npage = "docs/a.md"\ntext = "{} recipes"\nof = "recipes"\n',
    }
    repository(tmp_path, files)
    found = check_documents(tmp_path, parser)
    assert [(item.subject, item.rule) for item in found.findings] == [
        ("README.md", documents.RULE),
        ("README.md", documents.RULE),
        ("docs/a.md", documents.RULE),
        ("docs/a.md", documents.RULE),
    ]
    assert found.checked == {"pages": 3, "links": 1, "commands": 2, "counts": 1}
