"""The layout of a bundle: which path is what, and what has no place."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.release.bundle.model import (
    MADE_LAST,
    MAX_PATH,
    PAGE,
    REQUIRED,
    SCHEMA,
    Index,
    Role,
    indexed,
    parse_index,
    role_of,
    summed,
    sums,
)
from tests.release.bundle.world import World


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("uv.lock", Role.LOCK),
        ("profile.toml", Role.PROFILE),
        ("image/manifest.json", Role.IMAGE),
        ("run/evidence.json", Role.SEAL),
        ("run/audit.json", Role.AUDIT),
        ("run/sbom.spdx.json", Role.SBOM),
        ("run/03-environment.json", Role.RECORD),
        ("run/image/index.json", Role.RECORD),
        ("provenance.intoto.json", Role.PROVENANCE),
        ("evidence/h200.intoto.json", Role.EVIDENCE),
        ("definition/smoke/gpu.toml", Role.DEFINITION),
        ("qualification/h200.json", Role.QUALIFICATION),
        ("keys/lab.pub", Role.KEY),
        ("RELEASE.md", Role.PAGE),
    ],
)
def test_a_path_says_what_a_file_is(path: str, role: Role) -> None:
    assert role_of(path) is role


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../uv.lock", "run/../uv.lock", "run//audit.json", "./uv.lock", "keys/lab.key", "uv.lock ",
        "uv.lock/x", "evidence/x.json", "run/.hidden", "install.sh", "run/a/b", "image/layer.tar", "u\u0301v.lock",
        "definition/other/x.toml", "keys/lab.pem", "run/" + "x" * MAX_PATH, "run/a\nb", "run/a\\b",
    ],
)  # fmt: skip
def test_what_has_no_place_has_no_role(path: str) -> None:
    assert role_of(path) is None


def test_every_required_file_has_a_role() -> None:
    assert [path for path in REQUIRED if role_of(path) is None] == []


def test_the_lists_leave_out_what_cannot_list_itself() -> None:
    names = frozenset({"uv.lock", *MADE_LAST})
    assert names - summed(names) == {"SHA256SUMS", "release.intoto.json"}
    assert indexed(names) == {"uv.lock", PAGE}


def test_sums_are_those_of_coreutils(tmp_path: Path) -> None:
    files = {"b": b"2", "a/c": b"1"}
    text = sums(files).decode()
    assert text.splitlines()[0] == f"{hashlib.sha256(b'1').hexdigest()}  a/c"
    program = shutil.which("sha256sum")
    if program is None:
        pytest.skip("no sha256sum on this machine")
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    (tmp_path / "SHA256SUMS").write_text(text)
    done = subprocess.run([program, "-c", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_index_is_read_as_it_is_written(world: World) -> None:
    data = (world.place / "bundle" / "bundle.json").read_bytes()
    index = parse_index(data, "bundle.json")
    assert isinstance(index, Index)
    assert index.image.reference == f"orbit/probe@{world.digest}"
    assert [(target.name, target.state) for target in index.targets] == [("h100", "proven"), ("b200", "unproven")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SCHEMA, "orbit.release/99", "schema 'orbit.release/99' is not known"),
        ('"profile":', '"profil":', "profil"),
        ("{", "[", "bundle.json"),
    ],
)
def test_other_indexes_are_refused(world: World, old: str, new: str, said: str) -> None:
    text = (world.place / "bundle" / "bundle.json").read_text().replace(old, new, 1)
    with pytest.raises(InputError, match=said):
        parse_index(text.encode(), "bundle.json")
