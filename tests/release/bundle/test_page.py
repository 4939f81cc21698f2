"""RELEASE.md: everything a person has to know stands on it, and it is Markdown whatever names are in the image."""

from __future__ import annotations

import re

import msgspec
import pytest

from orbit.core.findings import Skipped
from orbit.errors import InputError
from orbit.release.bundle.model import Index, parse_index
from orbit.release.bundle.page import render_page
from orbit.release.gate.decide import Decision
from tests.release.bundle import forge
from tests.release.bundle.world import World


@pytest.fixture(scope="module")
def files(world: World) -> dict[str, bytes]:
    """A bundle's."""
    return forge.load(world.place / "bundle")


@pytest.fixture(scope="module")
def index(files: dict[str, bytes]) -> Index:
    """Its index."""
    return parse_index(files["bundle.json"], "bundle.json")


@pytest.fixture(scope="module")
def decision(world: World) -> Decision:
    """The decision it stands on."""
    return world.decision()


def page(index: Index, decision: Decision, files: dict[str, bytes]) -> str:
    return render_page(index, decision, files).decode()


def section(text: str, title: str) -> str:
    found = re.search(rf"^## {title}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[0]


def test_it_is_the_page_of_the_bundle(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    assert render_page(index, decision, files) == files["RELEASE.md"]


def test_what_it_is_and_how_to_get_it(world: World, files: dict[str, bytes], index: Index, decision: Decision) -> None:
    text = page(index, decision, files)
    assert f"Image `orbit/probe@{world.digest}`" in text
    assert f"made from commit `{'ab' * 20}`" in text
    assert f"docker pull REGISTRY/orbit/probe@{world.digest}" in section(text, "Pull it")
    assert "sha256sum -c SHA256SUMS" in section(text, "Verify it")
    assert "orbit gate verify . --key ../PUBLISHER.pub" in section(text, "Verify it")
    assert "`keys/lab.pub`" in section(text, "Verify it")


def test_every_judgement_stands_on_it(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    table = section(page(index, decision, files), "What was checked")
    assert table.count("\n|") == len(decision.judgements) + 2
    for item in decision.judgements:
        assert f"| {item.requirement} | {item.mark.value} |" in table
    assert "`evidence/smoke-h100.intoto.json`" in table
    assert "`run/audit.json`" in table


def test_deviations_waivers_and_licences(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    text = page(index, decision, files)
    assert "`x/_hopper.so`: no code for b200. _blackwell.so serves it" in section(text, r"Known deviations \(1\)")
    assert "| nothing imports it | 2027-03-01 |" in section(text, r"Waivers \(1\)")
    licences = section(text, r"Licences unknown \(1 of 2\)")
    assert "- Debian packages, nothing in it says one: libc6 2.36-9" in licences


def test_what_is_not_proven_has_a_section(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    def more(value: forge.Plain) -> None:
        value["stages"][1]["skipped"] = [{"what": "flash-attn", "reason": "tier extended", "estimate": ""}]

    left_out = {**files, "run/summary.json": forge.edited_json(files["run/summary.json"], more)}
    text = section(page(index, decision, left_out), "What was not proven")
    assert "- **b200** (B200): nobody signed that it ran on B200" in text
    assert "- kernels: flash-attn: tier extended" in text


def test_a_waiver_of_the_gate_is_a_waiver(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    def more(value: forge.Plain) -> None:
        value["stages"][1]["skipped"] = [msgspec.to_builtins(Skipped(what="flash-attn", reason="tier extended"))]

    left_out = {**files, "run/summary.json": forge.edited_json(files["run/summary.json"], more)}
    other = msgspec.structs.replace(decision, profile="cu130")
    text = section(page(index, other, left_out), r"Waivers \(2\)")
    assert "| kernels: left out: flash-attn |" in text
    assert "| 2027-06-30 |" in text


def test_rules_that_an_audit_leaves_to_a_deeper_one_are_told(
    files: dict[str, bytes], index: Index, decision: Decision
) -> None:
    """What could have been judged and was not is a waiver, and not proven; what is about other targets is neither."""

    def skip(value: forge.Plain) -> None:
        value["skipped"] = [
            {"what": "device-code", "reason": "reads the kernels themselves: --deep", "estimate": ""},
            {"what": "kernel-stub", "reason": "reads the kernels themselves: --deep", "estimate": ""},
            {"what": "wheel-archive", "reason": "says nothing about environment", "estimate": ""},
        ]

    skipped = {**files, "run/audit.json": forge.edited_json(files["run/audit.json"], skip)}
    text = page(index, decision, skipped)
    assert "| audit: left out: device-code, kernel-stub |" in section(text, r"Waivers \(3\)")
    assert "- audit: device-code, kernel-stub: reads the kernels themselves: --deep" in section(
        text, "What was not pro"
    )
    assert "wheel-archive" not in text


def test_names_that_would_break_a_table_do_not(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    first = msgspec.structs.replace(decision.judgements[0], reason="a | b\n\n# c `d`")
    odd = msgspec.structs.replace(decision, judgements=(first, *decision.judgements[1:]))
    text = page(index, odd, files)
    rows = [line for line in section(text, "What was checked").splitlines() if line.startswith("|")]
    assert len(rows) == len(decision.judgements) + 2
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert "\n# c" not in text


def test_every_file_is_accounted_for(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    table = section(page(index, decision, files), "Files of this bundle")
    counts = [int(found) for found in re.findall(r"\| (\d+) \| [\d.,]+ ?[kMG]?B \|", table)]
    assert sum(counts) == len(index.files) - 1  # without the page itself


def test_a_file_that_cannot_be_read_ends_it(files: dict[str, bytes], index: Index, decision: Decision) -> None:
    for path in ("run/audit.json", "run/sbom.cdx.json", "gpu-arch-coverage.intoto.json", "definition/gate.toml"):
        with pytest.raises(InputError, match=path.replace(".", r"\.")):
            page(index, decision, {**files, path: b"{["})
