"""A real registry (docker's, as Debian packages it) and other people's clients: skopeo, podman, docker."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, RefusedError
from orbit.image.oci import read_layout
from orbit.image.registry.pull import pull
from orbit.image.registry.push import PushResult, push
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.session import Patience
from tests.image.registry.fake import PASSWORD, USER
from tests.image.registry.test_auth import log_in
from tests.image.registry.test_pull import check_equal
from tests.image.test_foreign import need
from tests.image.test_oci import damage

pytestmark = pytest.mark.integration

PATIENCE = Patience(tries=8, first_s=0.1, longest_s=2.0)
CHUNK = 100_000
START_S = 30
HASH = "$2b$05$GTtyEY.RIl/ZQ9TmByS5qe0N8qP6BqChXo1z1RHtDA5c3H49qNmom"
"""bcrypt of PASSWORD."""


class Real:
    """The registry's process, which can be stopped and started again on the same port and storage."""

    def __init__(self, folder: Path, *, users: str = "") -> None:
        program = shutil.which("docker-registry") or shutil.which("registry")
        if program is None:
            pytest.skip("docker-registry is not installed")
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.data, self.config = folder / "data", folder / "config.yml"
        self.data.mkdir()
        self.config.write_text(
            f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {self.data}}}}}\n"
            f'http: {{addr: "127.0.0.1:{self.port}", secret: fixed}}\n'
        )
        if users:
            (folder / "users").write_text(users)
            with self.config.open("a") as file:
                file.write(f"auth: {{htpasswd: {{realm: test, path: {folder / 'users'}}}}}\n")
        self.log = (folder / "log").open("wb")
        self.argv = [program, "serve", str(self.config)]
        self.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = subprocess.Popen(self.argv, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert self.process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self.log.close()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    folder = tmp_path / "registry"
    folder.mkdir()
    server = Real(folder)
    yield server
    server.close()


def send(host: str, layout: Path, name: str = "team/a:1") -> PushResult:
    reference = parse_reference(f"{host}/{name}")
    return push(layout, reference, progress=Silent(), patience=PATIENCE, chunk_bytes=CHUNK)


def check_there(real: Real, layout: Path, tmp_path: Path, name: str = "team/a:1") -> None:
    pull(parse_reference(f"{real.host}/{name}"), tmp_path / "back", progress=Silent(), patience=PATIENCE)
    check_equal(layout, tmp_path / "back")


def test_what_was_pushed_comes_back_and_travels_once(real: Real, layout: Path, tmp_path: Path) -> None:
    assert {blob.state for blob in send(real.host, layout).blobs} == {"moved"}
    check_there(real, layout, tmp_path)
    assert {blob.state for blob in send(real.host, layout, "team/a:2").blobs} == {"there"}


def test_blobs_are_mounted_from_another_repository(real: Real, layout: Path, tmp_path: Path) -> None:
    send(real.host, layout)
    sources = {blob.digest: "team/a" for blob in send(real.host, layout).blobs}
    reference = parse_reference(f"{real.host}/other:1")
    result = push(layout, reference, progress=Silent(), patience=PATIENCE, sources=sources)
    assert ({blob.state for blob in result.blobs}, result.moved_bytes) == ({"mounted"}, 0)
    check_there(real, layout, tmp_path, "other:1")


def test_skopeo_sees_the_same_image(real: Real, layout: Path, tmp_path: Path) -> None:
    skopeo = need("skopeo")
    digest = send(real.host, layout).digest
    name = f"docker://{real.host}/team/a:1"
    done = subprocess.run([skopeo, "inspect", "--tls-verify=false", name], capture_output=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["Digest"] == digest
    assert facts["Layers"] == [layer.digest for layer in read_layout(layout).layers]
    subprocess.run(
        [skopeo, "--insecure-policy", "copy", "--quiet", "--src-tls-verify=false", name, f"oci:{tmp_path / 'copy'}"],
        check=True, capture_output=True,
    )  # fmt: skip
    check_equal(layout, tmp_path / "copy")


@pytest.mark.parametrize("form", ["oci", "v2s2"])
def test_what_skopeo_pushed_is_pulled(real: Real, layout: Path, tmp_path: Path, form: str) -> None:
    skopeo = need("skopeo")
    name = f"docker://{real.host}/team/a:1"
    subprocess.run(
        [skopeo, "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", "--format", form,
         f"oci:{layout}", name],
        check=True, capture_output=True,
    )  # fmt: skip
    raw = subprocess.run([skopeo, "inspect", "--tls-verify=false", "--raw", name], capture_output=True, check=True)
    result = pull(parse_reference(f"{real.host}/team/a:1"), tmp_path / "back", progress=Silent(), patience=PATIENCE)
    told = subprocess.run([skopeo, "manifest-digest", "/dev/stdin"], input=raw.stdout, capture_output=True, check=True)
    assert result.remote_digest == told.stdout.decode().strip()
    found, wanted = read_layout(tmp_path / "back"), read_layout(layout)
    assert [layer.diff_id for layer in found.layers] == [layer.diff_id for layer in wanted.layers]
    assert (result.digest == result.remote_digest) is (form == "oci")


def test_podman_pulls_it(real: Real, layout: Path) -> None:
    podman = need("podman")
    send(real.host, layout)
    with tempfile.TemporaryDirectory(prefix="orbit-") as folder:  # podman takes no longer path than 50 characters
        command = [podman, "--root", f"{folder}/a", "--runroot", f"{folder}/b", "--storage-driver", "vfs"]
        done = subprocess.run(
            [*command, "pull", "-q", "--tls-verify=false", f"{real.host}/team/a:1"], capture_output=True, check=False,
            env={name: value for name, value in os.environ.items() if name != "DOCKER_CONFIG"},
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"podman does not pull here: {done.stderr.decode()[-300:]}")
        assert f"sha256:{done.stdout.decode().strip()}" == read_layout(layout).manifest.config.digest


@pytest.mark.docker
def test_docker_pulls_it(real: Real, layout: Path, docker_engine: str) -> None:
    client = need("docker")
    send(real.host, layout)
    name = f"{real.host}/team/a:1"
    try:
        subprocess.run([client, "pull", "-q", name], capture_output=True, check=True)
        done = subprocess.run(
            [client, "image", "inspect", "--format", "{{.Id}} {{json .RootFS.Layers}}", name],
            capture_output=True, check=True,
        )  # fmt: skip
        found, _, layers = done.stdout.decode().partition(" ")
        image = read_layout(layout)
        assert found == image.manifest.config.digest
        assert json.loads(layers) == list(image.config.rootfs.diff_ids)
    finally:
        subprocess.run([client, "image", "rm", name], capture_output=True, check=False)


def test_a_login_is_needed_and_used(layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "registry"
    folder.mkdir()
    server = Real(folder, users=f"{USER}:{HASH}\n")
    try:
        with pytest.raises(RefusedError, match="nobody is logged in"):
            send(server.host, layout)
        log_in(monkeypatch, tmp_path, server.host, username=USER, password="wrong")
        with pytest.raises(RefusedError, match="with the credentials at hand"):
            send(server.host, layout)
        log_in(monkeypatch, tmp_path, server.host, username=USER, password=PASSWORD)
        send(server.host, layout)
        check_there(server, layout, tmp_path)
    finally:
        server.close()


def test_a_blob_damaged_in_the_registry_is_not_taken(real: Real, layout: Path, tmp_path: Path) -> None:
    send(real.host, layout)
    layer = read_layout(layout).layers[1]
    (data,) = real.data.glob(f"docker/registry/v2/blobs/sha256/*/{layer.digest[7:]}/data")
    damage(data)
    with pytest.raises(CheckFailed, match="is not that"):
        pull(parse_reference(f"{real.host}/team/a:1"), tmp_path / "back", progress=Silent(), patience=PATIENCE)
    assert not (tmp_path / "back").exists()


# --- faults between


class _Wire(threading.Thread):
    """Bytes to and from the registry; the connection that carries byte ``cut`` is cut there, once for each cut."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        super().__init__(daemon=True)
        self.port, self.cuts, self.done = port, cuts, 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.lock = threading.Lock()
        self.start()

    def run(self) -> None:
        while True:
            try:
                link, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        try:
            with link, socket.create_connection(("127.0.0.1", self.port)) as other:
                threading.Thread(target=self._back, args=(other, link), daemon=True).start()
                while data := link.recv(1 << 14):
                    with self.lock:
                        self.done += len(data)
                        cut = self.cuts and self.done >= self.cuts[0]
                        if cut:
                            self.cuts.pop(0)
                    if cut:
                        other.sendall(data[: len(data) // 2])
                        for side in (link, other):
                            side.shutdown(socket.SHUT_RDWR)
                        return
                    other.sendall(data)
        except OSError:
            pass

    @staticmethod
    def _back(other: socket.socket, link: socket.socket) -> None:
        try:
            while data := other.recv(1 << 14):
                link.sendall(data)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)


def test_a_connection_cut_in_the_middle_of_chunks_ends_well(real: Real, layout: Path, tmp_path: Path) -> None:
    wire = _Wire(real.port, [50_000, 260_000, 450_000])
    try:
        result = send(wire.host, layout)
    finally:
        wire.server.close()
    assert wire.cuts == []
    assert result.moved_bytes > sum(blob.size for blob in result.blobs)
    check_there(real, layout, tmp_path)


class _Buffering(BaseHTTPRequestHandler):
    """As nginx does: a request is read whole before the registry sees any of it. Every third chunk is dropped."""

    protocol_version = "HTTP/1.1"
    port = 0
    seen: list[str]

    def forward(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.command == "PATCH":
            self.seen.append(self.headers["Content-Range"])
            if len(self.seen) % 3 == 0:
                self.rfile.read(length // 2)
                self.close_connection = True
                return
        body = self.rfile.read(length)
        link = http.client.HTTPConnection("127.0.0.1", self.port)
        link.request(self.command, self.path, body, dict(self.headers.items()))
        answer = link.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        link.close()

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return self.forward
        raise AttributeError(name)

    def log_message(self, *_words: object) -> None:
        """Quiet."""


def test_a_chunk_lost_before_the_registry_saw_it_is_all_that_is_sent_again(
    real: Real, layout: Path, tmp_path: Path
) -> None:
    handler = type("Buffering", (_Buffering,), {"port": real.port, "seen": []})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    reference = parse_reference(f"127.0.0.1:{proxy.server_address[1]}/team/a:1")
    try:
        result = push(layout, reference, progress=Silent(), patience=PATIENCE, chunk_bytes=CHUNK, jobs=1)
    finally:
        proxy.shutdown()
        proxy.server_close()
    assert handler.seen[:4] == ["0-99999", "100000-199999", "200000-299999", "200000-299999"]
    assert sum(place.startswith("0-") for place in handler.seen) == 3 + 1  # one per blob, and the dropped config
    assert result.digest == read_layout(layout).digest
    check_there(real, layout, tmp_path)


def test_a_registry_that_is_killed_and_comes_back_gets_the_image(
    real: Real, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = _Wire(real.port, [150_000])
    killed = threading.Event()

    def restart() -> None:
        while wire.cuts:
            time.sleep(0.01)
        real.kill()
        killed.set()
        time.sleep(0.5)
        real.start()

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        send(wire.host, layout)
    finally:
        thread.join()
        wire.server.close()
    assert killed.is_set()
    check_there(real, layout, tmp_path)
