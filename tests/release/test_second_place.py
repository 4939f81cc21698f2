"""orbit.release.second_place: becoming another user, and the mount an environment is tried on."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from orbit.errors import ExitCode, InputError, OrbitError, RefusedError
from orbit.image.smoke.engine import Choice
from orbit.release.second_place import NOBODY, Place, as_user, choose_place, covered, make_parents, user
from orbit.smoke.model import Conditions
from orbit.smoke.report import IN_PLACE

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
CHOICE = Choice(name="bubblewrap", program=Path("/usr/bin/bwrap"), version="0", real_ids=True)


def test_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (user(None), user(7)) == (NOBODY, 7)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (user(None), user(1000)) == (1000, 1000)
    with pytest.raises(RefusedError, match="only root"):
        user(7)


def test_parents_that_are_made_belong_to_that_user(tmp_path: Path) -> None:
    who = NOBODY if os.geteuid() == 0 else os.geteuid()
    made = make_parents(tmp_path / "a" / "b" / "env", who)
    assert made == (tmp_path / "a" / "b", tmp_path / "a")
    assert {os.stat(path).st_uid for path in made} == {who}
    assert make_parents(tmp_path / "a" / "b" / "env", who) == ()


@root_only
def test_the_child_is_that_user_and_answers() -> None:
    assert as_user(NOBODY, lambda: f"{os.getuid()} {os.getgid()} {os.getgroups()}".encode()) == b"65534 65534 []"
    assert os.getuid() == 0


@root_only
def test_what_the_child_raises_is_raised_here() -> None:
    def refuse() -> bytes:
        raise InputError("no good", fix="do better")

    with pytest.raises(OrbitError, match="no good") as caught:
        as_user(NOBODY, refuse)
    assert (caught.value.fix, caught.value.code) == ("do better", ExitCode.USAGE)
    with pytest.raises(OrbitError, match="not allowed") as caught:
        as_user(NOBODY, lambda: Path("/etc/shadow").read_bytes())
    assert caught.value.code == ExitCode.REFUSED
    with pytest.raises(OrbitError, match="internal error: KeyError"):
        as_user(NOBODY, lambda: {}["x"])
    with pytest.raises(OrbitError, match="ended with status -9"):
        as_user(NOBODY, lambda: os.kill(os.getpid(), signal.SIGKILL) or b"")


def test_the_command_has_a_read_only_prefix_over_covered_folders(tmp_path: Path) -> None:
    place = Place(tmp_path / "env", os.geteuid(), CHOICE)
    words = " ".join(place.argv(["program"], Conditions(tmp_mb=1, shm_mb=0, variables={"A": "b"})))
    assert "--ro-bind / /" in words
    assert words.index("--tmpfs /tmp") < words.index(f"--ro-bind {tmp_path}/env {tmp_path}/env")
    assert "--tmpfs /dev/shm" not in words
    assert "--unshare-net" in words
    assert "--setenv A b" in words
    assert words.endswith(" program")
    assert place.lacks() == ()


def test_without_bubblewrap_it_is_tried_where_it_is_and_that_is_said(tmp_path: Path) -> None:
    place = Place(tmp_path, os.geteuid(), None, "not installed")
    assert place.argv(["program"], Conditions()) == ["program"]
    assert (place.engine, place.real_ids, place.version) == (IN_PLACE, True, "")
    assert [skip.reason for skip in place.lacks()] == ["not installed"]


def test_homes_and_the_store_are_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    found = covered({"HOME": str(tmp_path)}, Path("/x"))
    assert {str(tmp_path), str(tmp_path / "cache")} <= set(found)
    assert covered({"HOME": "/"}, Path("/x"))[0] != "/"
    assert str(tmp_path) not in covered({"HOME": str(tmp_path)}, tmp_path)


@pytest.mark.integration
def test_nothing_can_be_written_and_nothing_of_the_builder_is_seen(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name)
        prefix, home = folder / "env", folder / "home"
        for path in (prefix, home):
            path.mkdir(mode=0o777)
            path.chmod(0o777)
        (home / "secret").write_text("x")
        (prefix / "there").write_text("yes")
        monkeypatch.setenv("HOME", str(home))
        place = choose_place(prefix, NOBODY if os.geteuid() == 0 else os.geteuid())
        if place.choice is None:
            pytest.skip(place.reason)
        script = f"cat {prefix}/there; touch {prefix}/x 2>&1; ls {home}; id -u; cat /proc/net/route | wc -l"
        out = subprocess.run(
            place.argv(["/bin/sh", "-c", script], Conditions()), capture_output=True, text=True, check=True
        )
        assert out.stdout.startswith("yes")
        assert "Read-only file system" in out.stdout
        assert "secret" not in out.stdout
        assert str(place.uid) in out.stdout.split()
        assert not (prefix / "x").exists()
