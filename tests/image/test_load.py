"""Loading into the engine at hand: which one, what it is asked, real ones, and a daemon that is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, CommandFailed, InputError, MissingError
from orbit.image import load
from orbit.image.damage import DamagedImage
from orbit.image.load import choose_engine, find_engine, full_name, load_into
from orbit.image.oci import read_layout
from tests.image.test_foreign import need
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, write_image

START_S = 40


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return write_image(tmp_path / "layout", [[file("a", b"a" * 50_000)], [file("b", b"b")]])


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    tool = tmp_path / "bin" / name
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\n{script}\n')
    tool.chmod(0o755)
    monkeypatch.delenv("ORBIT_DOCKER", raising=False)
    monkeypatch.setenv("PATH", f"{tool.parent}:/nonexistent")


BROKEN = "echo 'cannot start' >&2; exit 125"


def test_the_first_engine_that_answers_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "docker", BROKEN)
    stand_in(tmp_path, monkeypatch, "ctr", "echo 'Client:\n  Version: 1\nServer:\n  Version:  1.7.2\n'")
    assert choose_engine("auto") == "containerd"
    found = find_engine("containerd")
    assert not isinstance(found, str)
    assert found[1] == "1.7.2"
    stand_in(tmp_path, monkeypatch, "podman", "echo 5.0.1")
    assert choose_engine("auto") == "podman"
    assert find_engine("podman") == ([str(tmp_path / "bin" / "podman")], "5.0.1")
    stand_in(tmp_path, monkeypatch, "docker", "echo '25.0 /var/lib/docker'")
    assert choose_engine("auto") == "docker"
    assert choose_engine("podman") == "podman"


def test_a_named_docker_client_means_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "podman", "echo 5.0.1")
    monkeypatch.setenv("ORBIT_DOCKER", "/nonexistent/docker")
    assert choose_engine("auto") == "docker"


def test_without_any_engine_every_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "podman", BROKEN)
    with pytest.raises(MissingError) as caught:
        choose_engine("auto")
    assert caught.value.what == (
        "no docker client is installed; podman does not answer: cannot start; containerd: its client is not installed"
    )


@pytest.mark.parametrize("tag", ["", "Orbit:1", "a b", "a:b:c d", "-x"])
def test_a_name_no_engine_takes_is_bad_input(layout: Path, tag: str) -> None:
    with pytest.raises(InputError, match="not NAME:TAG"):
        load_into("podman", layout, tag=tag, progress=Silent())


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("orbit/x:1", "docker.io/orbit/x:1"),
        ("orbit", "docker.io/library/orbit:latest"),
        ("host.org/a", "host.org/a:latest"),
        ("host:5000/a:b", "host:5000/a:b"),
        ("localhost/a:b", "localhost/a:b"),
    ],
)
def test_names_are_spelled_out_for_containerd(tag: str, name: str) -> None:
    assert full_name(tag) == name


def test_an_engine_that_holds_something_else_is_not_believed(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = read_layout(layout).manifest.config.hex
    stand_in(tmp_path, monkeypatch, "podman", 'case "$1" in info) echo 5;; image) exit 1;; pull) echo 0123;; esac')
    with pytest.raises(CheckFailed, match="podman holds 0123, not"):
        load_into("podman", layout, tag="x:1", progress=Silent())
    script = f'case "$1" in info) echo 5;; image) echo \'["sha256:0"]\';; pull) echo {image};; esac'
    stand_in(tmp_path, monkeypatch, "podman", script)
    with pytest.raises(CheckFailed, match="with other layers"):
        load_into("podman", layout, tag="x:1", progress=Silent())
    script = """for word; do case $word in version) echo "Server:
  Version: 1";; list) echo REF TYPE DIGEST; echo docker.io/library/x:1 t sha256:0;;
