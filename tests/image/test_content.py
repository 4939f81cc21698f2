"""Keys by content: equal content, equal key; and every way to get a wrong layer reused that we could think of."""

from __future__ import annotations

import base64
import hashlib
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.installed import fact_cache
from orbit.audit.installed.fact_cache import FactCache
from orbit.audit.installed.tree import find_layout, read_tree
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.env.contents import write_contents
from orbit.errors import InputError, RefusedError
from orbit.image import content
from orbit.image.content import (
    Listing,
    list_environment,
    members_key,
    plan_layers,
    planned,
    recall,
    remember,
    remembered_digests,
)
from orbit.image.layers import SITE
from orbit.image.tar import Member, folder, tar_chunks, with_parents
from tests.image.conftest import BuildSmall
from tests.image.world import PROFILE, environment_files, make_environment, recorded, write_tree

POLICY = PROFILE.image
TORCH = f"{SITE}/torch/lib/libtorch.so"
COMPILED = f"{SITE}/torch/__pycache__/__init__.cpython-312.pyc"


def plan(prefix: Path) -> dict[str, list[Member]]:
    return plan_layers(list_environment(prefix), POLICY, progress=Silent())


def keys(prefix: Path) -> dict[str, str]:
    return {name: members_key(members) for name, members in plan(prefix).items()}


def sha256(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def same_size_and_time(path: Path, data: bytes) -> None:
    """Overwrite ``path`` so that size and modification time are what they were."""
    state = path.stat()
    assert state.st_size == len(data)
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_every_file_has_its_digest_from_record_or_from_itself(tmp_path: Path) -> None:
    files = recorded(environment_files())
    write_tree(tmp_path, files)
    members = {member.name.removeprefix("opt/orbit/"): member for part in plan(tmp_path).values() for member in part}
    assert {name: member.sha256 for name, member in members.items()} == {
        name: sha256(data) for name, data in files.items()
    }
    assert not members[TORCH].proved  # RECORD says so; whoever reads it compares
    assert all(member.stamp for member in members.values())


def test_a_digest_computed_here_needs_no_second_look_once_the_clock_moved_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, recorded(environment_files()))
    monkeypatch.setattr(content, "SETTLE_NS", -(10**10))
    members = {member.name.removeprefix("opt/orbit/"): member for part in plan(tmp_path).values() for member in part}
    assert members[COMPILED].proved
    assert not members[TORCH].proved


def audited(prefix: Path, facts: Path) -> None:
    """Remember every file of ``prefix`` as an audit does; their times are made ones that lie behind it."""
    for path in prefix.rglob("*"):
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    cache = FactCache(facts, find_layout(prefix, "3.12"))
    tree = read_tree(prefix)
    cache.save(tree, {path: sha256((prefix / path).read_bytes()) for path, f in tree.entries.items() if f.is_file})


def test_what_an_audit_read_is_not_compared_again_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, facts = tmp_path / "env", tmp_path / "facts"
    write_tree(prefix, recorded(environment_files()))
    monkeypatch.setattr(content, "SETTLE_NS", -(10**10))
    monkeypatch.setattr(fact_cache, "SETTLE_NS", -(10**10))
    audited(prefix, facts)
    (prefix / COMPILED).touch()
    listing = list_environment(prefix)
    known = remembered_digests(listing, "3.12", facts)
    assert TORCH in known
    assert COMPILED not in known
    plain = plan_layers(listing, POLICY, progress=Silent())
    helped = plan_layers(listing, POLICY, progress=Silent(), remembered=known)
    assert {name: members_key(members) for name, members in helped.items()} == {
        name: members_key(members) for name, members in plain.items()
    }
    proved = {member.name.removeprefix("opt/orbit/") for part in helped.values() for member in part if member.proved}
    assert {TORCH, COMPILED} <= proved  # one remembered, one read now


def test_a_file_that_the_audit_found_to_be_another_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, facts = tmp_path / "env", tmp_path / "facts"
    files = recorded(environment_files())
    write_tree(prefix, files)
    same_size_and_time(prefix / TORCH, files[TORCH][:-1] + b"\1")
    monkeypatch.setattr(fact_cache, "SETTLE_NS", -(10**10))
    audited(prefix, facts)
    listing = list_environment(prefix)
    with pytest.raises(RefusedError, match=r"not what RECORD or contents\.tsv states"):
        plan_layers(listing, POLICY, progress=Silent(), remembered=remembered_digests(listing, "3.12", facts))


def test_equal_content_has_equal_keys_wherever_it_lies(tmp_path: Path) -> None:
    files = recorded(environment_files())
    for seed, umask in ((1, 0o022), (2, 0o077)):
        write_tree(tmp_path / str(seed), files, seed=seed, umask=umask)
    assert keys(tmp_path / "1") == keys(tmp_path / "2")


