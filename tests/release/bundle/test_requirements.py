"""GPUs and requirements: judged again from the evidence in the bundle, and by whom it was signed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.release.attest.statement import SMOKE
from orbit.release.bundle.report import State, Verdict
from orbit.release.bundle.verify import verify_bundle
from tests.release.bundle import forge
from tests.release.bundle.test_claims import contradicted, judged
from tests.release.bundle.world import DECIDED, World, claim, gpu_report, sign


def test_each_target_is_proven_or_said_not_to_be(world: World) -> None:
    report = world.verify()
    assert [(target.name, target.state) for target in report.targets] == [
        ("h100", State.PROVEN),
        ("b200", State.UNPROVEN),
    ]
    assert claim(report, "target h100").why == "2 checks on NVIDIA H200; signed by lab.pub"
    assert "nobody signed" in claim(report, "target b200").why


def test_evidence_of_a_machine_that_the_user_does_not_know_is_not_called_proven(world: World) -> None:
    report = world.verify(trust=world.trust(world.signer))
    assert report.verdict is Verdict.VERIFIED
    for name in ("target h100", "qualification"):
        one = claim(report, name)
        assert one.state is State.NOT_CHECKED
        assert "The release's signer says so" in one.why
        assert "--key" in one.fix
        assert "keys/lab.pub" in one.fix
    assert report.targets[0].state is State.NOT_CHECKED


def test_a_smoke_report_of_another_image_proves_nothing(world: World, folder: Path, tmp_path: Path) -> None:
    """Signed by the lab, about this image by its subject, but the report inside ran in another one."""
    other = World(tmp_path / "other", lab=world.lab)
    other.statements.mkdir(parents=True)
    ran = msgspec.structs.replace(gpu_report(world, "NVIDIA H200", "9.0"), image="sha256:" + "10" * 32)
    sign(other, "smoke-h100", SMOKE, ran, digest=world.digest)
    data = (other.statements / "smoke-h100.intoto.json").read_bytes()
    report = judged(world, folder, lambda files: files.update({"evidence/smoke-h100.intoto.json": data}))
    assert "target h100" in contradicted(report)


@pytest.mark.parametrize(("device", "capability"), [("NVIDIA A100", "8.0"), ("NVIDIA B200", "10.0")])
def test_a_report_of_another_gpu_is_no_proof_of_this_one(
    world: World, folder: Path, tmp_path: Path, device: str, capability: str
) -> None:
    other = World(tmp_path / "other", lab=world.lab)
    other.statements.mkdir(parents=True)
    sign(other, "smoke-h100", SMOKE, gpu_report(world, device, capability), digest=world.digest)
    data = (other.statements / "smoke-h100.intoto.json").read_bytes()
    report = judged(world, folder, lambda files: files.update({"evidence/smoke-h100.intoto.json": data}))
    assert "target h100" in contradicted(report)
    assert report.exit_code == 1


def test_evidence_signed_by_a_key_that_the_gate_did_not_trust(world: World, folder: Path) -> None:
    """Signed anew by the release's own key: whoever publishes cannot speak for the machine with the GPU."""
    path = "evidence/smoke-h100.intoto.json"
    report = judged(
        world, folder, lambda files: files.update({path: forge.resigned(files, path, world.signer, lambda _: None)})
    )
    assert {"target h100", "evidence"} <= contradicted(report)


def test_counts_of_the_bill_of_materials(world: World, folder: Path) -> None:
    path = "run/sbom.cdx.json"

    def change(files: dict[str, bytes]) -> None:
        files[path] = files[path].replace(b'"value": "debian"', b'"value": "python"')

    report = judged(world, folder, change)
    assert {"sbom", "records"} <= contradicted(report)


def test_pages_are_not_in_a_bundle(world: World) -> None:
    pages = claim(world.verify(), "documents")
    assert pages.state is State.NOT_CHECKED
    assert "3 links" in pages.why


def test_a_release_of_another_orbit_is_not_contradicted_by_newer_rules(world: World, folder: Path) -> None:
    """The audit of that day had other rules: what today's say is told, and the verdict stays."""

    def older(files: dict[str, bytes]) -> None:
        for path in ("run/audit.json", "run/image-audit.json"):
            files[path] = forge.edited_json(files[path], lambda value: value["rules"].remove("arch-coverage"))

    report = judged(world, folder, older)
    assert "audit" in contradicted(report)
    files = forge.load(folder)
    files["bundle.json"] = files["bundle.json"].replace(b'"version": "0.1.0"', b'"version": "0.0.9"')
    forge.relist(files, world.signer, lambda predicate: predicate["decision"].update(orbit_version="0.0.9"))
    forge.save(folder, files)
    again = claim(world.verify(folder), "audit")
    assert again.state is State.NOT_CHECKED
    assert "decided by orbit 0.0.9" in again.why
    assert "verify it with orbit 0.0.9" in again.fix


def test_nothing_proven_is_a_release_too_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, proven=(), waived="").make()
    world.bundle()
    report = verify_bundle(tmp_path / "bundle", world.trust(), now=DECIDED)
    assert report.verdict is Verdict.VERIFIED
    assert {target.state for target in report.targets} == {State.UNPROVEN}
    first = (tmp_path / "bundle" / "RELEASE.md").read_text().splitlines()[0]
    assert first == "# orbit/probe 0.1.0: UNPROVEN on h100 (H100, H200), b200 (B200)"
