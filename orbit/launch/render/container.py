"""A container of a docker or podman engine, decided once for docker run and compose (why: docs/launch-docker.md)."""

from __future__ import annotations

import dataclasses

from orbit.errors import InputError
from orbit.launch.plan import OWNER_VARIABLE, LaunchPlan
from orbit.launch.render.words import (
    LABEL_IDENTITY,
    LABEL_IMAGE,
    LABEL_JOB,
    OWNER_FILE,
    STATE_VARIABLE,
    environment,
    uses_rdma,
)

STATE_VOLUME = "/var/tmp"  # noqa: S108 - a folder of the container
"""Where the engine's own disk is mounted when the site names no scratch disk: in every image, writable by anybody."""
TMPFS = "/tmp:exec,mode=1777,size=4g"  # noqa: S108 - a folder of the container
"""docker's default is noexec, and what is compiled at run time is loaded from there. State lies elsewhere."""
SOFT_FILES = 65536
INFINIBAND = "/dev/infiniband"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What an engine is told of one container, beside image, command, GPUs and mounts."""

    network: str
    """``host`` or ``bridge``."""
    cap_drop: tuple[str, ...]
    cap_add: tuple[str, ...]
    ulimits: dict[str, tuple[int, int]]
    """Soft and hard."""
    user: str
    """``caller``, ``uid:gid``, or empty: as the image says."""
    state_volume: bool
    """Whether a volume of the engine is the scratch disk."""
    rdma: str
    """``none``, ``wanted`` (if it is there) or ``required``."""
    environment: dict[str, str]
    labels: dict[str, str]


def container_of(plan: LaunchPlan, *, owner: bool, near: tuple[str, ...] = ()) -> Container:
    """The container of ``plan``. ``owner``: whether the owner token is mounted; ``near``: see :func:`environment`.

    Raises :class:`InputError` when the site's runtime is no such engine.
    """
    site, job = plan.site, plan.job
    if site.image.runtime not in ("docker", "podman") or site.image.form != "registry":
        raise InputError(
            f"site {site.name}: image.runtime = {site.image.runtime!r} with image.form = {site.image.form!r} is "
            "nothing a docker or podman engine starts",
            fix="image.runtime = 'docker' or 'podman', image.form = 'registry'",
        )
    hard = site.limits.nofile
    limits = {"nofile": (min(SOFT_FILES, hard), hard)}
    if site.limits.memlock == "unlimited":
        limits["memlock"] = (-1, -1)
    own = {} if site.storage.scratch else {STATE_VARIABLE: f"{STATE_VOLUME}/orbit"}
    token = {OWNER_VARIABLE: OWNER_FILE} if owner else {}
    fixed = f"{site.user.uid}:{site.user.gid}"
    return Container(
        network="host" if site.network.host_network else "bridge",
        cap_drop=("ALL",) if site.user.policy in ("caller", "fixed") else (),
        cap_add=("SYS_PTRACE",) if job.gpus_per_node and site.limits.pidfd_getfd else (),
        ulimits=limits,
        user={"caller": "caller", "fixed": fixed}.get(site.user.policy, ""),
        state_volume=not site.storage.scratch,
        rdma=("required" if "required" in (site.network.rdma, job.rdma) else "wanted") if uses_rdma(plan) else "none",
        environment={**own, **environment(plan, near), **token},
        labels={LABEL_JOB: plan.name, LABEL_IDENTITY: plan.identity, LABEL_IMAGE: job.digest},
    )