@pytest.mark.parametrize("path", [TORCH, COMPILED, "bin/python3.12", f"{SITE}/nobody.txt"])
def test_one_changed_file_changes_the_key_of_its_layer_alone(tmp_path: Path, path: str) -> None:
    files = environment_files()
    write_tree(tmp_path / "a", recorded(files))
    write_tree(tmp_path / "b", recorded({**files, path: files[path][:-1] + b"\1"}))
    one, other = keys(tmp_path / "a"), keys(tmp_path / "b")
    changed = {name for name in one if one[name] != other[name]}
    assert changed == {"torch" if "torch" in path else "interpreter" if "bin" in path else "stack"}


BASE = [
    Member("a", "file", 0o644, size=1, source=b"x", sha256=sha256(b"x")),
    Member("b/c", "symlink", 0o777, target="x"),
    folder("d"),
]


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE[0], name="a2"),
        replace(BASE[0], mode=0o755),
        replace(BASE[0], size=2),
        replace(BASE[0], sha256=sha256(b"y")),
        replace(BASE[0], kind="symlink", target=sha256(b"x"), size=0),
    ],
)
def test_everything_that_decides_the_stream_is_in_the_key(other: Member) -> None:
    assert members_key([other, *BASE[1:]]) != members_key(BASE)


@given(st.permutations(BASE))
def test_the_order_of_members_is_not_in_the_key(members: list[Member]) -> None:
    assert members_key(members) == members_key(BASE)


def test_times_and_places_are_not_in_the_key() -> None:
    moved = replace(BASE[0], source=b"elsewhere", stamp=(1, 2, 3, 4), proved=True)
    assert members_key([moved, *BASE[1:]]) == members_key(BASE)


def remembered(listing: Listing, store: Store) -> object:
    return recall(listing, POLICY, store)


def test_a_plan_is_remembered_for_the_untouched_tree_only(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "e", recorded(environment_files()))
    monkeypatch.setattr(content, "SETTLE_NS", -(10**10))
    listing = list_environment(tmp_path / "e")
    layers = tuple(planned(name, part) for name, part in plan_layers(listing, POLICY, progress=Silent()).items())
    remember(listing, POLICY, store, layers)
    assert remembered(list_environment(tmp_path / "e"), store) == layers
    same_size_and_time(tmp_path / "e" / COMPILED, b"c0mpiled torch")
    assert remembered(list_environment(tmp_path / "e"), store) is None


@pytest.mark.parametrize("how", ["chmod", "added", "removed", "link", "moved"])
def test_whatever_is_done_to_the_tree_makes_the_memory_worthless(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    root = tmp_path / "e"
    write_tree(root, recorded(environment_files()))
    (root / "link").symlink_to("bin")
    monkeypatch.setattr(content, "SETTLE_NS", -(10**10))
    listing = list_environment(root)
    remember(listing, POLICY, store, ())
    assert remembered(list_environment(root), store) == ()
    if how == "chmod":
        (root / TORCH).chmod(0o755)
    elif how == "added":
        (root / "more").write_bytes(b"")
    elif how == "removed":
        (root / TORCH).unlink()
    elif how == "link":
        (root / "link").unlink()
        (root / "link").symlink_to("lib")
    else:
        (root / "bin" / "other").rename(root / "bin" / "another")
    assert remembered(list_environment(root), store) is None


def test_a_tree_touched_a_moment_ago_is_not_remembered(tmp_path: Path, store: Store) -> None:
    write_tree(tmp_path / "e", recorded(environment_files()))
    listing = list_environment(tmp_path / "e")
    remember(listing, POLICY, store, ())
    assert remembered(listing, store) is None


def test_a_size_that_record_does_not_state_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, recorded(environment_files()))
    (tmp_path / TORCH).write_bytes(b"shorter")
    with pytest.raises(RefusedError, match=r"libtorch.so: 7 bytes, and 200000 in its RECORD"):
        plan(tmp_path)


def test_two_records_that_disagree_about_a_file_are_not_believed(tmp_path: Path) -> None:
    files = recorded(environment_files())
    lie = f"torch/lib/libtorch.so,sha256={sha256(b'another')},200000\n".encode()
    record = next(path for path in files if "other_thing" in path and path.endswith("RECORD"))
    write_tree(tmp_path, files | {record: files[record] + lie})
    members = {member.name: member for part in plan(tmp_path).values() for member in part}
    assert members[f"opt/orbit/{TORCH}"].sha256 == sha256(bytes(200_000))


