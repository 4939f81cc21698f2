"""orbit.env.record: an environment's record is closed, and one of another version is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from orbit.core.records import dump_json
from orbit.env.record import RECORD_PATH, SCHEMA, Distribution, EnvironmentRecord, kernels_of, read_environment
from orbit.errors import InputError
from orbit.kernels.manifest import Binary, BuildManifest
from orbit.kernels.sources import Source

RECORD = EnvironmentRecord(
    schema=SCHEMA, identity="a", profile="p", lock="b", prefix="/opt/orbit", python="3.12.1", interpreter="c",
    system_libraries=("libc.so.6",),
    distributions=(Distribution(name="n", version="1", origin="index", wheel="n-1.whl", sha256="d"),),
    skipped=(), contested=(), uncompiled=(),
)  # fmt: skip


def test_round_trip(tmp_path: Path) -> None:
    dump_json(tmp_path / RECORD_PATH, RECORD)
    assert read_environment(tmp_path) == RECORD


@pytest.mark.parametrize(
    ("edit", "says"),
    [({"schema": 99}, "schema 99 is not known"), ({"more": 1}, "unknown field"), ({"lock": 1}, "Expected `str`")],
)
def test_other_shapes_are_refused(tmp_path: Path, edit: dict[str, object], says: str) -> None:
    dump_json(tmp_path / RECORD_PATH, RECORD)
    path = tmp_path / RECORD_PATH
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    with pytest.raises(InputError, match=says):
        read_environment(tmp_path)


def test_kernels_are_what_the_build_manifests_say() -> None:
    manifest = BuildManifest(
        recipe="r", dist="ext", version="1.0", source=Source(kind="sdist", version="1", sha256="0"),
        requested=("compute_90a:sm_90a",), units=(),
        found=(Binary(file="ext.so", coverage={"sm_90a": 2}, images={"sm_90a": 2}, glibc="2.17"),),
        compiler="c", host_compiler="h", python="3.12", group="g", closure="x", env={}, shim="s", wheel="w.whl",
        wheel_sha256="0",
    )  # fmt: skip
    built = SimpleNamespace(dist="ext", version="1.0", path="/w.whl", sha256="0", manifest=manifest)
    plain = SimpleNamespace(dist="aaa", version="1.0", path="/a.whl", sha256="0")
    (kernels,) = kernels_of([plain, built])
    assert (kernels.dist, kernels.requested, kernels.found[0].coverage) == ("ext", manifest.requested, {"sm_90a": 2})


def test_record_without_kernels_is_read(tmp_path: Path) -> None:
    dump_json(tmp_path / RECORD_PATH, RECORD)
    content = json.loads((tmp_path / RECORD_PATH).read_text())
    del content["kernels"]
    (tmp_path / RECORD_PATH).write_text(json.dumps(content))
    assert read_environment(tmp_path).kernels == ()
