"""Writing a bundle: the same bytes from the same parts, and nothing half-made whatever happens."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orbit.core.files import from_os_error
from orbit.errors import ExitCode, InputError, RefusedError
from orbit.release.bundle import write
from orbit.release.bundle.model import REQUIRED, Bundle, BundleParts
from orbit.release.bundle.report import Verdict
from orbit.release.bundle.write import make_files, write_archive, write_bundle
from orbit.release.gate.case import Mark
from tests.release.bundle.world import World


@pytest.fixture(scope="module")
def parts(world: World) -> BundleParts:
    """Parts of a release."""
    return world.parts()


def test_equal_parts_make_equal_bytes(world: World, parts: BundleParts, tmp_path: Path) -> None:
    one = write_bundle(tmp_path / "one", parts, world.signer)
    other = write_bundle(tmp_path / "other", parts, world.signer)
    assert one.files == other.files
    archives = [write_archive(bundle, tmp_path / f"{bundle.folder.name}.tar") for bundle in (one, other)]
    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert world.verify(archives[0]).verdict is Verdict.VERIFIED


def test_files_are_whole_and_for_everybody(world: World, parts: BundleParts, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "b", parts, world.signer)
    found = {str(path.relative_to(bundle.folder)): path for path in bundle.folder.rglob("*") if path.is_file()}
    assert {path: place.read_bytes() for path, place in found.items()} == dict(bundle.files)
    assert {stat.S_IMODE(place.stat().st_mode) & 0o444 for place in found.values()} == {0o444}
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("kind", ["folder", "empty", "file", "link"])
def test_nothing_is_written_over(world: World, parts: BundleParts, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "b"
    if kind == "link":
        place.symlink_to("nowhere")
    elif kind == "file":
        place.write_bytes(b"mine")
    else:
        place.mkdir()
    if kind == "folder":
        (place / "x").write_bytes(b"mine")
    with pytest.raises(RefusedError, match="never overwritten"):
        write_bundle(place, parts, world.signer)
    assert os.listdir(tmp_path) == ["b"]
    bundle = write_bundle(tmp_path / "c", parts, world.signer)
    with pytest.raises(RefusedError, match="exists already"):
        write_archive(bundle, place)


# --- what makes no bundle ---------------------------------------------------------------------------------------------


def changed(parts: BundleParts, **changes: object) -> BundleParts:
    values = {name: getattr(parts, name) for name in ("profile", "decision", "files", "statements")}
    return BundleParts(**(values | changes))


def test_what_is_no_release_gets_no_bundle(world: World, parts: BundleParts, tmp_path: Path) -> None:
    judgements = tuple(
        msgspec.structs.replace(item, mark=Mark.REFUSED) if item.requirement == "sbom" else item
        for item in parts.decision.judgements
    )
    refused = msgspec.structs.replace(parts.decision, release=False, judgements=judgements)
    with pytest.raises(RefusedError, match="not a release, so there is no bundle: sbom"):
        write_bundle(tmp_path / "b", changed(parts, decision=refused), world.signer)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", REQUIRED)
def test_every_required_file_is_missed(world: World, parts: BundleParts, path: str) -> None:
    files = {name: data for name, data in parts.files.items() if name != path}
    statements = {name: data for name, data in parts.statements.items() if name != path}
    with pytest.raises(InputError, match=path.replace(".", r"\.")):
        make_files(changed(parts, files=files, statements=statements), world.signer)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("RELEASE.md", "made here and nowhere else"),
        ("release.intoto.json", "made here and nowhere else"),
        ("provenance.intoto.json", "as a file and as a statement"),
        ("notes.txt", "has no place in a bundle"),
        ("../x", "has no place in a bundle"),
    ],
)
def test_files_that_do_not_belong_are_refused(world: World, parts: BundleParts, path: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_files(changed(parts, files={**parts.files, path: b"x"}), world.signer)


def test_a_decision_about_something_else_is_refused(world: World, parts: BundleParts) -> None:
    for change in ({"digest": "sha256:" + "0" * 64}, {"lock": "0" * 64}, {"profile": "cu130"}):
        with pytest.raises(InputError, match="another image"):
            make_files(changed(parts, decision=msgspec.structs.replace(parts.decision, **change)), world.signer)


def test_a_proof_that_is_not_given_is_missed(world: World, parts: BundleParts) -> None:
    files = {path: data for path, data in parts.files.items() if path != "evidence/smoke-h100.intoto.json"}
    with pytest.raises(InputError, match="target h100"):
        make_files(changed(parts, files=files), world.signer)


def test_what_could_not_be_read_again_is_not_written(
    world: World, parts: BundleParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "MAX_FILE_BYTES", 100_000)
    with pytest.raises(InputError, match=r"uv\.lock is too large"):
        make_files(parts, world.signer)


# --- faults -----------------------------------------------------------------------------------------------------------


class Faults:
    """Lets one of the calls that need room fail, and all after it; counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail: Callable[[], None]) -> None:
        self.calls = 0
        self.at = -1
        self._fail = fail
        for name in ("fsync", "mkdir", "rename", "write"):
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **rest: object) -> object:
            self.calls += 1
            if 0 <= self.at < self.calls:
                self._fail()
            return real(*args, **rest)

        return call


