from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.core import tools
from orbit.core.paths import checkout_root
from orbit.core.proc import clean_env
from orbit.errors import InputError, MissingError
from orbit.profile.lock import parse_lock, read_lock
from tests.profile.locks import SHA, WHERE, lock_of, lock_text, package, wheel


def names(packages: object) -> list[str]:
    return [p.name for p in packages]  # type: ignore[attr-defined]


def test_reads_every_part_of_a_package() -> None:
    lock = lock_of(
        package(
            "leaf",
            "2.0",
            sdist=f'{{ url = "https://files.test/leaf-2.0.tar.gz", hash = "{SHA}", size = 7 }}',
            wheels=[wheel("leaf", "2.0", size=9)],
        ),
        package("mid", needs=["leaf"], extras={"gpu": ["leaf"]}),
        requires='{ name = "leaf", extras = ["x"], marker = "extra == \'stack\'", specifier = "==2.0" }',
        overrides={"leaf": "==2.0"},
    )
    leaf = lock.package("leaf")
    assert (leaf.version, leaf.source.kind, leaf.source.url) == ("2.0", "registry", "https://index.test/simple")
    assert leaf.sdist is not None
    assert (leaf.sdist.filename, leaf.sdist.sha256, leaf.sdist.size) == ("leaf-2.0.tar.gz", "ab" * 32, 7)
    assert [(w.filename, w.sha256, w.size) for w in leaf.wheels] == [("leaf-2.0-py3-none-any.whl", "ab" * 32, 9)]
    assert lock.package("mid").dependencies[0].name == "leaf"
    assert names(lock.package("mid").optional_dependencies["gpu"]) == ["leaf"]
    assert lock.overrides == {"leaf": "==2.0"}
    asked = lock.root.requires[0]
    assert (asked.name, asked.specifier, asked.extra, asked.extras) == ("leaf", "==2.0", "stack", ("x",))


def test_git_source_is_taken_apart() -> None:
    lock = lock_of(package("kernel", source='git = "https://git.test/owner/kernel.git?rev=v1#0123abcd"'))
    source = lock.package("kernel").source
    assert (source.kind, source.repository, source.commit) == ("git", "https://git.test/owner/kernel.git", "0123abcd")


def test_another_hash_algorithm_is_no_sha256() -> None:
    lock = lock_of(package("a", wheels=[wheel("a", "1.0", digest="md5:00")]))
    assert lock.package("a").wheels[0].sha256 == ""


def test_names_in_any_spelling() -> None:
    assert lock_of(package("flash-attn")).package("Flash_Attn").name == "flash-attn"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not toml [", "not valid TOML"),
        (lock_text(version=2), "format version 2"),
        ("requires-python = '3'", "format version None"),
        ("version = 1\nrequires-python = '==3.12.*'\n[[package]]\nname = 'a'", "source"),
        (lock_text(package("a", source='registry = "x", git = "y"')), "not one place"),
        (lock_text(python="three"), "'three' is not a version specifier"),
        (lock_text(overrides={"a": "1.0"}), "'1.0' is not a version specifier"),
    ],
)
def test_refuses_what_is_not_a_known_lock(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_lock(text.encode(), WHERE)


def test_unknown_keys_of_a_later_revision_are_fine() -> None:
    text = lock_text(package("a") + "novelty = { b = 1 }\n", needs=["a"]) + "\n[later]\nx = 1\n"
    assert names(parse_lock(text.encode(), WHERE).closure()) == ["a"]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no such file"):
        read_lock(tmp_path / "uv.lock")


def test_dangling_dependency_is_an_input_error() -> None:
    with pytest.raises(InputError, match="ghost leads nowhere"):
        lock_of(package("a", needs=["ghost"]), needs=["a"]).closure()


def test_unknown_extra_and_group_are_named() -> None:
    lock = lock_of()
    with pytest.raises(InputError, match="no extra named 'gpu'"):
        lock.closure(["gpu"])
    with pytest.raises(InputError, match="no dependency group named 'docs'"):
        lock.closure(groups=["docs"])


def test_closure_follows_extras_markers_and_groups() -> None:
    lock = lock_of(
        package("a", needs=["b[fast]", "win; sys_platform == 'win32'"]),
        package("b", needs=["c"], extras={"fast": ["d"], "slow": ["e"]}),
        *(package(name) for name in ("c", "d", "e", "win", "s", "g")),
        package("cycle", needs=["a", "cycle"]),
        needs=["a", "cycle"],
        stack=["s"],
        cuda=["g"],
    )
    assert names(lock.closure()) == ["a", "b", "c", "cycle", "d"]
    assert names(lock.closure(["stack"])) == ["a", "b", "c", "cycle", "d", "s"]
    assert names(lock.closure(groups=["cuda"])) == ["a", "b", "c", "cycle", "d", "g"]
    assert names(lock.closure(groups=["cuda"], project=False)) == ["g"]


def test_an_extra_asked_for_later_is_still_followed() -> None:
    lock = lock_of(
        package("a", extras={"x": ["late"]}), package("z", needs=["a[x]"]), package("late"), needs=["a", "z"]
    )
    assert names(lock.closure()) == ["a", "late", "z"]


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("python_full_version >= '3.12'", True),
        ("python_version < '3.12'", False),
        ("platform_machine == 'aarch64'", False),
        ("sys_platform == 'linux' and implementation_name != 'PyPy'", True),
        ("os_name == 'nt' or platform_python_implementation == 'CPython'", True),
    ],
)
def test_markers_are_judged_for_the_image(marker: str, holds: bool) -> None:
    lock = lock_of(package("a"), needs=[f"a; {marker}"])
    assert bool(lock.closure()) is holds


