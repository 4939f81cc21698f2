"""What a container starts with: the activation contract split between configuration and entry point."""

from __future__ import annotations

import shlex

import msgspec
import pytest
from packaging.licenses import canonicalize_license_expression

from orbit.env.activate import activation
from orbit.errors import InputError
from orbit.image import runtime
from orbit.image.base.definition import BaseDefinition
from orbit.image.runtime import STATE_MARK, Identity, image_environment, image_labels, run_config, state_script
from orbit.profile.model import Profile
from tests.image.world import PROFILE

IDENTITY = Identity(lock="l", environment="e", python="3.12.1", kernels="k", base="b", orbit="o")


def test_every_variable_of_the_contract_is_in_the_image_and_what_must_be_so_is_set_again() -> None:
    """``docker exec`` and other ways around the entry point see the first half; the second cannot be argued with."""
    variables = image_environment(PROFILE, has={"cuda", "nvcc"})
    script = state_script().decode()
    for variable in activation("/opt/orbit", state="/s"):
        in_script = f"orbit_{variable.how} {variable.name} " in script
        assert variable.name in variables or in_script, variable.name
        if variable.how in ("set", "unset"):
            assert in_script, variable.name
    assert STATE_MARK not in script
    assert not any(STATE_MARK in value for value in variables.values())


def test_programs_of_the_environment_come_first_and_cuda_only_where_it_is() -> None:
    with_cuda, without = (image_environment(PROFILE, has=has) for has in ({"cuda"}, ()))
    assert with_cuda["PATH"].split(":")[:2] == ["/opt/orbit/bin", "/opt/orbit/cuda/bin"]
    assert with_cuda["CUDA_HOME"] == "/opt/orbit/cuda"
    assert without["PATH"].startswith("/opt/orbit/bin:/usr/local/sbin")
    assert "CUDA_HOME" not in without
    assert "FLASHINFER_NVCC" not in with_cuda
    assert image_environment(PROFILE, has={"cuda", "nvcc"})["FLASHINFER_NVCC"] == "/opt/orbit/cuda/bin/nvcc"
    assert with_cuda["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_a_profile_may_add_variables() -> None:
    image = msgspec.structs.replace(PROFILE.image, env={"EXTRA": "{prefix}/x"})
    profile = msgspec.structs.replace(PROFILE, image=image)
    assert image_environment(profile, has=())["EXTRA"] == "/opt/orbit/x"


def test_the_script_is_the_contract_in_the_entry_points_words() -> None:
    """What its words do is shown in tests/image/entry."""
    script = state_script().decode()
    calls = [line for line in script.splitlines() if line.startswith(("orbit_set ", "orbit_default ", "orbit_unset "))]
    assert len(calls) > 30
    assert "-FOLDER" not in script
    assert '"0000' not in script
    for variable in activation("${orbit_prefix}", state="${orbit_state}", sockets="${orbit_sockets}"):
        assert f"orbit_{variable.how} {variable.name} " in script, variable.name
        assert shlex.quote(variable.reason) in script, variable.name


def test_the_front_of_a_list_is_put_there_last() -> None:
    lines = [line for line in state_script().decode().splitlines() if "orbit_prepend PATH" in line]
    assert ["cuda" in line for line in lines] == [True, False]


def test_labels_name_everything_the_image_is_made_from() -> None:
    labels = image_labels(PROFILE, IDENTITY)
    assert labels["io.orbit.lock"] == "l"
    assert labels["io.orbit.kernels"] == "k"
    for field in ("lock", "environment", "kernels", "base", "orbit"):
        other = image_labels(PROFILE, msgspec.structs.replace(IDENTITY, **{field: "changed"}))
        assert other["io.orbit.inputs"] != labels["io.orbit.inputs"], field


def test_labels_are_those_of_the_oci_specification_and_of_no_machine() -> None:
    labels = image_labels(PROFILE, IDENTITY)
    lead = "org.opencontainers.image."
    assert {key.removeprefix(lead) for key in labels if key.startswith(lead)} == {
        "title", "description", "version", "created", "licenses", "revision",
    }  # fmt: skip
    assert str(canonicalize_license_expression(labels[f"{lead}licenses"])) == labels[f"{lead}licenses"]
    assert labels[f"{lead}licenses"] != "Apache-2.0"
    assert labels[f"{lead}revision"] == IDENTITY.orbit
    assert labels["io.orbit.base"] == IDENTITY.base


def test_a_base_that_is_an_image_is_named_with_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = f"registry.example/debian:12@sha256:{'d' * 64}"
    monkeypatch.setattr(runtime, "load_base", lambda _name: BaseDefinition(schema=2, image=pinned))
    labels = image_labels(PROFILE, msgspec.structs.replace(IDENTITY, base="d" * 64))
    assert labels["org.opencontainers.image.base.name"] == "registry.example/debian:12"
    assert labels["org.opencontainers.image.base.digest"] == f"sha256:{'d' * 64}"
    assert "io.orbit.base" not in labels
    monkeypatch.setattr(
        runtime, "load_base", lambda _name: BaseDefinition(schema=2, image=f"oci:/some/folder@{pinned}")
    )
    assert "org.opencontainers.image.base.name" not in image_labels(PROFILE, IDENTITY)


def test_the_publisher_adds_labels_and_replaces_none() -> None:
    def profile(**labels: str) -> Profile:
        named = {f"org.opencontainers.image.{key}": value for key, value in labels.items()}
        return msgspec.structs.replace(PROFILE, image=msgspec.structs.replace(PROFILE.image, labels=named))

    found = image_labels(profile(vendor="somebody", source="https://example.org/x"), IDENTITY)
    assert found["org.opencontainers.image.vendor"] == "somebody"
    with pytest.raises(InputError, match="created, which Orbit computes"):
        image_labels(profile(created="now"), IDENTITY)


def test_any_user_any_folder_and_one_entry_point() -> None:
    run = run_config(PROFILE, {}, has=())
    assert run.user == ""
    assert run.working_dir == "/"
    assert run.entrypoint == ("/opt/orbit/bin/orbit-entrypoint",)
    assert list(run.env) == sorted(run.env)
