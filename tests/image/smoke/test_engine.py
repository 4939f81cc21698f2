"""What really holds inside, for each engine that needs no daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import MissingError
from orbit.image.oci import RunConfig, read_layout
from orbit.image.rootfs import RootTree, unpack_image
from orbit.image.runtime import SYSTEM_PATH
from orbit.image.smoke.devices import Devices
from orbit.image.smoke.engine import Choice, container_env, find_bubblewrap, home_of, open_engine, setpriv_argv
from orbit.smoke.model import Conditions
from tests.image.tiny import PASSWD, inside, tiny, working


@pytest.fixture(params=["bubblewrap", "unshare"])
def choice(request: pytest.FixtureRequest) -> Choice:
    return working(request.param)


def test_an_image_without_setpriv_cannot_be_another_user(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="has no /usr/bin/setpriv"):
        setpriv_argv(tmp_path, 65534)


def test_home(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert home_of(tmp_path, 0) == "/"
    (tmp_path / "etc/passwd").write_bytes(PASSWD)
    assert home_of(tmp_path, 65534) == "/nonexistent"
    assert home_of(tmp_path, 1000) == "/"


def test_the_environment_is_the_images_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    run = RunConfig(env=("A=b=c", "HOME=/h"))
    assert container_env(run, "/nowhere") == {"A": "b=c", "HOME": "/h", "PATH": SYSTEM_PATH}


@pytest.mark.integration
@pytest.mark.parametrize("uid", [0, 65534])
def test_conditions_inside(choice: Choice, tmp_path: Path, store: Store, uid: int) -> None:
    image = read_layout(tiny(tmp_path))
    engine = open_engine(choice, image, unpack_image(image, store, progress=Silent()))
    done = inside(engine, uid, "cat; echo; id -u; id -g; env; ls -A /proc/sys/net/ipv4/conf; pwd")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["given", str(uid), str(uid)]
    assert {"OWN=image", "SEEN_ENTRYPOINT=yes", f"HOME={'/root' if uid == 0 else '/nonexistent'}"} <= set(lines)
    assert "leaked" not in done.stdout
    assert lines[-1] == "/opt"
    assert not {"eth0", "docker0"} & set(lines)
    done = inside(
        engine, uid, "touch /tmp/a /dev/shm/b && for f in /x /etc/x /opt/orbit/x; do touch $f && echo wrote; done"
    )
    assert "wrote" not in done.stdout
    assert done.stderr.count("Read-only file system") == 3, done.stderr


@pytest.mark.integration
def test_sizes_and_variables_are_those_asked_for(choice: Choice, tmp_path: Path, store: Store) -> None:
    image = read_layout(tiny(tmp_path))
    engine = open_engine(choice, image, unpack_image(image, store, progress=Silent()))
    conditions = Conditions(tmp_mb=32, shm_mb=64, variables={"HOME": "", "OWN": "caller"})
    script = 'env; while read -r line; do echo "$line"; done < /proc/mounts'
    done = inside(engine, 65534, script, conditions)
    assert {"HOME=", "OWN=caller"} <= set(done.stdout.splitlines()), done.stderr
    sizes = {line.split()[1]: line for line in done.stdout.splitlines() if "tmpfs" in line}
    assert "size=32768k" in sizes["/tmp"]
    assert "size=65536k" in sizes["/dev/shm"]
    done = inside(engine, 65534, "touch /tmp/x", Conditions(tmp_mb=0))
    assert "Read-only file system" in done.stderr


@pytest.mark.integration
@pytest.mark.skipif(os.geteuid() != 0, reason="real user ids need root")
def test_permissions_bind_for_another_user(choice: Choice, tmp_path: Path, store: Store) -> None:
    image = read_layout(tiny(tmp_path))
    engine = open_engine(choice, image, unpack_image(image, store, progress=Silent()))
    assert engine.real_ids
    assert engine.closed == ("etc/root-only",)
    assert inside(engine, 0, "cat /etc/root-only").stdout == "secret"
    done = inside(engine, 65534, "cat /etc/root-only")
    assert done.returncode != 0
    assert "Permission denied" in done.stderr
    status = inside(engine, 65534, "cat /proc/self/status").stdout
    masks = {line.split()[0]: line.split()[1] for line in status.splitlines() if line.startswith(("Cap", "NoNew"))}
    assert masks == dict.fromkeys(("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"), "0" * 16) | {
        "NoNewPrivs:": "1"
    }


@pytest.mark.integration
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_started_by_another_user_ids_are_mapped(tmp_path: Path, store: Store) -> None:
    """What bubblewrap does for a caller that is not root, seen by becoming one."""
    found = find_bubblewrap()
    if isinstance(found, str):
        pytest.skip(found)
    image = read_layout(tiny(tmp_path, secret_mode=0o644))
    place = Path(tempfile.mkdtemp(prefix="orbit-rootless-"))
    try:
        shutil.copytree(unpack_image(image, store, progress=Silent()).path, place / "root", symlinks=True)
        place.chmod(0o755)
        tree = RootTree(path=place / "root", closed=(), real_owners=False)
        engine = open_engine(replace(found, real_ids=False), image, tree)
        caller = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"]
        for uid in (0, 65534):
            argv = [*caller, *engine.argv(uid, ["/bin/sh", "-c", "id -u; cat /proc/self/uid_map"], Devices())]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, cwd="/")
            if "uid map" in done.stderr or "user namespace" in done.stderr:
                pytest.skip(f"no user namespaces for other users here: {done.stderr.strip()}")
            seen, first, _outside, count = done.stdout.split()
            assert (seen, first, count) == (str(uid), str(uid), "1"), done.stderr
    finally:
        shutil.rmtree(place)
