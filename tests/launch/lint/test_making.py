"""Subjects and amounts of findings."""

from __future__ import annotations

from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import WARNING, finding_at, is_own, memory_limit, size, who, working
from orbit.launch.lint.read.manifest import read_manifest
from tests.launch.lint.sound import DIGEST, DOCKER, JOB, changed


def test_a_subject_is_a_place_and_a_name() -> None:
    manifest = Manifest(file="a.yaml", form="kubernetes")
    finding = finding_at("x-y", WARNING, manifest, 7, "Job/train", "wrong", "mend it", seen_there="1", other="")
    assert finding.subject == "a.yaml:7 Job/train"
    assert finding.evidence == {"seen there": "1"}
    assert finding_at("x-y", WARNING, manifest, 0, "", "wrong", "mend it").subject == "a.yaml"


def test_names_of_places() -> None:
    ((workload, pod, container),) = read_manifest(JOB.encode(), "a.yaml").seats()
    assert who(workload) == "Job/train"
    assert who(workload, pod) == "Job/train pod"
    assert who(workload, pod, container) == "Job/train pod/trainer"
    ((workload, pod, container),) = read_manifest(DOCKER.encode(), "a.sh").seats()
    assert who(workload, pod, container) == "docker run/container"


def test_memory_by_the_reader_of_the_form() -> None:
    job = read_manifest(JOB.encode(), "a.yaml")
    ((_, _, container),) = job.seats()
    assert memory_limit(job, container) == memory_limit(job, container, "requests") == 64 * 2**30
    script = read_manifest(DOCKER.encode(), "a.sh")
    ((_, _, container),) = script.seats()
    assert memory_limit(script, container) == 64 * 2**30
    assert memory_limit(script, container, "requests") is None


def test_sizes_for_people() -> None:
    assert [size(value) for value in (2**34, 1.5 * 2**40, 2**26, 10**10)] == ["16 GiB", "1.5 TiB", "64 MiB", "10.00 GB"]


def test_who_works() -> None:
    text = changed(JOB, ("      containers:", "      initContainers:\n      - {name: i, image: x}\n      containers:"))
    assert [item.name for _, _, item in working(read_manifest(text.encode(), "a.yaml"))] == ["trainer"]


def test_whose_an_image_is() -> None:
    assert is_own(Known(), "a/orbit:1")
    assert not is_own(Known(), "a/b:1")
    assert is_own(Known(image=DIGEST), f"a/b@{DIGEST}")
    assert not is_own(Known(image=DIGEST), "a/orbit:1")
