"""orbit.kernels.wheels.archive: equal folders are equal wheels, RECORD is right, what is no wheel is refused."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import resource
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError
from orbit.kernels.wheels.archive import dist_info, elf_names, file_names, unpack_wheel, write_wheel
from tests.audit.support import judge_wheels
from tests.kernels.wheels.support import FILES, INFO, lay_out
from tests.writers.elf import write_elf
from tests.writers.wheels import Entry, wheel_entries, zip_bytes

AWKWARD = {
    **FILES,
    'thing/a, "b".py': b"",
    "thing/\u00e9.txt": b"accent",
    "thing/empty": b"",
    "thing/_c.so": write_elf(),
}


def rows(archive: zipfile.ZipFile) -> list[list[str]]:
    return list(csv.reader(io.StringIO(archive.read(f"{INFO}/RECORD").decode())))


def test_equal_folders_are_equal_wheels_whatever_their_times_and_modes(tmp_path: Path) -> None:
    first = lay_out(tmp_path / "one", AWKWARD)
    second = lay_out(tmp_path / "a longer name" / "two", dict(reversed(AWKWARD.items())))
    for name in AWKWARD:
        os.utime(second / name, (1e9, 1e9))
        (second / name).chmod(0o600)
    write_wheel(tmp_path / "a.whl", first)
    write_wheel(tmp_path / "b.whl", second)
    assert (tmp_path / "a.whl").read_bytes() == (tmp_path / "b.whl").read_bytes()


def test_packing_what_was_unpacked_changes_nothing(tmp_path: Path) -> None:
    write_wheel(tmp_path / "a.whl", lay_out(tmp_path / "one", AWKWARD))
    unpack_wheel(tmp_path / "a.whl", tmp_path / "two")
    assert {name: (tmp_path / "two" / name).read_bytes() for name in file_names(tmp_path / "two")} == AWKWARD
    assert elf_names(tmp_path / "two") == ("thing/_c.so",)
    assert (tmp_path / "two/thing/tool").stat().st_mode & 0o111
    write_wheel(tmp_path / "b.whl", tmp_path / "two")
    assert (tmp_path / "a.whl").read_bytes() == (tmp_path / "b.whl").read_bytes()


def test_record_lists_every_file_also_those_with_commas_and_quotes(tmp_path: Path) -> None:
    write_wheel(tmp_path / "a.whl", lay_out(tmp_path / "one", AWKWARD))
    with zipfile.ZipFile(tmp_path / "a.whl") as archive:
        found = rows(archive)
        assert {row[0] for row in found} == set(archive.namelist())
        for name, digest, size in found:
            if name.endswith("RECORD"):
                assert (digest, size) == ("", "")
                continue
            data = archive.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert int(size) == len(data)
        modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
        assert {name for name, mode in modes.items() if mode == 0o755} == {"thing/tool", "thing/_c.so"}
        assert set(modes.values()) == {0o755, 0o644}
        assert [name.startswith("thing/") for name in archive.namelist()] == [True] * 6 + [False] * 3
        assert archive.namelist()[-1] == f"{INFO}/RECORD"


def test_the_audit_has_nothing_against_it(tmp_path: Path) -> None:
    files = {name: data for name, data in AWKWARD.items() if not name.endswith(".so")}
    write_wheel(tmp_path / "thing-1.2-py3-none-any.whl", lay_out(tmp_path / "one", files))
    for rule in ("wheel-archive", "record-hash", "wheel-tag"):
        assert judge_wheels(tmp_path / "thing-1.2-py3-none-any.whl", rule) == []


def test_what_is_not_a_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"no zip")
    with pytest.raises(InputError, match="not a zip archive"):
        unpack_wheel(path, tmp_path / "x")
    for number, (entry, says) in enumerate(
        [
            (Entry("../outside", b""), "leads out of the folder"),
            (Entry("thing/link", b"/etc", mode=0o120777), "symbolic link"),
            (Entry("thing/a.py", b"x = 1\n", crc=1), "damaged"),
            (Entry("thing/__init__.py", b"again"), "twice"),
            (Entry("thing/__init__.py/below", b"again"), "twice, or is a folder"),
        ]
    ):
        path.write_bytes(zip_bytes([*wheel_entries("thing", {"thing/__init__.py": b""}), entry]))
        with pytest.raises(InputError, match=says):
            unpack_wheel(path, tmp_path / str(number))
    assert not (tmp_path / "outside").exists()


def test_a_folder_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 0: none"):
        dist_info(lay_out(tmp_path / "none", {"a.py": b""}))
    two = lay_out(tmp_path / "two", {**FILES, "other-1.dist-info/WHEEL": b""})
    with pytest.raises(InputError, match=r"has 2: other-1.dist-info, thing"):
        write_wheel(tmp_path / "x.whl", two)
    (tmp_path / "two" / "link").symlink_to("thing")
    with pytest.raises(InputError, match="link"):
        file_names(two)


def test_members_of_more_than_four_gigabytes(tmp_path: Path) -> None:
    """A sparse file of 4.1 GiB: its bytes go by, none is kept. The archive needs 64-bit sizes and offsets."""
    size = (4 << 30) + (100 << 20)
    if os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize < 3 * size:
        pytest.skip("no room for 12 GiB")
    if not os.environ.get("ORBIT_TEST_LARGE"):
        pytest.skip("takes a minute and 12 GiB of disk: set ORBIT_TEST_LARGE=1")
    folder = lay_out(tmp_path / "one", FILES)
    with open(folder / "thing" / "big.bin", "wb") as file:
        file.truncate(size)
    write_wheel(tmp_path / "a.whl", folder)
    unpack_wheel(tmp_path / "a.whl", tmp_path / "two")
    assert (tmp_path / "two/thing/big.bin").stat().st_size == size
    assert (tmp_path / "two/thing/tool").read_bytes() == FILES["thing/tool"]


PROGRAM = """
import resource, sys
from pathlib import Path
from orbit.kernels.wheels.archive import unpack_wheel, write_wheel
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_wheel(Path(sys.argv[1]) / "a.whl", Path(sys.argv[1]) / "one")
unpack_wheel(Path(sys.argv[1]) / "a.whl", Path(sys.argv[1]) / "two")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
"""


def test_no_member_is_held_in_memory(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "one", FILES)
    with open(folder / "thing" / "big.bin", "wb") as file:
        file.truncate(200 << 20)
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(argv, cwd=checkout_root(), capture_output=True, check=True)
    assert int(done.stdout) << 10 < 32 << 20, "200 MiB went by, and more than 32 MiB of memory was taken"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
