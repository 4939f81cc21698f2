"""orbit.kernels.prebuilt.obtain: the lock's wheel or none; where it may lie; nothing is compiled when it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import CheckFailed, ExitCode, InputError, MissingError
from orbit.kernels.prebuilt.obtain import check_hash, locked_wheel, obtain_wheel
from orbit.kernels.sources import archives
from tests.kernels.prebuilt.made import lock_of, published


@pytest.mark.parametrize(("sdist", "has"), [(True, "an sdist only"), (False, "no wheel for this platform")])
def test_a_lock_without_a_wheel_ends_with_exit_3(sdist: bool, has: str) -> None:
    with pytest.raises(MissingError, match=has) as caught:
        locked_wheel("thing", lock_of(None, sdist=sdist))
    assert caught.value.code is ExitCode.MISSING
    assert "compiles nothing instead" in caught.value.what


def test_a_wheel_of_the_sources_folder_is_taken_once(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = published(tmp_path / "sources")
    monkeypatch.setenv("ORBIT_SOURCES", f"{tmp_path}:{wheel.parent}")
    source = locked_wheel("thing", lock_of(wheel))
    first = obtain_wheel(source, store, Silent())
    assert first.read_bytes() == wheel.read_bytes()
    wheel.write_bytes(b"changed later")
    assert obtain_wheel(source, store, Silent()).stat().st_size == first.stat().st_size


def test_another_file_of_that_name_is_refused(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = published(tmp_path)
    monkeypatch.setenv("ORBIT_SOURCES", str(tmp_path))
    source = locked_wheel("thing", lock_of(wheel, sha256="f" * 64))
    with pytest.raises(InputError, match=f"the lock says {'f' * 64}"):
        obtain_wheel(source, store, Silent())
    with pytest.raises(CheckFailed):
        check_hash(wheel, source)


def test_an_index_out_of_reach_says_what_to_fetch_and_where_to_put_it(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_args: object) -> Path:
        raise MissingError("thing: cannot be fetched", fix="check the network")

    monkeypatch.delenv("ORBIT_SOURCES", raising=False)
    monkeypatch.setattr(archives, "fetch", unreachable)
    source = locked_wheel("thing", lock_of(published(tmp_path)))
    with pytest.raises(MissingError) as caught:
        obtain_wheel(source, store, Silent())
    assert caught.value.code is ExitCode.MISSING
    assert "nothing is compiled in its place" in caught.value.what
    for part in (source.file, source.sha256, "ORBIT_SOURCES"):
        assert part in caught.value.fix


def test_a_wheel_that_went_missing_in_the_store_is_fetched_again(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = published(tmp_path)
    monkeypatch.setenv("ORBIT_SOURCES", str(tmp_path))
    source = locked_wheel("thing", lock_of(wheel))
    path = obtain_wheel(source, store, Silent())
    path.unlink()
    assert obtain_wheel(source, store, Silent()).read_bytes() == wheel.read_bytes()
