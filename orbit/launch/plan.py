"""A job on a site: everything a scheduler has to be told, decided once and the same for all four.

Renderers only spell it; they decide nothing.
"""

from __future__ import annotations

import hashlib

from orbit.core.records import Record, content_key
from orbit.errors import InputError
from orbit.launch.job import Job
from orbit.launch.site.model import Mount, Site

ENTRYPOINT = "/opt/orbit/bin/orbit-entrypoint"
OWNER_VARIABLE = "ORBIT_OWNER_FILE"
"""Names the file with the owner token of a job: 64 hexadecimal digits, mode 0600, made anew for each submission."""
PORTS = range(21000, 29000)
"""Below what Linux gives out by itself (32768) and above what services use."""
CANDIDATES = 8


class LaunchPlan(Record, frozen=True, kw_only=True):
    """What becomes of a job on a site."""

    job: Job
    site: Site
    identity: str
    """sha256 of job and site: two submissions of the same have the same."""
    image: str
    """``repository@sha256:...``, or a path on the node (an image file, an archive, an environment)."""
    cpus: int
    """Of one node."""
    memory_gib: int
    """Of one node."""
    shm_gib: int
    environment: dict[str, str]
    """Site and job together, without secrets."""
    mounts: tuple[Mount, ...]
    ports: tuple[int, ...]
    """Where nodes meet: the first node takes the first one that is free, the others try them in this order."""

    @property
    def name(self) -> str:
        """Of the job, as schedulers show it."""
        return self.job.name


def make_plan(job: Job, site: Site) -> LaunchPlan:
    """Put ``job`` on ``site``. Raises :class:`InputError` for what the site does not have."""
    _fits(job, site)
    identity = content_key({"job": job, "site": site})
    memory = job.memory_gib or site.nodes.memory_gib
    return LaunchPlan(
        job=job,
        site=site,
        identity=identity,
        image=_image(job, site),
        cpus=job.cpus_per_node or site.nodes.cpus,
        memory_gib=memory,
        # what a site gives to whole nodes is more than a small job may have: its pages count as the job's memory
        shm_gib=min(site.limits.shm_gib or job.shm_gib, max(job.shm_gib, memory // 2)),
        environment={**site.environment, **job.environment},
        mounts=(*site.storage.mounts, *job.mounts),
        ports=meeting_ports(identity),
    )


def meeting_ports(seed: str) -> tuple[int, ...]:
    """:data:`CANDIDATES` different ports out of :data:`PORTS`, the same for the same ``seed`` (a job's identity)."""
    found: list[int] = []
    for number in range(256):
        digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
        port = PORTS[int.from_bytes(digest[:4]) % len(PORTS)]
        if port not in found:
            found.append(port)
        if len(found) == CANDIDATES:
            break
    return tuple(found)


def _image(job: Job, site: Site) -> str:
    source = site.image
    if source.form != "registry":
        if not source.path:
            raise InputError(
                f"site {site.name}: image.form = {source.form!r} without image.path", fix="name the folder"
            )
        if source.form == "prefix":
            return source.path.rstrip("/")
        ending = "tar.zst" if source.form == "archive" else source.form
        return f"{source.path.rstrip('/')}/{job.digest.replace(':', '-')}.{ending}"
    if "@" in job.image:
        return job.image
    if not source.repository:
        raise InputError(
            f"launch.image = {job.image} names no repository, and site {site.name} has none either",
            fix="write repository@sha256:... in the recipe, or image.repository in the site file",
        )
    return f"{source.repository}@{job.image}"


def _fits(job: Job, site: Site) -> None:
    """Raise for the first thing that is asked for and not there."""
    asked = (
        ("nodes", job.nodes, site.nodes.most, "nodes.most"),
        ("gpus_per_node", job.gpus_per_node, site.nodes.gpus, "nodes.gpus"),
        ("cpus_per_node", job.cpus_per_node, site.nodes.cpus, "nodes.cpus"),
        ("memory_gib", job.memory_gib, site.nodes.memory_gib, "nodes.memory_gib"),
        ("shm_gib", job.shm_gib, job.memory_gib or site.nodes.memory_gib, "nodes.memory_gib"),
        ("shm_gib", job.shm_gib, site.limits.shm_gib or job.shm_gib, "limits.shm_gib"),
        ("scratch_gib", job.scratch_gib, site.storage.scratch_gib or job.scratch_gib, "storage.scratch_gib"),
    )
    for key, wanted, there, where in asked:
        if wanted > there:
            raise InputError(
                f"launch.{key} = {wanted}, and site {site.name} has {where} = {there}",
                fix=f"ask for at most {there}, or name another site",
            )
    if job.rdma == "required" and site.network.rdma == "none":
        raise InputError(
            f"launch.rdma = 'required', and site {site.name} has network.rdma = 'none'", fix="name a site with RDMA"
        )
