"""How a container of the image starts, and what the image says of itself.

The activation contract (:mod:`orbit.env.activate`) is split in two. What depends on the image alone is in its
configuration; what lies below the state folder is known only when a user starts a container, so the entry point reads
it from a script made here.
"""

from __future__ import annotations

from orbit import __version__
from orbit.core.records import Record, content_key
from orbit.env.activate import IDENTITY_DIGITS, Variable, activation, apply, render
from orbit.image.oci import CREATED, RunConfig
from orbit.profile.model import Profile

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STATE_SCRIPT = "share/orbit/state.sh"
STATE_MARK = "/STATE-FOLDER"
PREFIX_MARK = "/PREFIX-FOLDER"
IDENTITY_MARK = "0" * IDENTITY_DIGITS


def image_environment(profile: Profile, *, cuda: bool) -> dict[str, str]:
    """Variables every container starts with; ``cuda``: whether the environment has a CUDA compiler.

    What depends on the user or the GPU is set by the entry point.
    """
    contract = activation(profile.image.prefix, state=STATE_MARK, cuda=cuda)
    fixed = [variable for variable in contract if not _of_state(variable)]
    variables = apply(fixed, {"PATH": SYSTEM_PATH})
    variables |= {
        "LANG": "C.UTF-8",
        # read by the NVIDIA container toolkit: which devices and which driver parts to bring in
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    return variables | {
        name: value.replace("{prefix}", profile.image.prefix) for name, value in profile.image.env.items()
    }


def state_script() -> bytes:
    """The contract for ``sh``, run by the entry point: everything below the state folder, and everything that must be
    so whatever the caller's environment says. Expects ``ORBIT_STATE``, ``orbit_cache`` and ``orbit_prefix``.
    """
    contract = activation(PREFIX_MARK, state=STATE_MARK, identity=IDENTITY_MARK)
    chosen = [variable for variable in contract if variable.how in ("set", "unset") or _of_state(variable)]
    always = render([variable for variable in chosen if not variable.needs], STATE_MARK, "sh")
    cuda = render([variable for variable in chosen if variable.needs], STATE_MARK, "sh")
    text = f'{always}if [ -d "$orbit_prefix/cuda" ]; then\n{cuda}fi\n'
    text = text.replace(f"{STATE_MARK}/cache/{IDENTITY_MARK}", '"$orbit_cache"').replace(STATE_MARK, '"$ORBIT_STATE"')
    text = text.replace(PREFIX_MARK, '"$orbit_prefix"')
    return f"# Made from env/activation.toml; read by orbit-entrypoint.\n{text}".encode()


def _of_state(variable: Variable) -> bool:
    return STATE_MARK in variable.value


def run_config(profile: Profile, labels: dict[str, str], *, cuda: bool) -> RunConfig:
    """The ``config`` of the image's configuration: any user, any folder, one small entry point."""
    variables = image_environment(profile, cuda=cuda)
    return RunConfig(
        env=tuple(f"{name}={value}" for name, value in sorted(variables.items())),
        entrypoint=(f"{profile.image.prefix}/bin/orbit-entrypoint",),
        cmd=("orbit", "--help"),
        working_dir="/",
        labels=labels,
    )


class Identity(Record, frozen=True, kw_only=True):
    """What an image is made from, by hash."""

    lock: str
    """sha256 of uv.lock."""
    environment: str
    """Content key of the environment."""
    python: str
    """Version of the interpreter."""
    kernels: str
    """Hash over all kernel build manifests."""
    base: str
    """sha256 of the root file system."""
    orbit: str
    """Key of Orbit's own layer."""


def image_labels(profile: Profile, identity: Identity) -> dict[str, str]:
    """Labels (OCI annotation keys, and ``io.orbit.*`` for what links the image to its evidence)."""
    return {
        "org.opencontainers.image.title": profile.image.name,
        "org.opencontainers.image.description": profile.description,
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.created": CREATED,
        "io.orbit.profile": profile.name,
        "io.orbit.targets": " ".join(f"{target.name}={target.feature}" for target in profile.targets),
        "io.orbit.cuda": profile.cuda,
        "io.orbit.python": identity.python,
        "io.orbit.lock": identity.lock,
        "io.orbit.environment": identity.environment,
        "io.orbit.kernels": identity.kernels,
        "io.orbit.inputs": content_key(identity),
    }