@pytest.mark.parametrize(
    ("tags", "chosen"),
    [
        (["py3-none-any", "cp312-cp312-manylinux_2_17_x86_64"], 1),
        (["cp39-abi3-manylinux2014_x86_64", "cp312-cp312-manylinux_2_34_x86_64"], 1),
        (["cp312-cp312-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_34_x86_64"], 1),
        (["cp312-cp312-manylinux_2_36_x86_64"], 0),
        (["cp312-cp312-manylinux_2_37_x86_64"], None),
        (["cp313-cp313-manylinux_2_17_x86_64", "cp312-cp312-musllinux_1_2_x86_64"], None),
        (["cp310-cp310-manylinux_2_17_x86_64"], None),
        (["cp313-abi3-manylinux_2_17_x86_64"], None),
        (["cp312-cp312t-manylinux_2_17_x86_64"], None),
        (["cp312-cp312-manylinux_2_17_aarch64", "py2.py3-none-any"], 1),
        (["py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64"], 0),
        (["not-a-wheel-name-at-all"], None),
        ([], None),
    ],
)
def test_choice_of_the_wheel(tags: list[str], chosen: int | None) -> None:
    locked = lock_of(package("a", wheels=[wheel("a", "1.0", tag) for tag in tags])).package("a")
    assert locked.built is (chosen is None)
    assert locked.wheel is (None if chosen is None else locked.wheels[chosen])


def test_higher_build_number_wins() -> None:
    locked = lock_of(package("a", wheels=[wheel("a", f"1.0-{build}") for build in (2, 10, 9)])).package("a")
    assert locked.wheel is locked.wheels[1]


MARKERS = ("", "sys_platform == 'linux'", "sys_platform == 'darwin'")
NODES = tuple("abcdef")


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, dict[str, list[tuple[str, tuple[str, ...], str]]]]:
    """For each node and each of its parts (itself, extra x, extra y), its edges: target, extras, marker."""
    edge = st.tuples(
        st.sampled_from(NODES),
        st.lists(st.sampled_from("xy"), unique=True, max_size=2).map(tuple),
        st.sampled_from(MARKERS),
    )
    parts = st.fixed_dictionaries({part: st.lists(edge, max_size=3) for part in ("", "x", "y")})
    return draw(st.fixed_dictionaries(dict.fromkeys(NODES, parts)))


def spelled(edges: list[tuple[str, tuple[str, ...], str]]) -> list[str]:
    return [
        target + (f"[{','.join(extras)}]" if extras else "") + (f"; {marker}" if marker else "")
        for target, extras, marker in edges
    ]


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_closure_is_the_least_fixed_point(graph: dict[str, dict[str, list[tuple[str, tuple[str, ...], str]]]]) -> None:
    lock = lock_of(
        *(
            package(node, needs=spelled(parts[""]), extras={extra: spelled(parts[extra]) for extra in ("x", "y")})
            for node, parts in graph.items()
        ),
        needs=["a"],
    )
    reached = {("a", "")}
    while True:
        more = {
            (target, part)
            for node, part_from in reached
            for target, extras, marker in graph[node][part_from]
            if "darwin" not in marker
            for part in ("", *extras)
        }
        if more <= reached:
            break
        reached |= more
    assert names(lock.closure()) == sorted({node for node, _ in reached})


@settings(deadline=None)
@given(st.data())
def test_a_cut_or_damaged_lock_is_an_input_error_or_a_lock(data: st.DataObject) -> None:
    whole = lock_text(
        package("a", needs=["b[x]; os_name == 'posix'"]), package("b", extras={"x": []}), needs=["a"]
    ).encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    damaged = whole[:start] + data.draw(st.binary(max_size=6)) + whole[end:]
    said = ""
    try:
        parse_lock(damaged, WHERE).closure()
    except InputError as error:
        said = str(error)
    assert said == "" or ("uv.lock" in said and "fix:" in said)


@pytest.mark.parametrize(
    ("extras", "groups", "project"),
    [
        ((), (), True),
        (("stack",), (), True),
        ((), ("cuda",), True),
        ((), ("cuda",), False),
        (("stack",), ("torch-build", "dev"), True),
    ],
)
def test_closure_of_the_real_lock_is_what_uv_exports(
    extras: tuple[str, ...], groups: tuple[str, ...], project: bool
) -> None:
    root = checkout_root()
    option = "--group" if project else "--only-group"
    options = [f"--extra={extra}" for extra in extras] + [f"{option}={group}" for group in groups]
    told = subprocess.run(
        [
            tools.uv(),
            "export",
            "--frozen",
            "--no-emit-project",
            "--no-hashes",
            "--no-annotate",
            "--no-header",
            *options,
        ],
        cwd=root,
        env=clean_env({"UV_PYTHON": sys.executable}),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.partition(";")[0].strip() for line in told.stdout.splitlines() if "==" in line]
    mine = read_lock(root / "uv.lock").closure(extras, groups, project=project)
    assert [f"{p.name}=={p.version}" for p in mine] == sorted(lines, key=lambda line: line.partition("==")[0])


def test_the_real_lock_is_complete() -> None:
    lock = read_lock(checkout_root() / "uv.lock")
    stack = lock.closure(["stack"])
    assert len(stack) > 250
    assert {p.name for p in stack if p.built} == {
        "causal-conv1d",
        "flash-attn",
        "mamba-ssm",
        "transformer-engine-torch",
    }
    assert not [p.name for p in lock.closure() if p.built]
