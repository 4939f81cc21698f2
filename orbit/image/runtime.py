"""How a container of the image starts, and what the image says of itself."""

from __future__ import annotations

from pathlib import Path

from orbit import __version__
from orbit.env.record import EnvironmentRecord
from orbit.image.oci import CREATED, RunConfig
from orbit.profile.model import Profile

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_environment(profile: Profile, record: EnvironmentRecord, prefix: Path) -> dict[str, str]:
    """Variables every container starts with. What depends on the user or the GPU is set by the entry point."""
    at = profile.image.prefix
    variables = {
        "PATH": f"{at}/bin:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        # read by the NVIDIA container toolkit: which devices and which driver parts to bring in
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        # names the run-time compilers' caches: one environment, one cache
        "ORBIT_ENVIRONMENT": record.identity[:16],
    }
    if (prefix / "cuda").is_dir():
        variables["CUDA_HOME"] = f"{at}/cuda"
        variables["PATH"] = f"{at}/bin:{at}/cuda/bin:{SYSTEM_PATH}"
    variables.update({name: value.replace("{prefix}", at) for name, value in profile.image.env.items()})
    return variables


def run_config(profile: Profile, record: EnvironmentRecord, prefix: Path, labels: dict[str, str]) -> RunConfig:
    """The ``config`` of the image's configuration: any user, any folder, one small entry point."""
    variables = image_environment(profile, record, prefix)
    return RunConfig(
        env=tuple(f"{name}={value}" for name, value in sorted(variables.items())),
        entrypoint=(f"{profile.image.prefix}/bin/orbit-entrypoint",),
        cmd=("orbit", "--help"),
        working_dir="/",
        labels=labels,
    )


def image_labels(profile: Profile, record: EnvironmentRecord, *, kernels: str, inputs: str) -> dict[str, str]:
    """Labels (OCI annotation keys, and ``io.orbit.*`` for what links the image to its evidence)."""
    return {
        "org.opencontainers.image.title": profile.image.name,
        "org.opencontainers.image.description": profile.description,
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.created": CREATED,
        "io.orbit.profile": profile.name,
        "io.orbit.targets": " ".join(f"{target.name}={target.feature}" for target in profile.targets),
        "io.orbit.cuda": profile.cuda,
        "io.orbit.python": record.python,
        "io.orbit.lock": record.lock,
        "io.orbit.environment": record.identity,
        "io.orbit.kernels": kernels,
        "io.orbit.inputs": inputs,
    }
