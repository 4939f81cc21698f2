"""orbit.env.assemble: the parts that can be looked at alone. Whole environments: test_create and test_takeover."""

from __future__ import annotations

from collections.abc import Collection, Container
from pathlib import Path
from typing import Any

import pytest

from orbit.core.console import Silent
from orbit.core.store import Entry, EntryRecord
from orbit.env import assemble, install, verify
from orbit.env.assemble import Clock, Fresh, check_names_no_host, host_paths, makers, settle_contested
from orbit.env.installed import Installed, Line, digest_of
from orbit.env.takeover import SITE
from orbit.errors import CheckFailed

from .test_create import Lines
from .wheels import Built

PLAN = install.Plan(prebuilt=(), built=(Built("ours", "1", "/none/ours.whl", ""),), skipped=())


def python_at(*folders: str) -> Entry:
    record = EntryRecord(
        kind="interpreter", key="", inputs={"found_at": list(folders)}, outputs={}, files={}, seconds=0.0
    )
    return Entry(path=Path("/none"), record=record, reused=True)


def test_the_clock_says_what_begins_and_keeps_how_long_it_took() -> None:
    lines = Lines()
    clock = Clock(lines)
    with clock.step("one", "first things"):
        assert lines.said == ["first things"]
    with pytest.raises(KeyError), clock.step("two", "and then"):
        raise KeyError
    assert list(clock.seconds) == ["one"]
    assert clock.seconds["one"] < 60


def test_makers_are_uv_and_where_the_interpreter_lay() -> None:
    found = makers(python_at("/home/ann/python"))
    assert found["found_at"] == ["/home/ann/python"]
    assert [part.isdigit() for part in found["uv"].split(".")] == [True, True, True]


def test_what_must_not_be_named() -> None:
    folders = host_paths(Path("/store/tmp/env-1"), python_at("/home/ann/python", "/home/ann/python3"))
    assert folders == (b"/home/ann/python", b"/home/ann/python3", b"/store/tmp/env-1")


@pytest.mark.parametrize(
    ("path", "listed_by", "wrong"),
    [
        ("pkg/x.so", "theirs", False),  # from the index: it cannot know
        ("pkg/x.so", "ours", True),
        ("../../../bin/x", "theirs", True),  # a script is written here
        ("pkg/__pycache__/x.pyc", "", True),
    ],
)
def test_only_what_was_made_here_can_name_this_machine(tmp_path: Path, path: str, listed_by: str, wrong: bool) -> None:
    there = (tmp_path / SITE / path).resolve()
    there.parent.mkdir(parents=True)
    there.write_bytes(b"in /home/ann/src it was")
    dist = Installed(listed_by, tmp_path, (Line(path, "sha256=x" if listed_by else "", ""),))
    places = [str(there.relative_to(tmp_path.resolve()))]
    if wrong:
        with pytest.raises(CheckFailed, match="1 places in the environment name paths of this machine"):
            check_names_no_host(tmp_path, PLAN, [dist], (b"/home/ann",), places)
    else:
        check_names_no_host(tmp_path, PLAN, [dist], (b"/home/ann",), places)
    check_names_no_host(tmp_path, PLAN, [dist], (b"/home/ann",), [])
    check_names_no_host(tmp_path, PLAN, [dist], (b"/home/bob",), places)


def test_only_what_was_mended_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Collection[str] | None] = []
    again: list[str] = []

    def drifted(
        _prefix: Path, _python: str, *, contested: Container[str], only: Collection[str] | None = None
    ) -> dict[str, Any]:
        asked.append(only)
        return {} if again else {"certifi": ("cacert.pem",)}

    def reinstall(_plan: object, name: str, *_args: object, cached: bool) -> None:
        assert not cached
        again.append(name)

    monkeypatch.setattr(verify, "drifted", drifted)
    monkeypatch.setattr(install, "reinstall", reinstall)
    found = assemble._mend(PLAN, tmp_path, "3.12", scratch=tmp_path, contested=(), progress=Silent())
    assert again == ["certifi"]
    assert found == {"certifi"}
    assert [only and list(only) for only in asked] == [None, ["certifi"]]


CLAIMS = {"x.py": ("b", "c"), "y.py": ("a", "b"), "z.py": ("a", "c")}


@pytest.mark.parametrize("last", ["a", "b", "c"])
@pytest.mark.parametrize("works", [True, False])
def test_each_contested_file_is_its_last_owners_whoever_wrote_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, works: bool
) -> None:
    (tmp_path / SITE).mkdir(parents=True)

    def write(name: str) -> None:
        for path, names in CLAIMS.items():
            if name in names:
                (tmp_path / SITE / path).write_text(name)

    def reinstall(_plan: object, name: str, *_args: object, cached: bool) -> None:
        assert cached == (name != "c")
        if works:
            write(name)

    monkeypatch.setattr(install, "reinstall", reinstall)
    (tmp_path / "said").mkdir()
    dists = []
    for name in ("a", "b", "c"):
        (tmp_path / "said" / name).write_text(name)
        digest = digest_of(tmp_path / "said" / name)[0]
        dists.append(Installed(name, tmp_path, tuple(Line(p, digest, "1") for p, n in CLAIMS.items() if name in n)))
    for name in ("c", "b", "a", last):
        write(name)
    if not works:
        with pytest.raises(CheckFailed, match=r"claimed by ., ., and not what the wheel of . holds"):
            settle_contested(PLAN, tmp_path, tmp_path, dists, contested=CLAIMS, mended={"c"})
        return
    settle_contested(PLAN, tmp_path, tmp_path, dists, contested=CLAIMS, mended={"c"})
    assert {path: (tmp_path / SITE / path).read_text() for path in CLAIMS} == {"x.py": "c", "y.py": "b", "z.py": "c"}


def test_digests_come_from_records_but_for_contested_and_unlisted_files(tmp_path: Path) -> None:
    site = tmp_path / SITE
    info = site / "a-1.dist-info"
    info.mkdir(parents=True)
    rows = "a.py,sha256=stated,1\nshared.py,sha256=stated,1\ngone.py,sha256=stated,1\na-1.dist-info/RECORD,,\n"
    (info / "RECORD").write_text(rows)
    for name in ("a.py", "shared.py"):
        (site / name).write_bytes(b"1")
    fresh = Fresh((Installed("a", info, ()),), {"shared.py": ("a", "b")}, frozenset(), frozenset())
    sizes = {f"{SITE}/a.py": 1, f"{SITE}/shared.py": 1, f"{SITE}/a-1.dist-info/RECORD": len(rows)}
    found = assemble._contents(tmp_path, fresh, sizes)
    assert found.keys() == sizes.keys()
    assert found[f"{SITE}/a.py"] == "stated"
    for path in (f"{SITE}/shared.py", f"{SITE}/a-1.dist-info/RECORD"):
        assert f"sha256={found[path]}" == digest_of(tmp_path / path)[0]
