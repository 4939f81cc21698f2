"""Distribution metadata: quoting, paths outside, missing RECORD."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.facts import Distribution
from orbit.audit.installed.dists import _rows, installed_dists, read_headers
from orbit.audit.installed.tree import find_layout
from orbit.audit.run import audit_environment
from orbit.profile.model import load_profile
from tests.writers.environment import EnvironmentWriter


def read(env: EnvironmentWriter) -> tuple[Distribution, ...]:
    return installed_dists(find_layout(env.prefix, "3.12"))


def test_rows_names_and_tags(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add(
        "my-dist", {"pkg/a.py": b"a"}, tags=["cp312-cp312-linux_x86_64"], rows=["../../../bin/tool,,", "pkg/a.pyc,,"]
    )
    (dist,) = read(env)
    assert (dist.name, dist.version, dist.tags) == ("my-dist", "1.0", ("cp312-cp312-linux_x86_64",))
    rows = {row.path: row for row in dist.rows}
    assert rows["lib/python3.12/site-packages/pkg/a.py"].size == 1
    assert rows["bin/tool"].digest == ""


def test_quoted_and_escaping_paths(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("d", {}, rows=['"pkg/with, comma.py",sha256=x,3', "../../../../outside,,", "/etc/passwd,,"])
    (dist,) = read(env)
    assert "lib/python3.12/site-packages/pkg/with, comma.py" in {row.path for row in dist.rows}
    assert dist.outside == ("../../../../outside", "/etc/passwd")


def test_broken_records_become_problems(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    (env.add("a", {}) / "RECORD").unlink()
    env.add("b", {}, rows=["one field"])
    first, second = read(env)
    assert first.problem == "RECORD: cannot be read"
    assert second.problem == "RECORD: a line does not have three fields"


def test_record_with_zero_bytes_from_a_lost_write(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("d", {"pkg/a.py": b"a"}, rows=["\0\0\0pkg/b.py,sha256=x,3", "pkg/c.py,sha256=x,\0\0"])
    report = audit_environment(env.prefix, load_profile("probe"))
    (finding,) = [finding for finding in report.findings if "no usable metadata" in finding.message]
    assert (finding.subject, finding.fatal) == ("d", True)
    assert "a path with a zero byte" in finding.message
    assert [row.size for row in read(env)[0].rows if row.path.endswith("c.py")] == [-1]


def test_record_whose_quote_never_ends(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("d", {}, rows=['"' + "x" * 200_000])
    (dist,) = read(env)
    assert dist.problem == "RECORD: field larger than field limit (131072)"


@pytest.mark.parametrize(("size", "read_as"), [("3", 3), ("", -1), ("-1", -1), ("x", -1), ("9" * 5000, -1)])
def test_sizes(tmp_path: Path, size: str, read_as: int) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("d", {}, rows=[f"a.py,sha256=x,{size}"])
    assert [row.size for row in read(env)[0].rows if row.path.endswith("a.py")] == [read_as]


@given(st.text(max_size=200))
def test_any_text_is_survived(text: str) -> None:
    for row in _rows(text):
        assert row is None or len(row) == 3


def test_folded_lines_are_joined_in_one_go() -> None:
    """A million of them once took minutes: each made a copy of all before it."""
    assert read_headers(b" lost\nA: 1\n 2\n\t3\nB: x\nA: 4\n\nC: body\n") == {"a": ["1\n2\n3", "4"], "b": ["x"]}
    (value,) = read_headers(b"A: 1\n" + b" x\n" * 1_000_000)["a"]
    assert value.count("\n") == 1_000_000


def test_a_line_of_blanks_continues_a_field() -> None:
    """As in the METADATA of sglang 0.5.16 and helion 0.2.6: a licence in its own field, and requirements after it."""
    found = read_headers(b"License: MIT License\n        \n        Words.\n\t\nRequires-Dist: torch\n\nbody: x\n")
    assert found == {"license": ["MIT License\n\nWords.\n"], "requires-dist": ["torch"]}
