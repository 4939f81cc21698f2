"""Hashing in worker processes gives what hashlib gives, for every kind of file."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

from orbit.audit.installed.dists import installed_dists
from orbit.audit.installed.hash_worker import BUFFER_BYTES
from orbit.audit.installed.hashing import Hashing
from orbit.audit.installed.tree import find_layout
from tests.writers.environment import EnvironmentWriter, record_digest


def hash_all(env: EnvironmentWriter, workers: int) -> dict[str, str]:
    layout = find_layout(env.prefix, "3.12")
    found = Hashing(layout.prefix, installed_dists(layout), workers=workers).result()
    return {path.removeprefix(f"{layout.site}/"): digest for path, digest in found.items()}


def test_every_size_and_any_number_of_workers(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    sizes = (0, 1, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 3 * BUFFER_BYTES)
    files = {f"pkg/{size}": os.urandom(size) for size in sizes}
    env.add("d", files)
    expected = {path: record_digest(data) for path, data in files.items()}
    for workers in (1, 2, 5):
        found = hash_all(env, workers)
        assert {path: found[path] for path in files} == expected


def test_other_algorithms_links_and_wrong_sizes(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    digest = base64.urlsafe_b64encode(hashlib.sha512(b"data").digest()).rstrip(b"=").decode()
    rows = [f"link,sha512={digest},4", "other,sha256=x,5", "gone,sha256=x,5", "folder,sha256=x,"]
    env.add("d", {"real": b"data"}, rows=rows)
    (env.site / "link").symlink_to("real")
    (env.site / "other").write_bytes(b"four")
    (env.site / "folder").mkdir()
    found = hash_all(env, 2)
    assert found["link"] == digest
    assert found["other"] == "!of another size"
    assert found["gone"] == "!No such file or directory"
    assert found["folder"] == "!not a regular file"


def test_environment_without_files(tmp_path: Path) -> None:
    assert hash_all(EnvironmentWriter(tmp_path / "e"), 2) == {}
