"""What starts images on a node, and as whom."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.launch.site.probe import MARK, probe
from tests.launch.site.nodes import CONDOR, POD, SLURM, check_sound, node


@pytest.mark.parametrize(
    ("env", "changed", "runtime", "marked"),
    [
        (SLURM, {"pyxis": ""}, "none", True),
        (SLURM, {"pyxis": "", "programs": ("apptainer",)}, "apptainer", False),
        (SLURM, {"pyxis": "", "programs": ("enroot",)}, "pyxis", True),
        (SLURM, {"pyxis": "", "container": "enroot"}, "pyxis", False),
        (SLURM, {"pyxis": "", "container": "apptainer"}, "apptainer", False),
        (POD, {}, "containerd", False),
        (CONDOR, {"container": "docker"}, "docker", False),
        (CONDOR, {"container": "apptainer"}, "apptainer", False),
        (CONDOR, {"condor": "HasDocker = true\n"}, "docker", False),
        (CONDOR, {"condor": "HasSingularity = true\nHasDocker = true\n"}, "apptainer", False),
        (CONDOR, {"condor": "HasDocker = false\n"}, "apptainer", True),
        ({}, {"container": "podman"}, "podman", False),
        ({}, {"programs": ("docker", "podman")}, "docker", False),
        ({}, {"programs": ("podman",)}, "podman", False),
        ({}, {}, "docker", True),
    ],
)
def test_what_starts_images(env: dict[str, str], changed: dict[str, Any], runtime: str, marked: bool) -> None:
    found = probe(node(env=env, **changed))
    assert check_sound(found).image.runtime == runtime
    assert found.notes["image.runtime"].startswith(MARK) == marked


def test_an_image_file_of_everybody_is_named_by_its_folder() -> None:
    sif = {"APPTAINER_CONTAINER": "/gpfs/images/sha256-12.sif"}
    site = check_sound(probe(node(env=SLURM | sif, container="apptainer")))
    assert (site.image.form, site.image.path) == ("sif", "/gpfs/images")
    own = {"APPTAINER_CONTAINER": "/home/ann/x.sif"}
    assert check_sound(probe(node(env=SLURM | own, container="apptainer"))).image.form == "registry"


def test_a_uid_out_of_a_range_is_openshifts() -> None:
    assert check_sound(probe(node(env=POD, uid=1_000_660_000))).user.policy == "any"
