"""A root file system read again: what is dropped, how the rest is made readable, which packages are in it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import msgspec
import pytest

from orbit.errors import CheckFailed
from orbit.image.base.definition import BaseDefinition
from orbit.image.base.root import installed_packages, read_root, read_status, write_root
from orbit.image.tar import EPOCH_S, Member, with_parents

STATUS = b"""Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9
Description: the C library
 Status: a line of the description

Package: gone
Status: deinstall ok config-files
Version: 1

Package: gcc
Status: install ok installed
Architecture: amd64
Source: gcc-defaults (1.203)
Version: 4:12.2
"""

DEFINITION = BaseDefinition(
    schema=2,
    distribution="debian",
    suites=("bookworm",),
    packages=("gcc",),
    keep=("usr/share/doc/*/copyright",),
    drop=("dev/*", "etc/hostname", "usr/share/doc/*", "var/log/*"),
)


def raw_tar(path: Path) -> Path:
    def add(
        name: str, data: bytes = b"", *, mode: int = 0o644, kind: bytes = tarfile.REGTYPE, target: str = ""
    ) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.type, info.linkname = len(data), mode, kind, target
        info.uid = info.gid = 42
        info.mtime = 1_700_000_000
        archive.addfile(info, io.BytesIO(data))

    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        add("./", mode=0o755, kind=tarfile.DIRTYPE)
        add("./dev/null", kind=tarfile.CHRTYPE)
        add("./etc/hostname", b"builder")
        add("./etc/apt/sources.list", b"deb [trusted=yes] copy:/somewhere/of/the/builder x main")
        add("./etc/apt/sources.list.d/0000x.list", b"deb copy:/somewhere x main")
        add("./etc/apt/apt.conf.d/99mmdebstrap", b"x")
        add("./etc/shadow", b"root:*:", mode=0o640)
        add("./root", mode=0o700, kind=tarfile.DIRTYPE)
        add("./usr/bin/su", b"su", mode=0o4755)
        add("./usr/bin/perl5", b"perl", mode=0o755)
        add("./usr/bin/perl", kind=tarfile.LNKTYPE, target="./usr/bin/perl5", mode=0o755)
        add("./bin", kind=tarfile.SYMTYPE, target="usr/bin")
        add("./usr/share/doc/gcc/copyright", b"GPL")
        add("./usr/share/doc/gcc/README", b"long")
        add("./var/lib/dpkg/status", STATUS)
        add("./var/log/dpkg.log", b"today")
        add("./var/tmp", mode=0o1777, kind=tarfile.DIRTYPE)
    return path


def test_what_belongs_to_the_host_is_dropped_and_all_is_readable(tmp_path: Path) -> None:
    members = {member.name: member for member in with_parents(read_root(raw_tar(tmp_path / "raw"), DEFINITION))}
    assert {"dev/null", "etc/hostname", "usr/share/doc/gcc/README", "var/log/dpkg.log"}.isdisjoint(members)
    assert [name for name in members if name.startswith("etc/apt")] == []
    assert {"dev", "proc", "sys", "run", "tmp", "usr/share/doc/gcc/copyright"} <= set(members)
    assert {name: member.mode for name, member in members.items() if name in ("etc/shadow", "root", "usr/bin/su")} == {
        "etc/shadow": 0o644,
        "root": 0o755,
        "usr/bin/su": 0o755,
    }
    assert {name for name, member in members.items() if member.mode & 0o1000} == {"tmp", "var/tmp"}
    assert members["usr/bin/perl"].target == "usr/bin/perl5"
    assert list(members)[-1] == "usr/bin/perl"


def test_a_link_to_the_documentation_of_another_package_stays(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "raw", "w") as archive:
        for name in ("usr/share/doc/libgcc-s1", "usr/share/doc/libgcc/FAQ", "usr/share/doc/more"):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, "gcc"
            archive.addfile(info)
    keeping = msgspec.structs.replace(DEFINITION, keep_links=("usr/share/doc/lib*",))
    links = [member.name for member in read_root(tmp_path / "raw", keeping) if member.kind == "symlink"]
    assert links == ["usr/share/doc/libgcc-s1"]


def test_files_of_our_own_are_there_whatever_is_dropped(tmp_path: Path) -> None:
    own = msgspec.structs.replace(DEFINITION, files={"etc/hostname": "ours\n", "etc/profile.d/x.sh": "X=1\n"})
    found = [member for member in read_root(raw_tar(tmp_path / "raw"), own) if member.name in own.files]
    assert [(member.name, member.source, member.mode) for member in found] == [
        ("etc/hostname", b"ours\n", 0o644),
        ("etc/profile.d/x.sh", b"X=1\n", 0o644),
    ]


def test_packages_are_read_from_dpkgs_own_database(tmp_path: Path) -> None:
    packages = installed_packages(with_parents(read_root(raw_tar(tmp_path / "raw"), DEFINITION)))
    assert [(package.name, package.version) for package in packages] == [("gcc", "4:12.2"), ("libc6", "2.36-9")]


def test_without_a_database_nobody_would_know_what_is_inside() -> None:
    with pytest.raises(CheckFailed, match="no dpkg database"):
        installed_packages([Member("etc", "dir", 0o755)])


def test_each_package_names_its_source() -> None:
    assert [(each.name, each.source, each.source_version) for each in read_status(STATUS.decode())] == [
        ("gcc", "gcc-defaults", "1.203"),
        ("libc6", "libc6", "2.36-9"),
    ]


def test_equal_trees_are_equal_bytes_whoever_made_them(tmp_path: Path) -> None:
    """Owners, times and the order of the raw archive do not reach the result."""
    members = with_parents(read_root(raw_tar(tmp_path / "raw"), DEFINITION))
    digest = write_root(members, tmp_path / "a.tar")
    assert digest == hashlib.sha256((tmp_path / "a.tar").read_bytes()).hexdigest()
    with tarfile.open(tmp_path / "a.tar") as archive:
        infos = archive.getmembers()
    assert {(info.uid, info.gid, info.mtime) for info in infos} == {(0, 0, EPOCH_S)}
    assert not any(info.mode & 0o6000 or info.isdev() for info in infos)
    with tarfile.open(tmp_path / "raw") as archive, tarfile.open(tmp_path / "other", "w") as other:
        for info in sorted(archive.getmembers(), key=lambda info: (info.islnk(), info.name[::-1])):
            info.uid, info.mtime = 7, 8
            other.addfile(info, archive.extractfile(info) if info.isreg() else None)
    assert write_root(with_parents(read_root(tmp_path / "other", DEFINITION)), tmp_path / "b.tar") == digest
