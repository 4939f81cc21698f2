"""orbit.env.installed: RECORD tells the truth about what is on disk."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from orbit.env.bytecode import compiled_path
from orbit.env.installed import (
    Installed,
    as_contested,
    contested_paths,
    digest_of,
    drop_host_notes,
    read_installed,
    rewrite,
    stated,
)
from orbit.errors import InputError

from .wheels import install_by_hand


def records(site: Path, name: str) -> dict[str, tuple[str, str]]:
    with open(next(site.glob(f"{name}-*.dist-info")) / "RECORD", encoding="utf-8") as file:
        return {row[0]: (row[1], row[2]) for row in csv.reader(file)}


def tidy(site: Path, *, changed: set[str] | None = None, lost: dict[str, set[str]] | None = None) -> None:
    dists = read_installed(site)
    drop_host_notes(dists)
    rewrite(site, dists, changed=changed or set(), lost=lost or {})


def test_names_are_normalised_and_sorted(tmp_path: Path) -> None:
    install_by_hand(tmp_path, "Zed", "1", {"zed.py": b""})
    install_by_hand(tmp_path, "a.b_c", "1", {"abc.py": b""})
    assert [dist.name for dist in read_installed(tmp_path)] == ["a-b-c", "zed"]


def test_a_distribution_without_record_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken-1.dist-info").mkdir()
    with pytest.raises(InputError, match=r"broken-1\.dist-info: no RECORD"):
        read_installed(tmp_path)


def test_host_notes_go_and_record_no_longer_lists_them(tmp_path: Path) -> None:
    notes = {f"one-1.dist-info/{name}": b"/host/path" for name in ("direct_url.json", "uv_cache.json", "INSTALLER")}
    install_by_hand(tmp_path, "one", "1", {"one.py": b"x = 1\n", **notes})
    tidy(tmp_path)
    lines = records(tmp_path, "one")
    assert not (tmp_path / "one-1.dist-info/direct_url.json").exists()
    assert not {"one-1.dist-info/direct_url.json", "one-1.dist-info/uv_cache.json"} & lines.keys()
    assert lines["one-1.dist-info/INSTALLER"] == digest_of(tmp_path / "one-1.dist-info/INSTALLER")


def test_changed_files_get_their_new_hash_and_others_keep_theirs(tmp_path: Path) -> None:
    install_by_hand(tmp_path, "one", "1", {"run": b"old", "kept": b"as it was"})
    before = records(tmp_path, "one")
    (tmp_path / "run").write_bytes(b"new content")
    tidy(tmp_path, changed={"run"})
    after = records(tmp_path, "one")
    assert after["run"] == digest_of(tmp_path / "run") != before["run"]
    assert after["kept"] == before["kept"]


def test_compiled_files_are_listed_without_hash_as_pip_does(tmp_path: Path) -> None:
    install_by_hand(tmp_path, "one", "1", {"pkg/a.py": b"", "pkg/not_compiled.py": b""})
    pyc = tmp_path / compiled_path("pkg/a.py")
    pyc.parent.mkdir()
    pyc.write_bytes(b"")
    tidy(tmp_path)
    lines = records(tmp_path, "one")
    assert lines["pkg/__pycache__/a.cpython-312.pyc"] == ("", "")
    assert "pkg/__pycache__/not_compiled.cpython-312.pyc" not in lines


def test_record_is_sorted_and_a_second_rewrite_changes_nothing(tmp_path: Path) -> None:
    install_by_hand(tmp_path, "one", "1", {"z.py": b"", "a,comma.py": b"", "m.py": b""})
    tidy(tmp_path)
    text = (tmp_path / "one-1.dist-info/RECORD").read_bytes()
    tidy(tmp_path)
    assert (tmp_path / "one-1.dist-info/RECORD").read_bytes() == text
    assert list(records(tmp_path, "one")) == sorted(records(tmp_path, "one"))


def test_a_contested_file_ends_with_one_owner(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.12/site-packages"
    install_by_hand(site, "alpha", "1", {"shared.py": b"alpha's", "same.py": b"equal"})
    install_by_hand(site, "beta", "1", {"shared.py": b"beta's", "same.py": b"equal"})
    dists = read_installed(site)
    contested = contested_paths(dists)
    assert contested == {"shared.py": ("alpha", "beta")}
    beta: Installed = dists[1]
    assert stated(beta, "shared.py") == digest_of(site / "shared.py")[0]
    assert stated(beta, "nothing.py") == ""
    tidy(site, lost={"alpha": {"shared.py"}})
    assert "shared.py" not in records(site, "alpha")
    assert "shared.py" in records(site, "beta")
    (one,) = as_contested(site, tmp_path, contested)
    assert (one.path, one.kept, one.dropped) == ("lib/python3.12/site-packages/shared.py", "beta", ("alpha",))
