"""orbit.env.archive: equal environments give equal bytes, and nothing wrong gets in."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard

from orbit.core.console import Silent
from orbit.env.archive import plan_archive, write_archive_file
from orbit.env.archive_list import LIST, MANIFEST, parse_manifest
from orbit.env.record import RECORD_PATH
from orbit.errors import InputError, RefusedError
from orbit.image.own import read_own
from orbit.image.tar import header
from tests.image.world import dist, make_checkout, recorded, write_tree

from .archives import make_archive, make_environment, plan_of, unpack

SITE = "lib/python3.12/site-packages"


def test_equal_environments_give_equal_bytes(tmp_path: Path) -> None:
    """Written in another order, at other times, with other modes of the umask, with another number of threads."""
    found = []
    for number, workers in ((1, 1), (2, 3)):
        prefix = make_environment(tmp_path / f"place{number}" / ("x" * number), seed=number)
        plan = plan_archive(prefix, None, progress=Silent())
        target = tmp_path / f"{number}.tar.zst"
        written = write_archive_file(plan, target, workers=workers, progress=Silent())
        found.append((target.read_bytes(), written.sha256))
    assert found[0] == found[1]


def test_plain_tar_reads_it_and_the_manifest_comes_first(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    data = zstandard.ZstdDecompressor().decompressobj().decompress(archive.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
        manifest = tar.extractfile(MANIFEST)
        assert manifest is not None
        said = parse_manifest(manifest.read(), "x")
    assert names[:2] == [MANIFEST, LIST]
    assert said.environment == "e" * 64
    assert {f"{SITE}/torch/__init__.py", RECORD_PATH, "cuda/lib64"} <= set(names)
    assert not any(str(tmp_path) in name for name in names)
    assert str(tmp_path).encode() not in data


def test_the_list_has_every_path_once_with_its_digest(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "env")
    listed = [line.split("\t")[0] for line in plan.listed.decode().splitlines()]
    there = sorted(str(path.relative_to(tmp_path / "env")) for path in (tmp_path / "env").rglob("*"))
    assert sorted(listed) == there
    assert [member.name for member in plan.members] == listed


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/usr/lib/x", "out of the environment"),
        ("../../elsewhere", "out of the environment"),
        ("nothing", "to nothing"),
    ],
)
def test_a_link_that_would_not_survive_is_named(tmp_path: Path, target: str, says: str) -> None:
    prefix = make_environment(tmp_path / "env")
    (prefix / "lib" / "bad").symlink_to(target)
    with pytest.raises(RefusedError, match=f"(?s)1 link.*lib/bad -> {target}: {says}"):
        plan_archive(prefix, None, progress=Silent())


def test_a_link_into_a_cache_is_refused_with_the_way_out(tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "env")
    cached = tmp_path / "cache" / "x.py"
    cached.parent.mkdir()
    cached.write_text("x = 1\n")
    (prefix / SITE / "x.py").symlink_to(cached)
    with pytest.raises(RefusedError, match=r"x\.py -> ") as caught:
        plan_archive(prefix, None, progress=Silent())
    assert "orbit env materialize" in caught.value.fix


def test_a_file_that_is_not_what_its_record_says_is_refused(tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "env")
    file = prefix / SITE / "torch" / "__init__.py"
    file.write_bytes(file.read_bytes().replace(b"42", b"43"))
    plan = plan_archive(prefix, None, progress=Silent())
    with pytest.raises(RefusedError, match=r"torch/__init__\.py"):
        write_archive_file(plan, tmp_path / "a.tar.zst", progress=Silent())
    assert [path.name for path in tmp_path.iterdir()] == ["env"]


def test_a_file_that_changes_after_it_was_listed_is_refused(tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "env")
    plan = plan_archive(prefix, None, progress=Silent())
    (prefix / SITE / "nobody.txt").write_text("another content of another length")
    with pytest.raises(RefusedError, match=r"nobody\.txt"):
        write_archive_file(plan, tmp_path / "a.tar.zst", progress=Silent())
    assert not (tmp_path / "a.tar.zst").exists()


def test_what_came_out_of_an_archive_goes_into_an_equal_one(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a")
    unpack(archive, tmp_path / "b")
    plan = plan_archive(tmp_path / "b", None, progress=Silent())
    write_archive_file(plan, tmp_path / "again.tar.zst", progress=Silent())
    assert (tmp_path / "again.tar.zst").read_bytes() == archive.read_bytes()


def test_what_was_changed_after_it_came_out_is_named(tmp_path: Path) -> None:
    unpack(make_archive(tmp_path / "a"), tmp_path / "b")
    (tmp_path / "b" / "lib" / "python3.12" / "os.py").write_text("# another standard library\n")
    with pytest.raises(RefusedError, match=r"lib/python3\.12/os\.py: changed"):
        plan_archive(tmp_path / "b", None, progress=Silent())


def test_a_distribution_that_the_record_does_not_know_is_refused(tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "env")
    write_tree(prefix, recorded(dist("extra", "1.0", {"extra.py": b"x = 1\n"})))
    with pytest.raises(RefusedError, match="extra is installed, and no part of it"):
        plan_archive(prefix, None, progress=Silent())


def test_files_that_name_the_folder_they_lie_in_cannot_be_moved(tmp_path: Path) -> None:
    prefix = make_environment(tmp_path / "env")
    (prefix / SITE / "nobody.txt").write_text(f"see {prefix}/bin\n")
    with pytest.raises(RefusedError, match=r"names the folder it lies in .*nobody\.txt"):
        plan_archive(prefix, None, progress=Silent())


def test_an_environment_of_the_store_is_compared_with_its_manifest(tmp_path: Path) -> None:
    from orbit.env import tree

    prefix = make_environment(tmp_path / "prefix")
    sealed = tree.seal(prefix)
    tree.write_lines(tmp_path / tree.MANIFEST, sealed.lines)
    plan_archive(prefix, None, progress=Silent())
    os.utime(prefix / "bin" / "python3.12")
    with pytest.raises(RefusedError, match=r"bin/python3\.12 was changed since it was made"):
        plan_archive(prefix, None, progress=Silent())


def test_orbits_own_files_come_along(tmp_path: Path) -> None:
    """Compiled by the environment's interpreter, under the paths of the image."""
    python = f'#!/bin/sh\nexec {os.path.realpath(os.sys.executable)} "$@"\n'.encode()
    prefix = make_environment(tmp_path / "env", {"bin/python3.12": python})
    own = read_own(make_checkout(tmp_path / "checkout"))
    plan = plan_archive(prefix, own, progress=Silent())
    names = {member.name for member in plan.members}
    assert {"bin/orbit-entrypoint", "share/orbit/state.sh", f"{SITE}/orbit/cli/__init__.py"} <= names
    assert f"{SITE}/orbit/cli/__pycache__/__init__.cpython-312.pyc" in names
    assert plan.manifest.orbit == own.key
    assert plan_archive(prefix, None, progress=Silent()).manifest.orbit == ""


