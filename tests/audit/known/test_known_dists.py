"""The shipped knowledge loads and makes sense; a wrong file is refused with the entry at fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from orbit.audit.known.known_dists import LookAlike, known_dists, load_known_dists
from orbit.core.paths import data_file
from orbit.errors import InputError


def test_names_are_normalised_and_listed_once() -> None:
    known = known_dists()
    names = [name for entry in (*known.exclusive, *known.equal) for name in entry.names if "*" not in name]
    names += [entry.name for entry in known.look_alikes]
    assert [name for name in names if canonicalize_name(name) != name] == []
    assert len(names) > 40
    assert all(len(set(entry.names)) == len(entry.names) > 1 for entry in known.exclusive)
    assert all(row[entry.against] for entry in known.compiled for row in entry.releases)


@pytest.mark.parametrize(
    ("name", "version", "major"),
    [
        ("nvidia-cudnn-cu12", "9.1", "12"),
        ("nvidia-cudnn-cu13", "9.19.0.56", "13"),
        ("nvidia-cublas", "13.4.1.1", "13"),
        ("nvidia-cublas", "14.0.0", "14"),
        ("nvidia-cufft", "12.0.0.61", "13"),
        ("nvidia-cutlass-dsl-libs-cu12", "4.6.0", ""),
        ("nvidia-cudnn-frontend", "1.27.0", ""),
        ("torch", "2.11.0", ""),
    ],
)
def test_cuda_major_of_a_distribution(name: str, version: str, major: str) -> None:
    assert known_dists().cuda.major(name, version) == major


@pytest.mark.parametrize(
    ("versions", "version", "covered"),
    [
        ("==1.0.0", "1.0.0", True),
        ("==1.0.0", "1.0.0+d4f41e4", False),
        ("==1.0.0", "1.2.1", False),
        ("", "7", True),
        (">=100", "999.9.9", True),
        (">=100", "0.3.0", False),
        (">=100", "not a version", False),
    ],
)
def test_which_versions_are_the_strangers(versions: str, version: str, covered: bool) -> None:
    entry = LookAlike(name="x", versions=versions, meant="another project", reason="it is not the same project")
    assert entry.covers(version) is covered


SHIPPED = data_file("kernels", "expectations", "distributions.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("pattern", "replacement", "words"),
    [
        (r"schema = 1", "schema = 2", "schema 2 is not known"),
        (r'reason = "both own the folder PIL"|reason = "builds of one library: both own.*PIL"', 'reason = "because"',
         "explains nothing"),
        (r'suffixed = ".*"', 'suffixed = "("', "missing \\)"),
        (r'versions = "==1.0.0"', 'versions = "one"', "look_alikes deep-ep"),
        (r'line = "import _virtualenv"', 'line = "["', "unterminated"),
        (r"\[\[together\]\]", "[[togehter]]", "togehter"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(tmp_path: Path, pattern: str, replacement: str, words: str) -> None:
    path = tmp_path / "distributions.toml"
    text, count = re.subn(pattern, lambda _match: replacement, SHIPPED, count=1)
    assert count == 1
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        load_known_dists(path)
    assert str(path) in str(caught.value)