import) /bin/cat > /dev/null;; esac; done"""
    stand_in(tmp_path, monkeypatch, "ctr", script)
    with pytest.raises(CheckFailed, match="containerd holds sha256:0"):
        load_into("containerd", layout, tag="x:1", progress=Silent())


def test_when_podman_refuses_a_damaged_layer_it_is_named(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(
        tmp_path,
        monkeypatch,
        "podman",
        'case "$1" in info) echo 5;; *) echo "Error: trying to reuse" >&2; exit 125;; esac',
    )
    with pytest.raises(CommandFailed, match="trying to reuse"):
        load_into("podman", layout, tag="x:1", progress=Silent())
    image = read_layout(layout)
    damage(image.blob(image.layers[1]))
    with pytest.raises(DamagedImage, match=rf"^{layout}: layer 1 \({image.layers[1].digest}\) is damaged: its content"):
        load_into("podman", layout, tag="x:1", progress=Silent())


def test_an_engine_that_goes_away_is_told(layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    script = (
        f"""case "$1" in info) [ -e {gone} ] && exit 125; echo 5;; image) exit 1;; pull) : > {gone}; exit 125;; esac"""
    )
    stand_in(tmp_path, monkeypatch, "podman", script)
    with pytest.raises(MissingError, match="podman went away while"):
        load_into("podman", layout, tag="x:1", progress=Silent())
    assert " tag " not in (tmp_path / "log").read_text()


def test_podman_is_told_a_plain_name_whatever_the_folder_is_called(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """podman makes a name of the path, and a run's folder has capitals in it."""
    layout = layout.rename(tmp_path / "Run 2026T:Z")
    image = read_layout(layout)
    layers = " ".join(f'"{one}"' for one in image.config.rootfs.diff_ids).replace(" ", ",")
    script = rf"""case "$1" in
        info) echo 5;;
        pull) case "${{3#oci:}}" in *[A-Z:/\ ]*) echo "invalid reference format" >&2; exit 125;; esac
            [ -f "${{3#oci:}}/oci-layout" ] && : > {tmp_path}/pulled && echo {image.manifest.config.hex};;
        image) [ -e {tmp_path}/pulled ] && echo '[{layers}]';;
        esac"""
    stand_in(tmp_path, monkeypatch, "podman", script)
    loaded = load_into("podman", layout, tag="x:1", progress=Silent())
    assert (loaded.id, loaded.reused) == (image.manifest.config.digest, False)


# --- real engines


@pytest.mark.integration
def test_podman_takes_the_layout(layout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    podman = need("podman")
    layout = layout.rename(tmp_path / "Run 2026T:Z")
    with tempfile.TemporaryDirectory(prefix="orbit-") as folder:  # podman takes no longer path than 50 characters
        own = f'exec {podman} --root {folder}/a --runroot {folder}/b --storage-driver vfs "$@"'
        stand_in(tmp_path, monkeypatch, "podman", own)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.defpath}:/usr/sbin:/sbin")
        if isinstance(found := find_engine("podman"), str):
            pytest.skip(found)
        try:
            one = load_into("podman", layout, tag="orbit-test/load:1", progress=Silent())
        except CommandFailed as error:
            pytest.skip(f"podman does not work here: {error.tail[-300:]}")
        two = load_into("podman", layout, tag="orbit-test/load:2", progress=Silent())
        image = read_layout(layout)
        assert (one.id, one.reused, two.reused) == (image.manifest.config.digest, False, True)
        assert one.diff_ids == image.config.rootfs.diff_ids
        damage(image.blob(image.layers[0]))
        subprocess.run([*found[0], "rmi", "-af"], check=True, capture_output=True)
        with pytest.raises(DamagedImage, match="layer 0 "):
            load_into("podman", layout, tag="orbit-test/load:3", progress=Silent())


