"""Verifying a bundle end to end: folder and archive, keys of the user, an image beside it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from orbit.errors import ExitCode, InputError, MissingError, RefusedError
from orbit.profile.model import load_profile
from orbit.release.attest.keys import public_pem
from orbit.release.attest.signers import LocalSigner
from orbit.release.attest.statement import PREDICATES
from orbit.release.bundle.model import SUMS
from orbit.release.bundle.report import State, Verdict
from orbit.release.bundle.verify import trust_in
from orbit.release.bundle.write import write_archive, write_bundle
from tests.release.bundle.world import World, claim
from tests.source import ROOT


def key_file(place: Path, signer: LocalSigner) -> Path:
    place.write_bytes(public_pem(signer.key.public_key()))
    return place


def test_folder_and_archive_have_one_answer(world: World, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "b", world.parts(), world.signer)
    archive = write_archive(bundle, tmp_path / "b.tar")
    by_folder, by_archive = world.verify(bundle.folder), world.verify(archive)
    assert by_folder.claims == by_archive.claims
    assert by_archive.verdict is Verdict.VERIFIED
    with tarfile.open(archive) as tar:
        assert {name.split("/")[0] for name in tar.getnames()} == {f"probe-0.1.0-{world.digest[7:19]}"}
        tar.extractall(tmp_path / "out", filter="data")
    (top,) = (tmp_path / "out").iterdir()
    assert world.verify(top).claims == by_folder.claims


def test_what_the_report_says_of_the_bundle(world: World) -> None:
    report = world.verify()
    assert (report.profile, report.version, report.commit) == ("probe", "0.1.0", "ab" * 20)
    assert report.image == f"orbit/probe@{world.digest}"
    assert (report.signer, report.keyid) == ("release.pub", world.signer.keyid)
    assert report.created == "2026-11-30T21:00:00+00:00"
    names = [item.name for item in report.claims]
    assert len(names) == len(set(names))
    assert {"files", "signature", "provenance", "gpu-arch-coverage", "sbom", "target h100", "target b200"} <= set(names)


def test_a_profile_with_a_lock_of_its_own(tmp_path: Path) -> None:
    own = msgspec.structs.replace(load_profile("probe"), lock="env/profiles/own")
    world = World(tmp_path, profile=own).make()
    assert not (world.root / "uv.lock").exists()
    world.bundle()
    report = world.verify()
    assert report.verdict is Verdict.VERIFIED, [item for item in report.claims if item.state is State.CONTRADICTED]
    assert claim(report, "provenance").state is State.PROVEN


def test_nothing_is_written_and_nothing_is_left_open(world: World, folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    world.verify(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# --- keys of the user -------------------------------------------------------------------------------------------------


def test_keys_of_the_user_may_sign_everything(world: World, tmp_path: Path) -> None:
    key = key_file(tmp_path / "publisher.pub", world.signer)
    trust = trust_in([key, key], world.place / "bundle")
    (signer,) = trust.signers
    assert signer.may_sign == set(PREDICATES.values())
    assert world.verify(trust=trust).verdict is Verdict.VERIFIED


def test_a_key_of_the_bundle_is_no_reason_to_trust_it(world: World, folder: Path, tmp_path: Path) -> None:
    (inside,) = (folder / "keys").glob("release-*.pub")
    (tmp_path / "link.pub").symlink_to(inside)
    for key in (inside, folder / "keys" / ".." / "keys" / inside.name, tmp_path / "link.pub"):
        with pytest.raises(RefusedError, match="proves nothing") as caught:
            trust_in([key], folder)
        assert caught.value.code is ExitCode.REFUSED
    shutil.copyfile(inside, tmp_path / "compared.pub")  # whoever compared it elsewhere may use it
    assert world.verify(folder, trust_in([tmp_path / "compared.pub"], folder)).verdict is Verdict.VERIFIED


def test_keys_that_are_none_are_said(world: World, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"gone\.pub"):
        trust_in([tmp_path / "gone.pub"], world.place)
    (tmp_path / "odd.pub").write_bytes(b"x")
    with pytest.raises(InputError, match="no public key"):
        trust_in([tmp_path / "odd.pub"], tmp_path / "bundle")


def test_rows_of_trust_limit_who_may_sign_what(world: World, tmp_path: Path) -> None:
    key_file(tmp_path / "publisher.pub", world.signer)
    row = '[[trust]]\nname = "publisher"\nkey = "publisher.pub"\nmay_sign = ["smoke"]\n'
    (tmp_path / "trust.toml").write_text(row)
    report = world.verify(trust=trust_in([], tmp_path / "b", tmp_path / "trust.toml"))
    wrong = claim(report, "signature")
    assert wrong.state is State.CONTRADICTED
    assert "may sign" in wrong.why
    (tmp_path / "trust.toml").write_text(row.replace('"smoke"', '"release", "provenance", "gpu-arch-coverage"'))
    assert world.verify(trust=trust_in([], tmp_path / "b", tmp_path / "trust.toml")).verdict is Verdict.VERIFIED


def test_a_stranger_among_the_keys_does_no_harm(world: World, tmp_path: Path) -> None:
    stranger = key_file(tmp_path / "stranger.pub", LocalSigner(Ed25519PrivateKey.generate()))
    mine = key_file(tmp_path / "mine.pub", world.signer)
    report = world.verify(trust=trust_in([stranger, mine], tmp_path / "b"))
    assert report.signer == "mine.pub"
    alone = world.verify(trust=trust_in([stranger], tmp_path / "b"))
    assert alone.verdict is Verdict.CONTRADICTED


# --- by hand ----------------------------------------------------------------------------------------------------------


def commands() -> str:
    """The first block of the section in docs/release.md."""
    text = (ROOT / "docs" / "release.md").read_text().partition("## By hand")[2]
    found = re.search(r"```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def by_hand(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of the page in the bundle."""
    openssl = shutil.which("openssl")
    if openssl is None or shutil.which("sha256sum") is None:
        pytest.skip("needs openssl and sha256sum")
    version = subprocess.run([openssl, "version"], capture_output=True, text=True, check=True).stdout
    if not re.match(r"OpenSSL (3|4)\.", version):
        pytest.skip(f"needs OpenSSL 3, this is {version.strip()}")
    return subprocess.run(["sh", "-c", commands()], cwd=folder, capture_output=True, text=True, check=False)


