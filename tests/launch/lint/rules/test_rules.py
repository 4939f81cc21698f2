"""Every rule: what it must find, what looks like it and is right, and that its page is about it.

Modules of rules: cache_path, clear_secret, condor_request, condor_transfer, device_variable, docker_flag,
duplicate_key, entry_point, fixed_address, gpu_count, grace_period, host_network, host_path, huge_pages, image_mixed,
image_tag, job_retry, kill_by_name, locked_memory, lost_signal, memory_amount, memory_request, missing_volume,
network_interface, port_clash, pull_policy, quoted_value, ray_folder, ray_version, relative_path, shared_memory,
slurm_cpus, slurm_environment, slurm_signal, start_deadline, trainer_restart, unreadable_manifest.
"""

from __future__ import annotations

import pkgutil
import re

import pytest

from orbit.audit.reports.explain import explain, title_of
from orbit.core.findings import Finding
from orbit.launch.lint import rules
from orbit.launch.lint.known import Known
from orbit.launch.lint.rules import RULES
from orbit.launch.lint.run import lint_text
from tests.launch.lint.rules.cases import BAD, GOOD, TOKEN
from tests.launch.lint.sound import SOUND, found

LOCK = Known(ray="2.55.1")


def check_words(finding: Finding) -> None:
    """What every finding has: a place, one sentence, a next step, no control characters."""
    assert re.match(r"^[\w.]+(:\d+)?( \S|$)", finding.subject)
    assert finding.message
    assert finding.fix
    assert "\n" not in finding.message + finding.fix


@pytest.mark.parametrize(("rule", "severity", "text"), BAD, ids=[f"{i}-{case[0]}" for i, case in enumerate(BAD)])
def test_what_is_wrong_is_found(rule: str, severity: str, text: str) -> None:
    findings = found(text, rule, LOCK)
    assert severity in {finding.severity.value for finding in findings}
    for finding in findings:
        check_words(finding)


@pytest.mark.parametrize(("rule", "text"), GOOD, ids=[f"{i}-{case[0]}" for i, case in enumerate(GOOD)])
def test_what_looks_like_it_is_right(rule: str, text: str) -> None:
    assert found(text, rule, LOCK) == []


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_manifests_are_clean(name: str) -> None:
    assert lint_text(SOUND[name], name, known=LOCK) == ()


def test_every_rule_has_both() -> None:
    assert {case[0] for case in BAD} == set(RULES)
    assert {case[0] for case in GOOD} == set(RULES)


def test_every_module_is_a_rule() -> None:
    modules = {module.name for module in pkgutil.iter_modules(rules.__path__)}
    assert modules == {rule.replace("-", "_") for rule in RULES}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_page_begins_with_what_the_rule_wants(rule: str) -> None:
    assert title_of(rule) == RULES[rule].title
    page = explain(rule)
    assert page.startswith(rule)
    assert "How to fix" in page


@pytest.mark.parametrize("text", [case[2] for case in BAD if case[0] == "clear-secret"])
def test_no_finding_repeats_a_secret(text: str) -> None:
    name = "run.sh" if text.startswith("#!") else "job.yaml"
    findings = lint_text(text, name)
    assert findings
    for finding in findings:
        said = "\n".join((finding.subject, finding.message, finding.fix, *finding.evidence.values()))
        assert TOKEN not in said
        assert "0123456789abcdef" not in said
        assert "hunter22" not in said


def test_no_other_rule_repeats_a_secret() -> None:
    (finding,) = found(f"#!/bin/sh\ndocker run --gpus 2 --ipc=host repo/{TOKEN}:1 x\n", "image-tag")
    assert TOKEN not in finding.evidence["image"]
    (finding,) = found("#!/bin/sh\ndocker run -e MASTER_ADDR=10.0.0.1 -e DB_PASSWORD=10.0.0.1 x\n", "fixed-address")
    assert finding.evidence["value"] == "..."