class Daemon:
    """A daemon of this test's own, which can be killed and started again."""

    def __init__(self, argv: list[str], log: Path, answers: list[str]) -> None:
        self.argv, self.log, self.answers = argv, log, answers
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_S
        while subprocess.run(self.answers, capture_output=True, check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                pytest.skip(f"{self.argv[0]} does not start here: {self.log.read_text()[-300:]}")
            time.sleep(0.2)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
            self.process.wait(30)


def root_and(program: str) -> str:
    if os.geteuid() != 0:
        pytest.skip(f"only root can start {program}")
    return need(program)


@pytest.fixture
def containerd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """containerd with its own sockets and folders."""
    program, client = root_and("containerd"), need("ctr")
    folder = Path(tempfile.mkdtemp(prefix="orbit-"))
    config = folder / "config.toml"
    config.write_text(
        f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f'[grpc]\naddress = "{folder}/c.sock"\n[ttrpc]\naddress = "{folder}/t.sock"\n'
    )
    monkeypatch.setenv("CONTAINERD_ADDRESS", f"{folder}/c.sock")
    daemon = Daemon([program, "--config", str(config)], folder / "log", [client, "-a", f"{folder}/c.sock", "version"])
    yield daemon
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.integration
def test_containerd_takes_the_stream(layout: Path, containerd: Daemon) -> None:
    one = load_into("containerd", layout, tag="orbit-test/load:1", progress=Silent())
    two = load_into("containerd", layout, tag="orbit-test/load:1", progress=Silent())
    assert (one.tag, one.reused, two.reused) == ("docker.io/orbit-test/load:1", False, True)
    words = [str(shutil.which("ctr")), "-a", os.environ["CONTAINERD_ADDRESS"], "images", "check"]
    said = subprocess.run(words, capture_output=True, check=True).stdout.decode()
    assert read_layout(layout).digest in said
    assert "complete (3/3)" in said


@pytest.mark.integration
def test_containerd_that_is_down_and_comes_back(layout: Path, containerd: Daemon) -> None:
    containerd.stop(signal.SIGKILL)
    with pytest.raises(MissingError, match="containerd does not answer"):
        load_into("containerd", layout, tag="orbit-test/load:1", progress=Silent())
    containerd.start()
    assert not load_into("containerd", layout, tag="orbit-test/load:1", progress=Silent()).reused


@pytest.fixture
def dockerd(containerd: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """dockerd with its own sockets and folders; its containerd is another daemon, as where systemd starts both."""
    program, client = root_and("dockerd"), need("docker")
    folder = Path(tempfile.mkdtemp(prefix="orbit-"))
    host = f"unix://{folder}/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.delenv("ORBIT_DOCKER", raising=False)
    argv = [program, "--host", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
            "--pidfile", f"{folder}/pid", "--containerd", os.environ["CONTAINERD_ADDRESS"],
            "--bridge", "none", "--iptables=false"]  # fmt: skip
    daemon = Daemon(argv, folder / "log", [client, "-H", host, "info"])
    yield daemon
    daemon.stop()
    # one that was killed leaves its folder mounted on itself
    subprocess.run(["umount", "--recursive", folder / "data"], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.integration
@pytest.mark.docker
def test_a_docker_daemon_killed_in_the_middle_of_a_load(
    tmp_path: Path, dockerd: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = [[file(f"f{number}", os.urandom(4_000_000))] for number in range(3)]
    layout = write_image(tmp_path / "layout", layers)
    real = load.docker.archive

    def killing(*args: object, **more: object) -> Iterator[bytes]:
        for count, piece in enumerate(real(*args, **more)):  # type: ignore[arg-type]
            if count == 6:
                dockerd.stop(signal.SIGKILL)
            yield piece

    monkeypatch.setattr(load.docker, "archive", killing)
    with pytest.raises(MissingError, match="went away while"):
        load_into("docker", layout, tag="orbit-test/load:1", progress=Silent())
    monkeypatch.setattr(load.docker, "archive", real)
    (Path(os.environ["DOCKER_HOST"].removeprefix("unix://")).parent / "pid").unlink(missing_ok=True)
    dockerd.start()
    listed = [str(load.docker.find_client()), "image", "ls", "-q"]
    assert subprocess.run(listed, capture_output=True, check=True).stdout == b""
    loaded = load_into("docker", layout, tag="orbit-test/load:1", progress=Silent())
    assert loaded.diff_ids == read_layout(layout).config.rootfs.diff_ids
