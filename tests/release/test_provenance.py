"""Provenance: the names are those of SLSA v1, and everything that went in is there by its digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.report import json_schema
from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.profile.model import Profile, load_profile
from orbit.release.attest.statement import PROVENANCE, parse_statement, statement_bytes, times_of
from orbit.release.checkout import Checkout
from orbit.release.evidence import Result
from orbit.release.provenance import (
    BUILD_TYPE,
    TREE,
    UNKNOWN_BUILDER,
    UNKNOWN_SOURCE,
    Provenance,
    provenance_of_run,
)
from tests.release.made import COMMIT, DIGEST, audit, stage, summary, write_run

LOCK = """
version = 1
revision = 3
requires-python = "==3.12.*"

[[package]]
name = "orbit"
version = "0.1.0"
source = {{ editable = "." }}
dependencies = [{{ name = "good" }}, {{ name = "ext" }}]

[[package]]
name = "good"
version = "2.0"
source = {{ registry = "https://index.example.com/simple" }}
wheels = [{{ url = "https://index.example.com/good-2.0-py3-none-any.whl", hash = "sha256:{good}", size = 5 }}]

[[package]]
name = "ext"
version = "1.5"
source = {{ registry = "https://index.example.com/simple" }}
wheels = [{{ url = "https://index.example.com/ext-1.5-py3-none-any.whl", hash = "sha256:{ext}", size = 5 }}]
""".format(good="8" * 64, ext="9" * 64)
PROFILE = load_profile("probe")

# Field names of https://slsa.dev/spec/v1.0/provenance, by the object they stand in; R: required.
SLSA = {
    "": {"buildDefinition": "R", "runDetails": "R"},
    "buildDefinition": {
        "buildType": "R", "externalParameters": "R", "internalParameters": "", "resolvedDependencies": "",
    },
    "runDetails": {"builder": "R", "metadata": "", "byproducts": ""},
    "runDetails.builder": {"id": "R", "version": "", "builderDependencies": ""},
    "runDetails.metadata": {"invocationId": "", "startedOn": "", "finishedOn": ""},
}  # fmt: skip
RESOURCE = {"name", "uri", "digest", "content", "downloadLocation", "mediaType", "annotations"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "containers").mkdir(parents=True)
    (root / "uv.lock").write_text(LOCK)
    (root / "containers" / "base.lock").write_text("packages")
    return root


def lock_sha256(root: Path) -> str:
    import hashlib

    return hashlib.sha256((root / "uv.lock").read_bytes()).hexdigest()


def made(root: Path, of: Profile = PROFILE, *, checkout: Checkout | None = None, **changes: Any) -> dict[str, Any]:
    folder = root.parent / "run"
    write_run(folder, summary(lock_sha256(root), **changes), audit(), checkout=checkout)
    statement = provenance_of_run(folder, of, root, repository="https://example.com/orbit")
    assert (statement.predicate_type, statement.image_digest) == (PROVENANCE, DIGEST)
    assert parse_statement(statement_bytes(statement), "x") == statement
    return statement.predicate


def dependencies(predicate: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in predicate["buildDefinition"]["resolvedDependencies"]}


def test_the_names_are_those_of_the_standard(root: Path) -> None:
    predicate = made(root)
    for place, known in SLSA.items():
        found: Any = predicate
        for part in filter(None, place.split(".")):
            found = found[part]
        assert set(found) <= set(known), place
        assert {name for name, need in known.items() if need} <= set(found), place
    build, run = predicate["buildDefinition"], predicate["runDetails"]
    for item in (*build["resolvedDependencies"], *run["byproducts"], build["externalParameters"]["source"]):
        assert set(item) <= RESOURCE
        assert all(isinstance(digits, str) for digits in item.get("digest", {}).values())
    assert ":" in build["buildType"]
    assert ":" in run["builder"]["id"]


@pytest.mark.parametrize("checkout", [None, Checkout(reason="no git repository")])
def test_another_librarys_model_of_the_standard_takes_it(root: Path, checkout: Checkout | None) -> None:
    models = pytest.importorskip("sigstore.dsse._predicate", reason="the extra sigstore is not installed")
    read = models.SLSAPredicateV1_0.model_validate_json(msgspec.json.encode(made(root, checkout=checkout)))
    assert read.build_definition.build_type == BUILD_TYPE
    assert len(read.run_details.byproducts) >= 4


def test_what_was_asked_for_can_be_repeated(root: Path) -> None:
    build = made(root)["buildDefinition"]
    assert build["buildType"] == BUILD_TYPE
    assert build["externalParameters"] == {
        "profile": "probe",
        "command": ["orbit", "ship", "--profile", "probe", "--kernels", "core"],
        "source": {
            "name": "source",
            "uri": f"git+https://example.com/orbit@{COMMIT}",
            "digest": {"gitCommit": COMMIT},
        },
    }
    assert build["internalParameters"]["tools"] == {"uv": "0.9"}
    assert build["internalParameters"]["skipped"] == ["kernels: flash-attn: tier extended"]


def test_everything_that_went_in_has_its_digest(root: Path) -> None:
    found = dependencies(made(root))
    assert found["source"]["digest"] == {"gitCommit": COMMIT}
    assert found["uv.lock"]["digest"] == {"sha256": lock_sha256(root)}
    assert set(found["containers/base.lock"]["digest"]) == {"sha256"}
    assert found["cpython-3.12"]["annotations"] == {TREE: "7" * 64}
    good = found["good-2.0-py3-none-any.whl"]
    assert (good["digest"], good["uri"]) == ({"sha256": "8" * 64}, "pkg:pypi/good@2.0")
    assert "ext-1.5-py3-none-any.whl" not in found, "a package that was compiled here did not come from the index"
    assert found["ext-1.5.whl"]["annotations"]["compiler"] == "nvcc V13.0.88"
    assert found["ext-1.5.tar.gz"]["digest"] == {"sha256": "c" * 64}
    assert found["kernels/packages/orbit-probe"]["annotations"][TREE] == "6" * 64
    assert found["fast"]["digest"] == {"gitCommit": "1" * 40}
    assert found["fast"]["annotations"]["gitTree"] == "2" * 40
    assert found["fast/third/cutlass"]["uri"] == f"git+https://example.com/c.git@{'3' * 40}"
    assert found["kernels/patches/fast/one.patch"]["digest"] == {"sha256": "5" * 64}
    assert found["zeta-1.5.whl"]["annotations"] == {"role": "kernel", "mode": "wheel"}


def test_the_run_names_itself_its_times_and_its_files(root: Path) -> None:
    run = made(root)["runDetails"]
    assert run["builder"] == {"id": UNKNOWN_BUILDER, "version": {"orbit": "0.1.0"}}
    assert run["metadata"] == {
        "invocationId": "probe-20261130T200000Z",
        "startedOn": "2026-11-30T20:00:00Z",
        "finishedOn": "2026-11-30T20:02:05Z",
    }
    assert {"evidence.json", "summary.json", "image-audit.json", "kernels.json"} <= {
        i["name"] for i in run["byproducts"]
    }
    assert all(set(item["digest"]) == {"sha256"} for item in run["byproducts"])


def test_its_times_are_those_a_reader_holds_against_the_clock(root: Path) -> None:
    folder = root.parent / "run"
    write_run(folder, summary(lock_sha256(root)), audit())
    assert len(times_of(provenance_of_run(folder, PROFILE, root), "x")) == 2


def test_a_source_that_is_not_one_commit_says_so(root: Path) -> None:
    source = made(root, checkout=Checkout(reason="no git repository"))["buildDefinition"]["externalParameters"][
        "source"
    ]
    assert source == {"name": "source", "uri": UNKNOWN_SOURCE, "annotations": {"unknown": "no git repository"}}


def test_a_changed_checkout_is_told(root: Path) -> None:
    changed = Checkout(commit=COMMIT, changed=("a.py",), changes=3)
    source = made(root, checkout=changed)["buildDefinition"]["externalParameters"]["source"]
    assert source["annotations"] == {"changedFiles": 3}


def test_a_run_without_smoke_is_repeated_without(root: Path) -> None:
    stages = tuple(one for one in summary("").stages if one.stage not in ("lock", "smoke"))
    left_out = stage("smoke", result=Result.SKIPPED, reason="--no-smoke was given")
    lock = stage("lock", outputs={"lock": lock_sha256(root)})
    command = made(root, stages=(lock, *stages, left_out))["buildDefinition"]["externalParameters"]["command"]
    assert command[-1] == "--no-smoke"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"result": Result.FAILED}, "the run failed"),
        ({"image_digest": ""}, "names no image digest"),
        ({"profile": "cu130"}, "a run of profile cu130, not probe"),
        ({"stages": ()}, "no record of its stage lock"),
    ],
)
def test_a_run_that_cannot_be_vouched_for(root: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        made(root, **changes)


def test_the_lock_must_be_the_one_of_the_run(root: Path) -> None:
    folder = write_run(root.parent / "run", summary("0" * 64), audit())
    with pytest.raises(InputError, match="is not the lock this run used") as refused:
        provenance_of_run(folder, PROFILE, root)
    assert COMMIT in refused.value.fix


def test_it_fits_the_published_schema_and_nothing_else_does(root: Path) -> None:
    published = data_root() / "docs/schemas/slsa-provenance.json"
    assert published.read_bytes() == json_schema(Provenance), (
        "orbit gate attest --schema slsa-provenance > docs/schemas/slsa-provenance.json"
    )
    check = jsonschema.Draft202012Validator(json.loads(published.read_bytes()))
    predicate = json.loads(msgspec.json.encode(made(root)))
    assert [error.message for error in check.iter_errors(predicate)] == []
    del predicate["runDetails"]["builder"]["id"]
    predicate["buildDefinition"]["more"] = 1
    messages = " ".join(error.message for error in check.iter_errors(predicate))
    assert "'id' is a required property" in messages
    assert "'more' was unexpected" in messages


def test_equal_facts_give_equal_bytes(root: Path) -> None:
    folder = write_run(root.parent / "run", summary(lock_sha256(root)), audit())
    one, other = (statement_bytes(provenance_of_run(folder, PROFILE, root)) for _ in range(2))
    assert one == other
