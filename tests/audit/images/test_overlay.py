"""Layers on each other: equal to really unpacking each into a folder and laying the folders over each other."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbit.audit.images.layers import LayerFacts, read_layer
from orbit.audit.images.overlay import Stacked, stack
from tests.writers.tiny_image import Members, file, folder, other, symlink, tar_bytes


def facts(members: Members) -> LayerFacts:
    found, missing = read_layer([tar_bytes(members)], "layer")
    assert not missing
    return found


def stacked(*layers: Members) -> Stacked:
    return stack([facts(members) for members in layers])


def names(*layers: Members) -> list[str]:
    return sorted(stacked(*layers).entries)


def test_upper_files_replace_lower_ones_and_say_where_they_come_from() -> None:
    found = stacked([folder("a"), file("a/x", b"1"), file("a/y", b"22")], [file("a/x", b"333")])
    assert found.entries["a/x"].size == 3
    assert {path: source[0] for path, source in found.sources.items()} == {"a/x": 1, "a/y": 0}


def test_a_whiteout_hides_what_is_below_and_only_that() -> None:
    lower = [folder("a"), file("a/x"), file("a/x2"), folder("a/d"), file("a/d/e")]
    assert names(lower, [file("a/.wh.x")]) == ["a", "a/d", "a/d/e", "a/x2"]
    assert names(lower, [file("a/.wh.d")]) == ["a", "a/x", "a/x2"]
    assert names(lower, [file("a/d/new"), file("a/.wh.d")]) == ["a", "a/d", "a/d/new", "a/x", "a/x2"]
    assert names(lower, [file("a/.wh.nothing")]) == names(lower)


def test_an_opaque_folder_hides_its_lower_content_wherever_the_mark_stands() -> None:
    lower = [folder("a"), file("a/x"), folder("a/d"), file("a/d/e")]
    for upper in ([file("a/.wh..wh..opq"), file("a/new")], [file("a/new"), file("a/.wh..wh..opq")]):
        assert names(lower, upper) == ["a", "a/new"]
    assert names(lower, [file(".wh..wh..opq")]) == []


def test_other_names_of_union_file_systems_mean_nothing() -> None:
    assert names([file("a/x")], [file(".wh..wh.plnk"), file("a/.wh..wh.aufs")]) == ["a", "a/x"]


def test_a_folder_on_a_folder_is_merged_with_the_upper_modes() -> None:
    found = stacked([folder("a", 0o700), file("a/x")], [folder("a", 0o755)])
    assert "a/x" in found.entries
    assert found.entries["a"].mode & 0o777 == 0o755
    # a folder that the upper layer does not list keeps what it had
    assert stacked([folder("a", 0o700)], [file("a/y")]).entries["a"].mode & 0o777 == 0o700


@pytest.mark.parametrize("thing", [file("a", b"x"), symlink("a", "b"), other("a", tarfile.FIFOTYPE)])
def test_anything_else_on_a_folder_takes_all_of_it_away(thing: tuple[tarfile.TarInfo, bytes]) -> None:
    assert names([folder("a"), file("a/x"), folder("a/d"), file("a/d/e"), file("ab")], [thing]) == ["a", "ab"]


def test_a_folder_on_a_link_replaces_the_link() -> None:
    """What happens to images of a merged /usr when a layer brings lib/x."""
    lower = [folder("usr"), folder("usr/lib"), file("usr/lib/libc.so.6"), symlink("lib", "usr/lib")]
    found = stacked(lower, [file("lib/x.so")])
    assert stat.S_ISDIR(found.entries["lib"].mode)
    assert "lib" not in found.links
    assert "lib/libc.so.6" not in found.entries
    assert "usr/lib/x.so" not in found.entries


def test_removed_and_made_again() -> None:
    lower = [folder("a"), file("a/x"), file("a/y")]
    assert names(lower, [file(".wh.a")], [folder("a"), file("a/z")], [file("a/.wh.z")], [file("a/x")]) == ["a", "a/x"]


def test_hard_links_share_their_stamp_and_source() -> None:
    found = stacked([file("a", b"x"), other("b", tarfile.LNKTYPE, "a")])
    assert found.entries["a"].stamp == found.entries["b"].stamp
    assert found.sources["a"] == found.sources["b"]


# --- against really unpacking -----------------------------------------------------------------------------------------

PART = st.sampled_from(["a", "b", "c", "d"])
PATH = st.lists(PART, min_size=1, max_size=4).map("/".join)
MEMBER = st.one_of(
    st.tuples(st.just("file"), PATH, st.sampled_from(["1", "22", "333"])),
    st.tuples(st.just("folder"), PATH, st.just("")),
    st.tuples(st.just("symlink"), PATH, st.sampled_from(["a", "../b", "b/c", "nowhere", "../../../../d"])),
    st.tuples(st.just("hardlink"), PATH, PATH),
    st.tuples(st.just("whiteout"), PATH, st.just("")),
    st.tuples(st.just("opaque"), st.one_of(st.just(""), PATH), st.just("")),
)


def member(kind: str, path: str, value: str) -> tuple[tarfile.TarInfo, bytes]:
    head, _, name = path.rpartition("/")
    lead = f"{head}/" if head else ""
    if kind == "file":
        return file(path, value.encode())
    if kind == "folder":
        return folder(path)
    if kind == "symlink":
        return symlink(path, value)
    if kind == "hardlink":
        return other(path, tarfile.LNKTYPE, value)
    return file(f"{lead}.wh.{name}" if kind == "whiteout" else f"{path}/.wh..wh..opq".lstrip("/"))


def inside(root: Path, path: Path, *, hops: int = 20) -> Path | None:  # noqa: C901 - a model in one piece
    """Where ``path`` below ``root`` really is when ``root`` is the root of the file system: the last part not followed.

    Missing folders are made, as an engine does it.
    """
    place = root
    for part in path.relative_to(root).parts[:-1]:
        place = place / part
        while place.is_symlink():
            hops -= 1
            if hops == 0:
                return None
            target = os.readlink(place)
            start = root if target.startswith("/") else place.parent
            for piece in target.strip("/").split("/"):
                start = max(start.parent, root) if piece == ".." else start / piece
                if start.is_symlink():
                    found = inside(root, start / "x", hops=hops)
                    if found is None:
                        return None
                    start = found.parent
                elif not start.exists():
                    start.mkdir()
                elif not start.is_dir():
                    return None
            place = start
        if not place.exists():
            place.mkdir()
        elif not place.is_dir():
            return None
    return place / path.name


def unpack(  # noqa: C901 - a model in one piece
    members: Sequence[tuple[str, str, str]], root: Path
) -> tuple[set[str], set[str]]:
    """Unpack one layer into ``root`` with real files; its whiteouts and opaque folders."""
    whiteouts: set[str] = set()
    opaque: set[str] = set()
    root.mkdir()
    for kind, path, value in members:
        place = inside(root, root / path / "mark" if kind == "opaque" else root / path)
        if place is None:
            continue
        if kind == "whiteout":
            whiteouts.add(str(place.relative_to(root)))
        elif kind == "opaque":
            opaque.add(str(place.parent.relative_to(root)).removeprefix("."))
        elif kind == "folder":
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
        else:
            source = None
            if kind == "hardlink":
                source = find(root, value)
                if source is None or (source.is_dir() and not source.is_symlink()) or source == place:
                    continue
            held = root.parent / "held"
            if source is not None:
                os.link(source, held, follow_symlinks=False)
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
            if source is not None:
                os.rename(held, place)
            elif kind == "file":
                place.write_text(value)
            else:
                place.symlink_to(value)
    return whiteouts, opaque


def find(root: Path, path: str) -> Path | None:
    """The file that a hard link names: parents followed, nothing made."""
    before = {str(entry) for entry in root.rglob("*")}
    place = inside(root, root / path)
    made = sorted((entry for entry in root.rglob("*") if str(entry) not in before), key=lambda entry: -len(entry.parts))
    for entry in made:
        entry.rmdir()
    if place is None or made or not (place.exists() or place.is_symlink()):
        return None
    return place


def lay(upper: Path, whiteouts: set[str], opaque: set[str], result: Path) -> None:
    """Lay an unpacked layer over ``result``, as an overlay shows it."""
    for path in whiteouts:
        remove(result, path)
    for path in opaque:
        if (result / path).is_dir() and real(result, path):
            for entry in list((result / path).iterdir()):
                remove(result, str(entry.relative_to(result)))
    for entry in sorted(upper.rglob("*")):
        place = result / entry.relative_to(upper)
        if entry.is_dir() and not entry.is_symlink():
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        shutil.copy2(entry, place, follow_symlinks=False)


def real(root: Path, path: str) -> bool:
    """Whether no part of the path is a link."""
    place = root
    for part in Path(path).parts:
        place = place / part
        if place.is_symlink():
            return False
    return True


def remove(root: Path, path: str) -> None:
    place = root / path
    if not real(root, str(Path(path).parent)):
        return
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        try:
            place.unlink(missing_ok=True)
        except NotADirectoryError:
            return


def listing(root: Path) -> dict[str, tuple[str, str]]:
    found = {}
    for entry in root.rglob("*"):
        path = str(entry.relative_to(root))
        if entry.is_symlink():
            found[path] = ("link", os.readlink(entry))
        elif entry.is_dir():
            found[path] = ("folder", "")
        else:
            found[path] = ("file", str(entry.stat().st_size))
    return found


def seen(found: Stacked) -> dict[str, tuple[str, str]]:
    return {
        path: ("link", found.links[path])
        if path in found.links
        else ("folder", "")
        if fact.is_folder
        else ("file", str(fact.size))
        for path, fact in found.entries.items()
        if path
    }


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(layers=st.lists(st.lists(MEMBER, max_size=7), min_size=1, max_size=3))
def test_it_is_what_unpacking_makes(
    layers: list[list[tuple[str, str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    work = tmp_path_factory.mktemp("unpacked")
    result = work / "result"
    result.mkdir()
    for number, members in enumerate(layers):
        upper = work / str(number)
        whiteouts, opaque = unpack(members, upper)
        lay(upper, whiteouts, opaque, result)
    expected = listing(result)
    shutil.rmtree(work)
    assert seen(stacked(*[[member(*one) for one in members] for members in layers])) == expected
