"""orbit.kernels.buildenv: what a build environment's identity is made of, and that it refuses a full disk early."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.store import Store
from orbit.errors import CommandFailed, InputError, MissingError, RefusedError
from orbit.kernels import buildenv
from orbit.kernels.buildenv import build_environment, closure_hash, interpreter
from orbit.profile.lock import Lock, parse_lock, read_lock


@pytest.fixture(scope="module")
def lock() -> Lock:
    return read_lock(checkout_root() / "uv.lock")


def test_the_identity_is_the_group_s_closure(lock: Lock) -> None:
    assert closure_hash(lock, "cuda") == closure_hash(lock, "cuda")
    assert closure_hash(lock, "cuda") != closure_hash(lock, "torch-build")
    with pytest.raises(InputError, match="group"):
        closure_hash(lock, "conda")


def edited(lock: Lock, package: str) -> Lock:
    """The lock with another sha256 for every file of ``package``."""
    text = lock.path.read_text()
    block = re.search(rf'\[\[package\]\]\nname = "{package}"\n.*?(?=\[\[package\]\])', text, re.DOTALL)
    assert block is not None
    changed = re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, block[0])
    assert changed != block[0]
    return parse_lock(text.replace(block[0], changed).encode(), lock.path)


def test_another_compiler_is_another_environment_and_another_package_is_not(lock: Lock) -> None:
    before = closure_hash(lock, "cuda")
    assert closure_hash(edited(lock, "nvidia-cuda-nvcc"), "cuda") != before
    assert closure_hash(edited(lock, "transformers"), "cuda") == before
    # what Orbit itself needs changes no kernel
    assert closure_hash(edited(lock, "msgspec"), "cuda") == before
    assert closure_hash(edited(lock, "torch"), "torch-build") != closure_hash(lock, "torch-build")


def test_a_full_disk_is_refused_before_anything_is_fetched(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(buildenv.FREE_BYTES, "cuda", 10**18)
    with pytest.raises(RefusedError, match="build environment cuda"):
        build_environment("cuda", lock, Store(tmp_path), Silent())
    assert not list(tmp_path.glob("entries/*/*"))


def test_builds_run_on_a_real_interpreter_not_on_a_link() -> None:
    assert interpreter().is_file()
    assert not interpreter().is_symlink()


def test_no_network_is_said_as_such(lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is not there and a cache that is empty: uv fails, and the reason is the network."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(MissingError) as caught:
        build_environment("cuda", lock, Store(tmp_path / "store"), Silent())
    assert "network" in caught.value.fix
    assert not list(tmp_path.glob("store/entries/*/*"))
    assert not list(tmp_path.glob("store/tmp/*"))


SDIST_ONLY = """version = 1
revision = 3
requires-python = ">=3.12"

[[package]]
name = "orbit"
version = "0"
source = { editable = "." }

[package.dev-dependencies]
cuda = [{ name = "thing" }]

[package.metadata]

[package.metadata.requires-dev]
cuda = [{ name = "thing" }]

[[package]]
name = "thing"
version = "1.0"
source = { registry = "https://example.invalid/simple" }
sdist = { url = "https://example.invalid/thing-1.0.tar.gz", hash = "sha256:ZERO", size = 1 }
""".replace("ZERO", "0" * 64)


def test_a_package_without_a_wheel_is_never_compiled_in_passing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "orbit"\nversion = "0"\nrequires-python = ">=3.12"\n[dependency-groups]\ncuda = ["thing"]\n'
    )
    (tmp_path / "uv.lock").write_text(SDIST_ONLY)
    with pytest.raises(CommandFailed, match="no-build"):
        build_environment("cuda", read_lock(tmp_path / "uv.lock"), Store(tmp_path / "store"), Silent())
