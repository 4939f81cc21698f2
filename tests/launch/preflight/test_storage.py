"""storage, mounts and probe_files: folders are really written to; what this machine has not is made up."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orbit.core.proc import own_python
from orbit.launch.preflight import probe_files, storage
from orbit.launch.preflight.model import Check, Demand, State
from orbit.launch.preflight.mounts import Mounted, mount_of, read_mounts
from orbit.launch.preflight.storage import Places, Tried, find_places, judge_storage, try_folders
from tests.launch.preflight.made import GIB, RULES, Machine, only

DISK = (Mounted(point="/", kind="ext4"),)
GOOD = {"total": 100 * GIB, "free": 50 * GIB, "used": 50 * GIB, "inodes": 10**7, "inodes_free": 10**6,
        "flock": "works", "fcntl": "works"}  # fmt: skip


def tried(folder: str, **values: object) -> Tried:
    return Tried(folder=folder, **({"at": folder} | GOOD | values))  # type: ignore[arg-type]


def judge(
    name: str,
    *,
    mounts: tuple[Mounted, ...] = DISK,
    demand: Demand | None = None,
    shared: str = "",
    caches: dict[str, str] | None = None,
    sockets: str = "/s",
    changes: dict[str, dict[str, object]] | None = None,
) -> Check:
    places = Places(scratch="/s", sockets=sockets, shared=shared, caches=caches or {})
    found = {folder: tried(folder, **(changes or {}).get(folder, {})) for folder in places.all}
    return only(judge_storage(places, found, mounts, demand or Demand(), RULES), name)


# --- the mount table --------------------------------------------------------------------------------------------------


def test_the_longest_mount_counts_and_the_last_of_equals(tmp_path: Path) -> None:
    machine = Machine(tmp_path).mount("/data", "nfs4").mount(r"/data/my\040disk", "ext4").mount("/data", "lustre")
    mounts = read_mounts(machine.root)
    assert mount_of("/data/x", mounts).kind == "lustre"  # type: ignore[union-attr]
    assert mount_of("/data/my disk/x", mounts).kind == "ext4"  # type: ignore[union-attr]
    assert mount_of("/database", mounts).kind == "overlay"  # type: ignore[union-attr]
    assert mount_of("/x", ()) is None


@pytest.mark.parametrize(
    ("kind", "remote"), [("nfs4", True), ("lustre", True), ("fuse.sshfs", True), ("ext4", False), ("tmpfs", False)]
)
def test_remote_file_systems(kind: str, remote: bool) -> None:
    assert Mounted(point="/", kind=kind).is_remote(RULES.files) is remote


# --- trying -----------------------------------------------------------------------------------------------------------


def test_a_real_folder_works_and_is_left_clean(tmp_path: Path) -> None:
    found = try_folders([str(tmp_path), str(tmp_path / "not/there")], read_mounts(Path("/")), 30.0)
    here = found[str(tmp_path)]
    assert (here.problem, here.flock, here.fcntl, here.executes) == ("", "works", "works", True)
    assert here.total >= here.free > 0
    assert found[str(tmp_path / "not/there")].at == str(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    found = try_folders([str(tmp_path / "file")], DISK, 30.0)[str(tmp_path / "file")]
    assert found.error == "ENOTDIR"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    found = try_folders([str(tmp_path)], DISK, 30.0)[str(tmp_path)]
    assert found.error == "EACCES"


def test_a_file_system_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that hangs in the place of ours: this process goes on."""
    module = tmp_path / "hangs.py"
    module.write_text("import time\ndef main():\n    time.sleep(600)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(storage, "PROBE", "hangs")
    began = time.monotonic()
    found = try_folders(["/a", "/b"], DISK, 0.5)
    assert time.monotonic() - began < 60
    assert {each.error for each in found.values()} == {"ETIMEDOUT"}
    assert "no answer within 0.5 s" in found["/a"].problem


def test_what_was_said_before_it_hung_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "halfway.py"
    module.write_text(
        'import sys, time\ndef main():\n    print(\'{"folder": "/a", "at": "/a"}\', flush=True)\n    time.sleep(600)\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(storage, "PROBE", "halfway")
    found = try_folders(["/a", "/b"], DISK, 1.0)
    assert (found["/a"].problem, found["/b"].error) == ("", "ETIMEDOUT")


def test_a_process_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dies.py").write_text("import os\ndef main():\n    os.abort()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(storage, "PROBE", "dies")
    assert "status -6" in try_folders(["/a"], DISK, 30.0)["/a"].problem


PRETEND = """
#include <errno.h>
int flock(int handle, int how) { (void)handle; (void)how; errno = CODE; return -1; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to make a file system without locks")
@pytest.mark.parametrize(("code", "answer"), [("ENOSYS", "missing ENOSYS"), ("EWOULDBLOCK", "held")])
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, answer: str) -> None:
    """As on Lustre without -o flock: the C library's flock fails, in the real program."""
    source, library, folder = tmp_path / "pretend.c", tmp_path / "pretend.so", tmp_path / "f"
    folder.mkdir()
    source.write_text(PRETEND.replace("CODE", code))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    monkeypatch.setattr(storage, "own_python", lambda name: ["env", f"LD_PRELOAD={library}", *own_python(name)])
    found = try_folders([str(folder)], DISK, 30.0)[str(folder)]
    assert (found.problem, found.flock, found.fcntl) == ("", answer, "works")
    assert os.listdir(folder) == []


def refusing(number: int) -> probe_files.Lock:
    def lock(_handle: int, _how: int) -> None:
        raise OSError(number, os.strerror(number))

    return lock


@pytest.mark.parametrize(
    ("number", "answer"),
    [(errno.ENOSYS, "missing ENOSYS"), (errno.ENOLCK, "missing ENOLCK"), (errno.EWOULDBLOCK, "held"),
     (errno.EACCES, "held")],
)  # fmt: skip
def test_held_and_not_supported_are_two_things(number: int, answer: str) -> None:
    assert probe_files.try_lock(1, 2, refusing(number), second=probe_files.second_descriptor) == answer


def test_a_lock_that_keeps_nobody_out() -> None:
    assert probe_files.try_lock(1, 2, lambda _h, _how: None, second=probe_files.second_descriptor) == "shared"
    assert probe_files.try_lock(1, 2, lambda _h, _how: None, second=probe_files.second_process) == "shared"


def test_the_program_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"folders": [str(tmp_path)]})))
    probe_files.main()
    assert '"flock": "works"' in capsys.readouterr().out


