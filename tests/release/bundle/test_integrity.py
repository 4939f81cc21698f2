"""Every way to change a bundle without the key is seen."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from orbit.errors import InputError
from orbit.release.attest.signers import LocalSigner
from orbit.release.attest.trust import Trust
from orbit.release.bundle.model import RELEASE, REQUIRED
from orbit.release.bundle.report import State, Verdict, render
from orbit.release.bundle.verify import verify_bundle
from tests.release.bundle import forge
from tests.release.bundle.world import DECIDED, World, claim


def names(folder: Path) -> list[str]:
    return sorted(forge.load(folder))


def seen(world: World, folder: Path) -> bool:
    """Whether a change is detected: contradicted, or no bundle any more."""
    try:
        report = world.verify(folder)
    except InputError:
        return True
    return report.verdict is Verdict.CONTRADICTED and report.exit_code == 1


def flip(place: Path, at: int, bit: int = 0) -> None:
    data = bytearray(place.read_bytes())
    data[at] ^= 1 << bit
    place.write_bytes(data)


def test_untouched_it_is_verified(world: World, folder: Path) -> None:
    report = world.verify(folder)
    assert report.verdict is Verdict.VERIFIED
    assert report.exit_code == 0
    assert claim(report, "files").state is State.PROVEN


def test_a_bit_flipped_in_any_file_is_seen(world: World, folder: Path) -> None:
    assert len(names(folder)) >= 30
    for name in names(folder):
        place, data = folder / name, (folder / name).read_bytes()
        for at in {0, len(data) // 2, len(data) - 1}:
            flip(place, at)
            assert seen(world, folder), (name, at)
            place.write_bytes(data)


def test_a_bit_flipped_anywhere_in_the_signed_release_is_seen(world: World, folder: Path) -> None:
    place = folder / RELEASE
    data = place.read_bytes()
    dice = random.Random(6)
    ends = [*range(len(data) - 220, len(data)), *range(20)]  # keyid, signature, names of fields
    for at in [*ends, *(dice.randrange(len(data)) for _ in range(60))]:
        flip(place, at, dice.randrange(8))
        assert seen(world, folder), (at, data[at : at + 1])
        place.write_bytes(data)


def remove(folder: Path, name: str) -> None:
    (folder / name).unlink()


def truncate(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:-1])


def append(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes() + b"\n")


def empty(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")


def link_away(folder: Path, name: str) -> None:
    """The same bytes, through a link that leads out of the bundle."""
    outside = folder.parent / "outside"
    shutil.copyfile(folder / name, outside)
    (folder / name).unlink()
    (folder / name).symlink_to(outside)


def to_folder(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()


def add_beside(folder: Path, name: str) -> None:
    (folder / f"{name}.bak").write_bytes(b"x")


def swap_with_next(folder: Path, name: str) -> None:
    other = names(folder)[(names(folder).index(name) + 1) % len(names(folder))]
    one, two = (folder / name).read_bytes(), (folder / other).read_bytes()
    assert one != two
    (folder / name).write_bytes(two)
    (folder / other).write_bytes(one)


def rename(folder: Path, name: str) -> None:
    (folder / name).rename(folder / f"{name}x")


@pytest.mark.parametrize(
    "change", [remove, truncate, append, empty, link_away, to_folder, add_beside, swap_with_next, rename]
)
def test_every_other_change_of_any_file_is_seen(
    world: World, tmp_path: Path, change: Callable[[Path, str], None]
) -> None:
    for name in names(world.place / "bundle"):
        folder = shutil.copytree(world.place / "bundle", tmp_path / "bundle")
        change(folder, name)
        assert seen(world, folder), name
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["evil.sh", "run/09-extra.json", "evidence/b200.intoto.json", "keys/mine.pub", ".x"])
def test_a_file_that_was_added_is_named(world: World, folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"x")
    wrong = claim(world.verify(folder), "files")
    assert wrong.state is State.CONTRADICTED
    assert name in wrong.why


def test_what_is_wrong_is_said_of_each_file(world: World, folder: Path) -> None:
    (folder / "uv.lock").unlink()
    append(folder, "run/audit.json")
    (folder / "run" / "new.json").write_bytes(b"{}")
    report = world.verify(folder)
    assert claim(report, "files").why == "run/audit.json was changed; run/new.json was added; uv.lock is missing"
    assert claim(report, "contents").state is State.NOT_CHECKED
    assert claim(report, "signature").state is State.PROVEN  # of the list, not of what lies there
    assert {item.name for item in report.claims} == {"files", "signature", "contents"}


def test_names_in_a_list_that_nobody_signed_are_not_shown_raw(world: World, folder: Path) -> None:
    files = forge.load(folder)

    def more(predicate: forge.Plain) -> None:
        predicate["files"]["\x1b[31mx\nVERIFIED"] = "0" * 64

    forge.relist(files, world.signer, more)
    forge.save(folder, files)
    text = render(world.verify(folder))
    assert "\x1b" not in text
    assert "\nVERIFIED" not in text


def test_another_key_is_not_believed_however_well_it_is_listed(world: World, folder: Path) -> None:
    stranger = LocalSigner(Ed25519PrivateKey.generate())
    files = forge.load(folder)
    files["run/summary.md"] = b"all is well\n"
    forge.relist(files, stranger)
    forge.save(folder, files)
    report = world.verify(folder)
    assert report.verdict is Verdict.CONTRADICTED
    assert claim(report, "files").state is State.PROVEN
    wrong = claim(report, "signature")
    assert wrong.state is State.CONTRADICTED
    assert "not trusted" in wrong.why
    # and what it says is not even looked at
    assert [item.name for item in report.claims if item.state is State.PROVEN] == ["files"]
    assert "nobody you trust" in claim(report, "contents").why


def test_a_keyid_is_no_signature(world: World, folder: Path) -> None:
    stranger = LocalSigner(Ed25519PrivateKey.generate())
    files = forge.load(folder)
    forge.relist(files, stranger)
    files[RELEASE] = files[RELEASE].replace(stranger.keyid.encode(), world.signer.keyid.encode())
    forge.save(folder, files)
    assert claim(world.verify(folder), "signature").state is State.CONTRADICTED


def test_the_keyid_of_another_beside_a_good_signature_is_seen(world: World, folder: Path) -> None:
    data = (folder / RELEASE).read_bytes()
    (folder / RELEASE).write_bytes(data.replace(world.signer.keyid.encode(), world.lab.keyid.encode()))
    assert "names another key" in claim(world.verify(folder), "signature").why


def test_without_a_key_nothing_is_verified(folder: Path) -> None:
    report = verify_bundle(folder, Trust(), now=DECIDED)
    assert report.verdict is Verdict.NOT_VERIFIED
    assert report.exit_code == 3
    assert claim(report, "signature").state is State.NOT_CHECKED
    assert [item.name for item in report.claims if item.state is State.PROVEN] == ["files"]


def test_a_signature_of_something_else_is_none(world: World, folder: Path) -> None:
    """Statements of the same signer about the same image, under the name of the release."""
    for name in ("provenance.intoto.json", "gpu-arch-coverage.intoto.json"):
        shutil.copyfile(folder / name, folder / RELEASE)
        assert seen(world, folder)


def test_a_bundle_of_a_later_version_is_no_attack(world: World, folder: Path) -> None:
    files = forge.load(folder)
    forge.relist(files, world.signer, lambda predicate: predicate.update(schema="orbit.release/2", more=1))
    forge.save(folder, files)
    with pytest.raises(InputError, match=r"orbit\.release/2"):
        world.verify(folder)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_bundle_that_never_had_a_file_is_seen(world: World, folder: Path, name: str) -> None:
    files = forge.load(folder)
    del files[name]
    forge.relist(files, world.signer)
    forge.save(folder, files)
    wrong = claim(world.verify(folder), "files")
    assert wrong.state is State.CONTRADICTED
    assert name in wrong.why