def test_contents_beside_the_environment_save_the_hashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = recorded(environment_files())
    write_tree(tmp_path / "prefix", files)
    right = keys(tmp_path / "prefix")
    write_contents(tmp_path, {path: sha256(data) for path, data in files.items()})
    hashed: list[str] = []
    real = content._read

    def watched(listing: Listing, paths: Sequence[str]) -> Mapping[str, str]:
        hashed.extend(paths)
        return real(listing, paths)

    monkeypatch.setattr(content, "_read", watched)
    assert keys(tmp_path / "prefix") == right
    assert hashed == []
    # where RECORD and contents.tsv disagree, the file itself is asked
    write_contents(tmp_path, {path: sha256(b"lie") if path == TORCH else sha256(data) for path, data in files.items()})
    assert keys(tmp_path / "prefix") == right
    assert hashed == [TORCH]


def test_a_lie_in_contents_never_becomes_a_layer(store: Store, build_small: BuildSmall) -> None:
    files = recorded(environment_files())
    environment = make_environment(store, files)
    write_contents(environment.path, {COMPILED: sha256(b"lie")})
    with pytest.raises(RefusedError, match=r"__init__.cpython-312.pyc: its content is not what"):
        build_small(store, environment=environment)


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, environment_files())
    with open(os.fsencode(tmp_path) + b"/bad\xff", "wb"):
        pass
    with pytest.raises(InputError, match="no UTF-8"):
        plan(tmp_path)


def test_a_file_that_cannot_be_hashed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, recorded(environment_files()))
    listing = list_environment(tmp_path)
    (tmp_path / COMPILED).unlink()
    with pytest.raises(RefusedError, match="cannot be hashed: No such file"):
        plan_layers(listing, POLICY, progress=Silent())


# --- attempts to get a wrong layer reused -----------------------------------------------------------------------------


def test_an_edited_file_never_gets_under_the_key_that_record_states(store: Store, build_small: BuildSmall) -> None:
    """Same size, same time, RECORD untouched: the key is that of the right content, so the wrong must not be kept."""
    environment = make_environment(store, recorded(environment_files()))
    same_size_and_time(environment.path / "prefix" / TORCH, bytes(199_999) + b"!")
    with pytest.raises(RefusedError, match=r"libtorch.so: its content is not what RECORD"):
        build_small(store, environment=environment)
    # a second store that never saw the edit makes the right layer, and the first one does, too, once it is put right
    same_size_and_time(environment.path / "prefix" / TORCH, bytes(200_000))
    other = Store(store.root.parent / "other")
    right = build_small(other, environment=make_environment(other, recorded(environment_files())))
    assert build_small(store, environment=environment).digest == right.digest


def test_what_is_reused_is_what_record_states_whatever_lies_on_the_disk(store: Store, build_small: BuildSmall) -> None:
    environment = make_environment(store, recorded(environment_files()))
    first = build_small(store, environment=environment)
    same_size_and_time(environment.path / "prefix" / TORCH, bytes(199_999) + b"!")
    assert build_small(store, environment=environment).digest == first.digest


def test_an_edited_file_that_no_record_states_moves_its_layer(store: Store, build_small: BuildSmall) -> None:
    environment = make_environment(store, recorded(environment_files()))
    first = build_small(store, environment=environment)
    same_size_and_time(environment.path / "prefix" / COMPILED, b"c0mpiled torch")
    second = build_small(store, environment=environment)
    assert [layer.name for layer in second.layers if not layer.reused] == ["torch"]
    assert second.digest != first.digest


def test_random_edits_never_make_an_image_that_is_not_its_tree(
    tmp_path: Path, store: Store, build_small: BuildSmall
) -> None:
    """Trees and edits at random in one store: each image is the one that an empty store makes of the same tree."""
    moments = random.Random(5)
    files = environment_files()
    for number in range(12):
        path = moments.choice(sorted(path for path in files if "dist-info" not in path and path != "bin/python3.12"))
        files[path] = moments.randbytes(len(files[path]))
        environment = make_environment(store, recorded(files), seed=number)
        fresh = Store(tmp_path / f"fresh{number}")
        one = build_small(store, environment=environment)
        other = build_small(fresh, environment=make_environment(fresh, recorded(files), seed=99), out=tmp_path / "two")
        assert one.digest == other.digest
        assert any(layer.reused for layer in one.layers) == (number > 0)


def test_the_stream_is_a_function_of_what_is_in_the_key(tmp_path: Path) -> None:
    files = recorded(environment_files())
    streams = set()
    for seed in (1, 2):
        write_tree(tmp_path / str(seed), files, seed=seed)
        members = plan(tmp_path / str(seed))["stack"]
        streams.add((members_key(members), hashlib.sha256(b"".join(tar_chunks(with_parents(members)))).hexdigest()))
    assert len(streams) == 1