# --- judging ----------------------------------------------------------------------------------------------------------


def test_room_by_bytes_and_by_percent() -> None:
    few = judge("scratch-room", demand=Demand(scratch_gib=20), changes={"/s": {"free": GIB}})
    assert (few.state, few.message) == (State.FAILED, "/s has 1 GiB free, 20 GiB are needed")
    big: dict[str, object] = {"total": 9000 * GIB, "free": 440 * GIB}  # plenty, and still an error for Ray
    full = judge("scratch-room", demand=Demand(scratch_gib=20), changes={"/s": big})
    assert full.state is State.FAILED
    assert "95.1 % full, Ray stops at 95 % (440 GiB are free)" in full.message
    assert judge("scratch-room", demand=Demand(scratch_gib=20)).state is State.PASSED
    assert judge("scratch-room", changes={"/s": {"inodes_free": 5}}).state is State.FAILED


def test_room_that_is_memory() -> None:
    mounts = (Mounted(point="/", kind="tmpfs"),)
    check = judge("scratch-room", mounts=mounts, demand=Demand(scratch_gib=20))
    assert check.state is State.WARNING


@pytest.mark.parametrize(("length", "state"), [(39, State.PASSED), (40, State.FAILED), (80, State.FAILED)])
def test_socket_paths(length: int, state: State) -> None:
    check = judge("socket-path", sockets="/" + "x" * (length - 1))
    assert check.state is state
    assert str(length) in check.message
    assert state is State.PASSED or "107" in check.message


