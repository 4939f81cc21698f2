"""uv.lock, pylock.toml and requirements.txt give the same packages; what is no lock is refused with a next step."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.locks import lock_formats
from orbit.audit.locks.lock_formats import Listed, read_listed, read_requirements
from orbit.errors import InputError, MissingError

SHA = "ab" * 32
COMMIT = "e7706faf8d1c3b9f241e36860640ad1dac644ede"
INDEX = "https://index.invalid/simple"
HEAD = 'version = 1\nrequires-python = ">=3.10"\n'


def wheel(name: str, tag: str = "py3-none-any") -> str:
    return f'{{ url = "https://files.invalid/{name}-1.0-{tag}.whl", hash = "sha256:{SHA}", size = 7 }}'


def package(name: str, source: str = f'registry = "{INDEX}"', more: str = "", wheels: str | None = None) -> str:
    files = f"wheels = [{wheel(name) if wheels is None else wheels}]\n"
    return f'[[package]]\nname = "{name}"\nversion = "1.0"\nsource = {{ {source} }}\n{files}{more}'


def listed(tmp_path: Path, text: str, name: str = "uv.lock", extras: tuple[str, ...] = ()) -> Listed:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_listed(path, extras)


def names(found: Listed) -> list[str]:
    return [package.name for package in found.packages]


PROJECT = package(
    "theirs", 'editable = "."',
    'dependencies = [{ name = "a" }, { name = "w", marker = "sys_platform == \'win32\'" }]\n'
    '[package.optional-dependencies]\nfast = [{ name = "b" }]\n', wheels="",
)  # fmt: skip


def test_a_project_with_the_extras_that_it_has(tmp_path: Path) -> None:
    text = HEAD + PROJECT + package("a") + package("b") + package("w") + package("unused")
    assert names(listed(tmp_path, text)) == ["a"]
    assert names(listed(tmp_path, text, extras=("fast", "stack"))) == ["a", "b"]


def test_a_workspace_without_a_project_at_its_root(tmp_path: Path) -> None:
    member = package("m", 'editable = "packages/m"', 'dependencies = [{ name = "a", extra = ["x"] }]\n', wheels="")
    extra = package("a", more='[package.optional-dependencies]\nx = [{ name = "b" }]\n')
    assert names(listed(tmp_path, HEAD + member + extra + package("b") + package("c"))) == ["a", "b"]


def test_a_lock_without_any_project_lists_itself(tmp_path: Path) -> None:
    assert names(listed(tmp_path, HEAD + package("b") + package("a"))) == ["a", "b"]


PYLOCK = f"""lock-version = "1.0"
[[packages]]
name = "A.B"
version = "1.0"
index = "{INDEX}"
wheels = [{{ url = "https://files.invalid/a_b-1.0-py3-none-any.whl", size = 7, hashes = {{ sha256 = "{SHA}" }} }}]
[[packages]]
name = "w"
marker = "sys_platform == 'win32'"
[[packages]]
name = "x"
marker = "'cpu' in extras"
archive = {{ path = "x-1.0-py3-none-any.whl", hashes = {{ sha256 = "{SHA}" }} }}
[[packages]]
name = "g"
vcs = {{ type = "git", url = "https://example.invalid/g", commit-id = "{COMMIT}" }}
[[packages]]
name = "local"
directory = {{ path = "." }}
"""


def test_pylock(tmp_path: Path) -> None:
    found = listed(tmp_path, PYLOCK, "pylock.toml")
    assert (found.format, names(found)) == ("pylock", ["a-b", "g", "x"])
    first, repository, archive = found.packages
    assert first.wheel is not None
    assert (first.wheel.filename, first.wheel.sha256, first.wheel.size) == ("a_b-1.0-py3-none-any.whl", SHA, 7)
    assert repository.source.commit == COMMIT
    assert archive.wheel is not None
    assert archive.wheel.url == "x-1.0-py3-none-any.whl"


REQUIREMENTS = f"""# made by hand
--index-url https://ann:secret@index.invalid/simple
--extra-index-url https://more.invalid/simple
A_b==1.0 ; python_version >= "3.9" \\
    --hash=sha256:{SHA} \\
    --hash=sha256:{"cd" * 32}  # a comment
bare==2.0
w==1 ; sys_platform == "win32"
loose>=3
star==1.*
-e ./local
g @ git+https://example.invalid/g.git@{COMMIT}#egg=g
h @ git+https://example.invalid/h.git
u @ https://example.invalid/u-1.0-py3-none-any.whl
"""


def test_requirements(tmp_path: Path) -> None:
    found = listed(tmp_path, REQUIREMENTS, "requirements.txt")
    assert (found.format, names(found)) == ("requirements", ["a-b", "bare", "g", "h", "u"])
    assert found.unpinned == ("loose>=3", "star==1.*")
    assert found.unhashed == ("bare==2.0", "u @ https://example.invalid/u-1.0-py3-none-any.whl")
    assert len(found.options) == 3
    by_name = {package.name: package for package in found.packages}
    assert [artifact.sha256 for artifact in by_name["a-b"].wheels] == [SHA, "cd" * 32]
    assert (by_name["g"].source.commit, by_name["h"].source.commit) == (COMMIT, "")
    assert by_name["g"].source.repository == "https://example.invalid/g.git"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("uv.lock", "[[package]\n", "not valid TOML"),
        ("poetry.lock", '[[package]]\nname = "a"\n', "format version None"),
        ("uv.lock", "version = 9\n", "format version 9"),
        ("flake.lock", '{"nodes": {}}', "not valid TOML"),
        ("pylock.toml", 'lock-version = "2.0"\npackages = []\n', "lock-version '2.0'"),
        ("pylock.toml", 'lock-version = "1.0"\npackages = [1]\n', "not a pylock.toml"),
        ("pylock.toml", 'lock-version = "1.0"\n[[packages]]\nname = "a"\nmarker = "no"\n', "marker"),
        ("requirements.txt", "\n# nothing\n", "no requirement"),
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        listed(tmp_path, text, name)


def test_absent_too_long_and_not_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingError, match="no such file"):
        read_listed(tmp_path / "uv.lock", ())
    (tmp_path / "requirements.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_listed(tmp_path / "requirements.txt", ())
    with pytest.raises(InputError, match="Is a directory"):
        read_listed(tmp_path, ())
    monkeypatch.setattr(lock_formats, "MAX_BYTES", 1)
    with pytest.raises(InputError, match="no file of that kind"):
        read_listed(tmp_path / "requirements.txt", ())


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=120))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_requirements(text.encode(), Path("requirements.txt"))
    except InputError as error:
        assert error.fix  # noqa: PT017 - reading may succeed as well