def disk_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_any_moment_leaves_nothing(
    world: World, parts: BundleParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch, disk_full)
    write_bundle(tmp_path / "whole", parts, world.signer)
    total = faults.calls
    assert total > 40
    # the last one syncs the folder above, when the bundle has its name already
    for at in sorted({*range(0, total - 1, 4), *range(total - 9, total - 1)}):
        faults.calls, faults.at = 0, at
        with pytest.raises(OSError, match="No space left") as caught:
            write_bundle(tmp_path / "b", parts, world.signer)
        assert from_os_error(caught.value, "writing").code is ExitCode.REFUSED
        faults.at = -1
        assert os.listdir(tmp_path) == ["whole"], at


def test_a_kill_at_any_moment_leaves_nothing_that_looks_like_a_bundle(
    world: World, parts: BundleParts, tmp_path: Path
) -> None:
    """SIGKILL at every sync, in a process of its own; the next run cleans up and is not disturbed."""
    place = tmp_path / "b"
    killed = 0
    for at in range(0, 200, 5):
        child = os.fork()
        if child == 0:
            faults = Faults(pytest.MonkeyPatch(), lambda: os.kill(os.getpid(), signal.SIGKILL))
            faults.at = at
            write_bundle(place, parts, world.signer)
            os._exit(0)
        _pid, status = os.waitpid(child, 0)
        if status == 0:
            break
        killed += 1
        assert os.WTERMSIG(status) == signal.SIGKILL
        for left in tmp_path.iterdir():
            assert left.name.startswith(".b."), left
            assert left.name.endswith(".partial")
    assert killed >= 8
    assert world.verify(place).verdict is Verdict.VERIFIED
    assert os.listdir(tmp_path) == ["b"]


def test_of_two_writers_one_wins_and_nothing_is_mixed(world: World, parts: BundleParts, tmp_path: Path) -> None:
    place = tmp_path / "b"
    outcomes: list[Bundle | RefusedError] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        try:
            outcomes.append(write_bundle(place, parts, world.signer))
        except RefusedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(outcome, RefusedError) for outcome in outcomes) == [False, True, True, True]
    assert world.verify(place).verdict is Verdict.VERIFIED
    assert os.listdir(tmp_path) == ["b"]


def test_an_interrupt_leaves_nothing(
    world: World, parts: BundleParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    faults = Faults(monkeypatch, interrupt)
    faults.at = 30
    with pytest.raises(KeyboardInterrupt):
        write_bundle(tmp_path / "b", parts, world.signer)
    assert os.listdir(tmp_path) == []


def test_leftovers_of_others_stay(world: World, parts: BundleParts, tmp_path: Path) -> None:
    running, dead = tmp_path / f".b.{os.getppid()}.1.partial", tmp_path / ".b.999999999.1.partial"
    stranger = tmp_path / ".c.999999999.1.partial"
    for place in (running, dead, stranger):
        place.mkdir()
    write_bundle(tmp_path / "b", parts, world.signer)
    assert sorted(os.listdir(tmp_path)) == sorted([running.name, stranger.name, "b"])