@pytest.mark.parametrize(
    ("error", "word"),
    [("ESTALE", "unmount and mount"), ("EROFS", "read-only"), ("ETIMEDOUT", "does not answer"), ("EDQUOT", "quota"),
     ("EACCES", "ORBIT_STATE")],
)  # fmt: skip
def test_scratch_that_cannot_be_written(error: str, word: str) -> None:
    check = judge("scratch", changes={"/s": {"problem": "/s: bad", "error": error}})
    assert check.state is State.FAILED
    assert word in check.fix
    assert judge("scratch-room", changes={"/s": {"problem": "/s: bad"}}).state is State.SKIPPED


def test_scratch_noexec_and_remote() -> None:
    assert judge("scratch", changes={"/s": {"executes": False}}).state is State.FAILED
    remote = judge("scratch", mounts=(*DISK, Mounted(point="/s", kind="lustre")))
    assert remote.state is State.WARNING
    assert "stale handles" in remote.message


def test_the_shared_folder() -> None:
    nfs = (*DISK, Mounted(point="/w", kind="nfs4", options=("rw", "nolock")))
    assert "nolock" in judge("shared-folder", shared="/w/x", mounts=nfs).message
    assert judge("shared-folder", shared="/w/x", mounts=(*DISK, Mounted(point="/w", kind="nfs4"))).state is State.PASSED
    assert judge("shared-folder", shared="/w/x").state is State.WARNING
    gone = judge("shared-folder", shared="/w/x/y", changes={"/w/x/y": {"at": "/"}})
    assert gone.state is State.FAILED
    assert "mounted" in gone.fix


def test_locks_on_every_cache() -> None:
    caches = {"TRITON_CACHE_DIR": "/c"}
    missing = judge("file-locks", caches=caches, changes={"/c": {"flock": "missing ENOSYS"}})
    assert missing.state is State.FAILED
    assert "/c (TRITON_CACHE_DIR): flock is not supported (ENOSYS, Function not implemented)" in missing.message
    held = judge("file-locks", caches=caches, changes={"/c": {"flock": "held"}})
    assert "nobody else knows" in held.message
    shared = judge("file-locks", shared="/w", changes={"/w": {"fcntl": "missing ENOLCK"}})
    assert shared.state is State.WARNING
    assert judge("file-locks", caches=caches).state is State.PASSED


def test_caches() -> None:
    caches = {"TRITON_CACHE_DIR": "/c", "HF_HOME": "/h"}
    assert judge("caches", caches=caches).state is State.PASSED
    nfs = (*DISK, Mounted(point="/c", kind="nfs4"), Mounted(point="/h", kind="nfs4"))
    assert "TRITON_CACHE_DIR=/c is on nfs4" in judge("caches", caches=caches, mounts=nfs).message
    assert judge("caches", caches={"HF_HOME": "/h"}, mounts=nfs).state is State.PASSED, "models may lie there"
    assert judge("caches", caches=caches, changes={"/c": {"problem": "/c: no"}}).state is State.FAILED
    assert judge("caches", caches=caches, changes={"/c": {"executes": False}}).state is State.FAILED


def test_places_come_from_the_contract() -> None:
    env = {
        "ORBIT_STATE": "/st",
        "RAY_TMPDIR": "/r",
        "TRITON_CACHE_DIR": "/st/cache/t",
        "HF_HOME": "/models",
        "HOME": "/h",
    }
    places = find_places(Demand(shared="/w"), env, 1000)
    assert (places.scratch, places.sockets, places.shared) == ("/st", "/r", "/w")
    assert places.caches["TRITON_CACHE_DIR"] == "/st/cache/t"
    assert places.caches["XDG_CACHE_HOME"] == "/h/.cache"
    assert find_places(Demand(), {}, 7).scratch == "/tmp/orbit-7"
    slot = {"_CONDOR_SCRATCH_DIR": "/var/lib/condor/execute/dir_1"}
    assert find_places(Demand(), slot, 7).sockets == "/var/lib/condor/execute/dir_1/.orbit", "far too long for sockets"
    assert find_places(Demand(scratch="/x"), slot, 7).scratch == "/x"