@pytest.mark.parametrize("what", ["empty", "file", "absent"])
def test_what_is_no_environment_is_bad_input(tmp_path: Path, what: str) -> None:
    place = tmp_path / "x"
    if what == "empty":
        place.mkdir()
    elif what == "file":
        place.write_text("x")
    with pytest.raises(InputError, match="not an Orbit environment"):
        plan_archive(place, None, progress=Silent())


def test_the_output_is_whole_or_not_there(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "env")
    with pytest.raises(InputError, match="is a folder"):
        write_archive_file(plan, tmp_path / "env", progress=Silent())
    with pytest.raises(FileNotFoundError):
        write_archive_file(plan, tmp_path / "no" / "a.tar.zst", progress=Silent())
    target = tmp_path / "a.tar.zst"
    target.write_bytes(b"old")
    write_archive_file(plan, target, progress=Silent())
    assert target.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.zst", "env"]


def test_glibc_is_the_newest_that_a_binary_asks_for(tmp_path: Path) -> None:
    program = "/bin/sh"
    data = Path(os.path.realpath(program)).read_bytes()
    plan = plan_archive(make_environment(tmp_path / "env", {"bin/tool": data}), None, progress=Silent())
    out = subprocess.run(["/bin/sh", "-c", "strings -a /bin/sh 2>/dev/null | grep -o 'GLIBC_2[.][0-9]*' | sort -uV"],
                         capture_output=True, text=True, check=False).stdout.split()  # fmt: skip
    assert plan.manifest.glibc.startswith("2.")
    if out:
        assert plan.manifest.glibc == out[-1].removeprefix("GLIBC_")


def test_headers_are_those_of_the_lines(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "env")
    from orbit.env.archive_list import parse_list

    for line, member in zip(parse_list(plan.listed, plan.manifest, "x"), plan.members, strict=True):
        assert header(line.member()) == header(member)
