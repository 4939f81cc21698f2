"""What a container starts with: the activation contract split between configuration and entry point."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from orbit.env.activate import activation
from orbit.image.runtime import STATE_MARK, Identity, image_environment, image_labels, run_config, state_script
from tests.image.world import PROFILE

IDENTITY = Identity(lock="l", environment="e", python="3.12.1", kernels="k", base="b", orbit="o")


def test_every_variable_of_the_contract_is_in_the_image_and_what_must_be_so_is_set_again() -> None:
    """``docker exec`` and other ways around the entry point see the first half; the second cannot be argued with."""
    variables = image_environment(PROFILE, cuda=True)
    script = state_script().decode()
    for variable in activation("/opt/orbit", state="/s"):
        in_script = f" {variable.name}=" in script or f"unset {variable.name}\n" in script
        assert variable.name in variables or in_script, variable.name
        if variable.how in ("set", "unset"):
            assert in_script, variable.name
    assert STATE_MARK not in script
    assert not any(STATE_MARK in value for value in variables.values())


def test_programs_of_the_environment_come_first_and_cuda_only_where_it_is() -> None:
    with_cuda, without = image_environment(PROFILE, cuda=True), image_environment(PROFILE, cuda=False)
    assert with_cuda["PATH"].split(":")[:2] == ["/opt/orbit/bin", "/opt/orbit/cuda/bin"]
    assert with_cuda["CUDA_HOME"] == "/opt/orbit/cuda"
    assert without["PATH"].startswith("/opt/orbit/bin:/usr/local/sbin")
    assert "CUDA_HOME" not in without
    assert with_cuda["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_a_profile_may_add_variables() -> None:
    image = msgspec.structs.replace(PROFILE.image, env={"EXTRA": "{prefix}/x"})
    profile = msgspec.structs.replace(PROFILE, image=image)
    assert image_environment(profile, cuda=False)["EXTRA"] == "/opt/orbit/x"


def test_the_script_makes_every_folder_it_names(tmp_path: Path) -> None:
    script = tmp_path / "state.sh"
    script.write_bytes(state_script())
    state = tmp_path / "a state"
    program = (
        f'orbit_prefix=/opt/orbit; ORBIT_STATE="{state}"; orbit_cache="$ORBIT_STATE/cache/id/gpu"; . "{script}"; env'
    )
    env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/x", "PYTHONPATH": "/y", "XDG_CACHE_HOME": "/mine"}
    done = subprocess.run(["sh", "-euc", program], env=env, capture_output=True, text=True, check=True)
    after = dict(line.split("=", 1) for line in done.stdout.splitlines())
    below = [value for value in after.values() if value.startswith(f"{state}/")]
    assert len(below) > 8
    assert all(Path(value).is_dir() for value in below)
    assert after["TRITON_CACHE_DIR"] == f"{state}/cache/id/gpu/triton"
    assert after["XDG_CACHE_HOME"] == "/mine"
    assert "PYTHONPATH" not in after
    assert after["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert "CUDA_HOME" not in after


def test_labels_name_everything_the_image_is_made_from() -> None:
    labels = image_labels(PROFILE, IDENTITY)
    assert labels["io.orbit.lock"] == "l"
    assert labels["io.orbit.kernels"] == "k"
    for field in ("lock", "environment", "kernels", "base", "orbit"):
        other = image_labels(PROFILE, msgspec.structs.replace(IDENTITY, **{field: "changed"}))
        assert other["io.orbit.inputs"] != labels["io.orbit.inputs"], field


def test_any_user_any_folder_and_one_entry_point() -> None:
    run = run_config(PROFILE, {}, cuda=False)
    assert run.user == ""
    assert run.working_dir == "/"
    assert run.entrypoint == ("/opt/orbit/bin/orbit-entrypoint",)
    assert list(run.env) == sorted(run.env)


def test_an_environment_with_a_compiler_points_at_its_own_toolkit_whatever_the_caller_says(tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()
    script = tmp_path / "state.sh"
    script.write_bytes(state_script())
    program = f'orbit_prefix="{tmp_path}"; ORBIT_STATE="{tmp_path}/s"; orbit_cache="{tmp_path}/c"; . "{script}"; env'
    env = {"PATH": "/usr/bin:/bin", "CUDA_HOME": "/usr/local/cuda", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}
    done = subprocess.run(["sh", "-euc", program], env=env, capture_output=True, text=True, check=True)
    after = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert after["CUDA_HOME"] == f"{tmp_path}/cuda"
    assert after["LD_LIBRARY_PATH"] == f"{tmp_path}/cuda/lib64:/usr/local/nvidia/lib64"
