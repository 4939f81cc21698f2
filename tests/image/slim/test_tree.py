"""A whole environment slimmed: what changes, what is linked, what RECORD and evidence say, and what stops it."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Entry, Store
from orbit.env import tree
from orbit.env.contents import read_contents
from orbit.env.installed import digest_of, read_record
from orbit.env.record import RECORD_PATH, read_environment
from orbit.env.takeover import SITE
from orbit.errors import RefusedError
from orbit.image.slim import tree as slim_tree
from orbit.image.slim.report import read_evidence
from orbit.image.slim.tree import EVIDENCE_PATH, plan_tree, slim_environment, slim_inputs
from orbit.profile.model import SlimPolicy
from tests.image.slim.trees import ANY, profile, sealed_environment

FAT_SO = f"{SITE}/some_kernels/fat.so"
CUDNN = f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9"
RECORD = f"{SITE}/some_kernels-1.0.dist-info/RECORD"


def slim(store: Store, environment: Entry, policy: SlimPolicy = ANY) -> Path:
    return slim_environment(profile(), environment, store, policy=policy, progress=Silent()).path


def digests(place: Path) -> dict[str, str]:
    prefix = place / "prefix"
    found = {}
    for path in sorted(prefix.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(prefix))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(prefix))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_one_library_changes_and_what_states_its_hash(store: Store) -> None:
    environment = sealed_environment(store)
    before = digests(environment.path)
    made = slim(store, environment)
    after = digests(made)
    assert {path for path in before | after if before.get(path) != after.get(path)} == {
        FAT_SO, RECORD, RECORD_PATH, EVIDENCE_PATH,
    }  # fmt: skip
    assert digests(environment.path) == before
    assert (made / "prefix" / FAT_SO).stat().st_size < (environment.path / "prefix" / FAT_SO).stat().st_size
    untouched = made / "prefix" / CUDNN
    assert untouched.samefile(environment.path / "prefix" / CUDNN)


def test_record_contents_and_manifest_are_true(store: Store) -> None:
    made = slim(store, sealed_environment(store))
    dist = read_record(made / "prefix" / SITE / "some_kernels-1.0.dist-info")
    stated = {line.path: (line.digest, line.size) for line in dist.lines if line.digest}
    assert stated == {path: digest_of(made / "prefix" / SITE / path) for path in stated}
    assert "some_kernels/fat.so" in stated
    contents = read_contents(made)
    found = {path: value for path, value in digests(made).items() if not (made / "prefix" / path).is_symlink()}
    assert contents.keys() == found.keys()
    for path, value in contents.items():
        assert digest_of(made / "prefix" / path)[0] == f"sha256={value}"
    assert tree.damage(made / "prefix", made / tree.MANIFEST) == ""
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in (made / "prefix").rglob("*") if path.is_file()}
    assert modes <= {0o644, 0o755, 0o777}


def test_the_evidence_keeps_the_original_hash_and_says_what_was_left(store: Store) -> None:
    environment = sealed_environment(store)
    made = slim(store, environment)
    evidence = read_evidence(made / "prefix")
    original = read_environment(environment.path / "prefix")
    assert evidence.environment == original.identity
    assert read_environment(made / "prefix").identity != original.identity
    assert [item.path for item in evidence.files] == ["nvidia/cudnn/lib/libcudnn_ops.so.9", "some_kernels/fat.so"]
    left, changed = evidence.files
    assert (left.layout, left.removed_bytes, left.sha256) == ("none", 0, left.original_sha256)
    assert left.why_not.startswith("licence: ")
    assert changed.original_sha256 == digests(environment.path)[FAT_SO]
    assert changed.sha256 == digests(made)[FAT_SO]
    assert changed.removed_entries == 2
    assert [(row.arch, row.keep) for row in changed.archs] == [("sm_100", True), ("sm_80", False), ("sm_90a", True)]


def test_nothing_unproved_is_touched_by_default(store: Store) -> None:
    environment = sealed_environment(store)
    made = slim(store, environment, SlimPolicy())
    assert digests(made)[FAT_SO] == digests(environment.path)[FAT_SO]
    assert read_evidence(made / "prefix").changed == ()


def test_a_second_time_nothing_is_done_and_files_are_kept_for_other_environments(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = sealed_environment(store)
    first = slim_environment(profile(), environment, store, policy=ANY, progress=Silent())
    again = slim_environment(profile(), environment, store, policy=ANY, progress=Silent())
    assert (first.reused, again.reused, again.path) == (False, True, first.path)
    wanted = digests(first.path)
    store.discard(first.path)
    monkeypatch.setattr(slim_tree, "apply_plan", lambda *_args: pytest.fail("that library was slimmed before"))
    assert digests(slim(store, environment)) == wanted


def test_two_stores_make_the_same_tree(tmp_path: Path) -> None:
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    assert digests(slim(one, sealed_environment(one))) == digests(slim(two, sealed_environment(two)))


def test_a_damaged_slim_environment_is_made_again(store: Store) -> None:
    environment = sealed_environment(store)
    made = slim(store, environment)
    wanted = digests(made)
    (made / "prefix" / FAT_SO).unlink()
    assert digests(slim(store, environment)) == wanted


def test_an_environment_that_was_touched_is_no_source(store: Store) -> None:
    environment = sealed_environment(store)
    victim = environment.path / "prefix" / f"{SITE}/nobody.txt"
    victim.write_bytes(b"changed after it was sealed\n")
    with pytest.raises(RefusedError, match="changed while it was taken over"):
        slim(store, environment)
    assert not (store.root / "entries" / slim_tree.KIND).exists()


def test_policy_and_targets_are_in_the_key(store: Store) -> None:
    environment = sealed_environment(store)
    keys = [slim_inputs(profile(), environment, policy) for policy in (ANY, SlimPolicy(), SlimPolicy(ptx="drop"))]
    assert len({str(key) for key in keys}) == 3


def test_a_plan_changes_nothing(store: Store) -> None:
    environment = sealed_environment(store)
    before = digests(environment.path)
    plans = plan_tree(environment.path / "prefix", profile(), ANY, progress=Silent())
    assert [(plan.path, owner) for plan, owner in plans] == [
        ("nvidia/cudnn/lib/libcudnn_ops.so.9", "nvidia-cudnn-cu13"),
        ("some_kernels/fat.so", "some-kernels"),
    ]
    assert digests(environment.path) == before
