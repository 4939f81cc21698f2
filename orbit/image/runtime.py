"""How a container of the image starts, and what the image says of itself.

The activation contract (:mod:`orbit.env.activate`) is split in two. What depends on the image alone is in its
configuration; what lies below the state folder is known only when a user starts a container, so the entry point reads
it from a script made here.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from orbit import __version__
from orbit.core.paths import data_file
from orbit.core.records import Record, content_key
from orbit.env.activate import IDENTITY_DIGITS, Variable, activation, apply, load_contract, state_folders
from orbit.errors import InputError
from orbit.image.base.definition import load_base
from orbit.image.oci import CREATED, RunConfig
from orbit.profile.model import Profile

ENVIRONMENT_LABEL, LOCK_LABEL = "io.orbit.environment", "io.orbit.lock"
REVISION_LABEL = "org.opencontainers.image.revision"
LICENSES = "Apache-2.0 AND LicenseRef-image-contents"
"""Orbit's own licence, and those of everything else in the image: hundreds, which its bill of materials names."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STATE_SCRIPT = "share/orbit/state.sh"
STATE_MARK = "/STATE-FOLDER"
SOCKETS_MARK = "/SOCKETS-FOLDER"
PREFIX_MARK = "/PREFIX-FOLDER"
IDENTITY_MARK = "0" * IDENTITY_DIGITS
MARKS = {
    f"{STATE_MARK}/cache/{IDENTITY_MARK}": "orbit_cache",
    STATE_MARK: "orbit_state",
    SOCKETS_MARK: "orbit_sockets",
    PREFIX_MARK: "orbit_prefix",
}
"""What stands in the contract for a value that only a start knows -> the entry point's variable; longest first."""


def image_environment(profile: Profile, *, has: Collection[str]) -> dict[str, str]:
    """Variables every container starts with; ``has``: the conditions of the contract that the environment meets.

    What depends on the user or the GPU is set by the entry point.
    """
    contract = activation(profile.image.prefix, state=STATE_MARK, sockets=SOCKETS_MARK, has=has)
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
    """What the entry point reads: its reports (``containers/report.sh``), then the contract as calls of its words.

    Everything is in it, also what the image's configuration has: it holds whatever the caller's environment says, and
    in an environment that is no image. Expects ``orbit_state``, ``orbit_sockets``, ``orbit_cache``, ``orbit_prefix``.
    """
    report = data_file("containers", "report.sh").read_text(encoding="ascii")
    contract = activation(PREFIX_MARK, state=STATE_MARK, sockets=SOCKETS_MARK, identity=IDENTITY_MARK)
    lines = ["", "# Made from env/activation.toml.", "orbit_drop_foreign", _folders_line(contract)]
    # the first folder of a list must be put in front last
    ordered = [v for v in contract if v.how != "prepend"] + [v for v in reversed(contract) if v.how == "prepend"]
    lines += [_guard(variable, contract) + _call(variable) for variable in ordered]
    return (report + "\n".join(lines) + "\n:\n").encode()


def _guard(variable: Variable, contract: Sequence[Variable]) -> str:
    """What keeps a call from being made: the condition is not met, or another value of the variable takes its place."""
    paths = load_contract().conditions
    if variable.needs:
        return f'[ ! -e "$orbit_prefix/{paths[variable.needs]}" ] || '
    others = [other.needs for other in contract if other.needs and (other.name, other.how) == (variable.name, "set")]
    return "".join(f'[ -e "$orbit_prefix/{paths[needs]}" ] || ' for needs in others)


def _call(variable: Variable) -> str:
    words = [f"orbit_{variable.how}", variable.name]
    if variable.how != "unset":
        words.append(_quoted(variable.value))
    return " ".join([*words, shlex.quote(variable.reason)])


def _folders_line(contract: Sequence[Variable]) -> str:
    folders = {*state_folders(contract, STATE_MARK), *state_folders(contract, SOCKETS_MARK)}
    return " ".join(["orbit_folders", *(_quoted(folder) for folder in sorted(folders))])


def _quoted(value: str) -> str:
    """``value`` in double quotes, its marks as the shell's variables. (The contract has no other special character.)"""
    for mark, name in MARKS.items():
        value = value.replace(mark, f"${{{name}}}")
    return f'"{value}"'


def _of_state(variable: Variable) -> bool:
    return STATE_MARK in variable.value or SOCKETS_MARK in variable.value


def run_config(profile: Profile, labels: dict[str, str], *, has: Collection[str]) -> RunConfig:
    """The ``config`` of the image's configuration: any user, any folder, one small entry point.

    ``has`` as of :func:`image_environment`.
    """
    variables = image_environment(profile, has=has)
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
    """Labels (OCI annotation keys, and ``io.orbit.*`` for what links the image to its evidence).

    Nothing of a machine, a clock or a repository's history: ``revision`` is the hash of Orbit's own files in the image,
    so that equal content has equal labels. Raises :class:`InputError` when the profile sets a label that is computed.
    """
    computed = _computed(profile, identity)
    if taken := sorted(computed.keys() & profile.image.labels.keys()):
        raise InputError(
            f"profile {profile.name}: [image.labels] sets {', '.join(taken)}, which Orbit computes",
            fix="leave it out; source, vendor, url and documentation are the publisher's",
        )
    return computed | profile.image.labels


def _computed(profile: Profile, identity: Identity) -> dict[str, str]:
    return {
        "org.opencontainers.image.title": profile.image.name,
        "org.opencontainers.image.description": profile.description,
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.created": CREATED,
        "org.opencontainers.image.licenses": LICENSES,
        REVISION_LABEL: identity.orbit,
        **_base_labels(profile, identity),
        "io.orbit.profile": profile.name,
        "io.orbit.targets": " ".join(f"{target.name}={target.feature}" for target in profile.targets),
        "io.orbit.cuda": profile.cuda,
        "io.orbit.python": identity.python,
        LOCK_LABEL: identity.lock,
        ENVIRONMENT_LABEL: identity.environment,
        "io.orbit.kernels": identity.kernels,
        "io.orbit.inputs": content_key(identity),
    }


def _base_labels(profile: Profile, identity: Identity) -> dict[str, str]:
    """What the image stands on: OCI's keys are for an image, and a root file system of packages is none."""
    image = load_base(profile.image.base).image
    if image:
        # a folder is a place on one machine: no name
        named = {} if image.startswith("oci:") else {"org.opencontainers.image.base.name": image.partition("@")[0]}
        return named | {"org.opencontainers.image.base.digest": f"sha256:{identity.base}"}
    return {"io.orbit.base.name": profile.image.base, "io.orbit.base": identity.base}