SENTENCES = [
    "Signature Verified Successfully",
    "SHA256SUMS is the one that was signed",
    "every file is as listed",
    "image/manifest.json is the image",
]


def test_the_commands_of_the_page_verify_a_bundle(world: World, folder: Path) -> None:
    key_file(folder.parent / "PUBLISHER.pub", world.signer)
    done = by_hand(folder)
    assert done.stdout.splitlines() == SENTENCES, done.stderr
    assert len((folder / SUMS).read_text().splitlines()) + 2 == sum(path.is_file() for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("name", "lost"), [("release.intoto.json", 0), ("SHA256SUMS", 1), ("uv.lock", 2), ("image/manifest.json", 3)]
)
def test_the_commands_of_the_page_see_what_was_changed(world: World, folder: Path, name: str, lost: int) -> None:
    key_file(folder.parent / "PUBLISHER.pub", world.signer)
    data = (folder / name).read_bytes()
    at = data.index(b'"sig":"') + 20 if name == "release.intoto.json" else 40
    (folder / name).write_bytes(data[:at] + (b"0" if data[at : at + 1] != b"0" else b"1") + data[at + 1 :])
    assert SENTENCES[lost] not in by_hand(folder).stdout


def test_the_commands_of_the_page_see_another_key(world: World, folder: Path) -> None:
    key_file(folder.parent / "PUBLISHER.pub", world.lab)
    assert SENTENCES[0] not in by_hand(folder).stdout


def test_the_id_of_a_key_is_what_openssl_makes_of_it(world: World, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    key = key_file(tmp_path / "PUBLISHER.pub", world.signer)
    done = subprocess.run(
        ["sh", "-c", "openssl pkey -pubin -in PUBLISHER.pub -outform DER | sha256sum"],
        cwd=key.parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[0] == world.signer.keyid
