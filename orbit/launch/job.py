"""A job: the table ``[launch]`` of a recipe. What shall run, on how many GPUs; nothing of the cluster it runs on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from orbit.core.files import read_file
from orbit.core.records import MAX_BYTES, Record, convert, parse_toml
from orbit.errors import InputError
from orbit.launch.site.model import Mount, Wanted

SCHEMA = 1
NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")
"""A DNS label (RFC 1123) with room for what schedulers append to it within 63 characters."""
DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")
VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")
IMAGE = re.compile(r"^(?:[a-z0-9]+(?:[._:/-][a-zA-Z0-9_.-]+)*@)?sha256:[0-9a-f]{64}$")

type Positive = Annotated[int, msgspec.Meta(ge=1)]


class Parallel(Record, frozen=True, kw_only=True):
    """How a model is laid over GPUs; their product divides the GPUs of the job."""

    tensor: Positive = 1
    pipeline: Positive = 1
    context: Positive = 1

    @property
    def size(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.pipeline * self.context


class Job(Record, frozen=True, kw_only=True):
    """One job."""

    name: str
    image: str
    """By digest: ``repository@sha256:...``, or ``sha256:...`` alone where the site names the repository. No tags."""
    command: tuple[str, ...]
    """Run once, on the first node, when every node is ready. Its exit status is the job's."""
    folder: str = ""
    """Working folder of the command, absolute, in the container. Empty: ``/``, and no word may be a relative path."""
    nodes: Positive = 1
    gpus_per_node: Annotated[int, msgspec.Meta(ge=0)] = 0
    """0: a job without GPUs."""
    cpus_per_node: Annotated[int, msgspec.Meta(ge=0)] = 0
    """0: all the site has to give."""
    memory_gib: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Of one node; 0: all the site has to give."""
    shm_gib: Positive = 16
    """Size of /dev/shm that is needed (NCCL, Ray's object store)."""
    scratch_gib: Annotated[int, msgspec.Meta(ge=0)] = 20
    """Free room that is needed in the state folder."""
    minutes: Positive = 60
    """Time limit."""
    ray: bool = True
    """Whether a Ray cluster of all nodes is up before the command starts. Without it, one node only."""
    unfit: Literal["stop", "leave-out"] = "stop"
    """What becomes of a node that fails its checks: the job ends with the reason, or goes on without it."""
    least_nodes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """With ``leave-out``: fit nodes that are enough; 0: all."""
    late_minutes: Positive = 15
    """How long the first node waits for the others (image pulls count)."""
    grace_seconds: Annotated[int, msgspec.Meta(ge=5)] = 60
    """From the scheduler's SIGTERM to its SIGKILL: what the command has to save its state."""
    rdma: Wanted = "wanted"
    dashboard: bool = False
    """Whether Ray's dashboard runs, on localhost of the first node."""
    ray_version: str = ""
    """Of the ray in the image, for KubeRay alone. Empty: what the locks of all profiles of this checkout say."""
    burn_in: bool = False
    """Whether GPUs are loaded for a minute before the command starts."""
    parallel: Parallel = Parallel()
    environment: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    """Names of variables whose values the submitting shell has; never written in clear text into what is rendered."""
    mounts: tuple[Mount, ...] = ()
    """Beside those of the site."""

    @property
    def digest(self) -> str:
        """``sha256:...`` of the image."""
        return self.image.rpartition("@")[2]

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.nodes * self.gpus_per_node


def load_job(path: Path) -> Job:
    """The ``[launch]`` table of the recipe at ``path``. Raises :class:`InputError` with file, key and the fix.

    Other tables of a recipe are its training part and are not read here.
    """
    try:
        data = parse_toml(read_file(path, MAX_BYTES), path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such recipe", fix="docs/launch.md shows one") from None
    if data.get("schema") != SCHEMA:
        raise InputError(
            f"{path}: schema = {data.get('schema')!r}", fix=f"this version of orbit reads schema = {SCHEMA}"
        )
    if not isinstance(data.get("launch"), dict):
        raise InputError(f"{path}: no table [launch]", fix="add [launch] with name, image and command")
    job = convert(data["launch"], Job, f"{path}: launch")
    problem = next(iter(problems(job)), None)
    if problem:
        raise InputError(f"{path}: launch: {problem[0]}", fix=problem[1])
    return job


def problems(job: Job) -> list[tuple[str, str]]:
    """What contradicts itself in ``job``: what and where, and what to do."""
    return [*_what_runs(job), *_how_many(job), *_variables(job)]


def _what_runs(job: Job) -> Iterator[tuple[str, str]]:
    if not NAME.match(job.name):
        yield f"name = {job.name!r}", "at most 40 of a-z, 0-9 and '-', beginning and ending with none of '-'"
    if not IMAGE.match(job.image):
        fix = "write repository@sha256:...; a tag may be another image tomorrow"
        yield f"image = {job.image!r} is not a digest", fix
    if not job.command or not all(job.command):
        yield "command is empty or has an empty word", 'write command = ["python3.12", "train.py"]'
    if job.folder and not job.folder.startswith("/"):
        yield f"folder = {job.folder!r} is not absolute", "name a folder of the container: /data/demo"


def _how_many(job: Job) -> Iterator[tuple[str, str]]:
    if job.gpus % job.parallel.size:
        product = f"tensor x pipeline x context = {job.parallel.size}"
        yield f"parallel: {product} does not divide nodes x gpus_per_node = {job.gpus}", "change one of them"
    if job.gpus_per_node and job.parallel.tensor > job.gpus_per_node:
        fix = "tensor parallelism between nodes is limited by their network: at most gpus_per_node"
        yield f"parallel.tensor = {job.parallel.tensor} is more than gpus_per_node = {job.gpus_per_node}", fix
    if job.least_nodes and job.unfit != "leave-out":
        yield "least_nodes without unfit = 'leave-out'", "add unfit = 'leave-out', or remove least_nodes"
    if job.least_nodes > job.nodes:
        yield f"least_nodes = {job.least_nodes} is more than nodes = {job.nodes}", "at most nodes"
    if not job.ray and job.nodes > 1:
        yield f"ray = false with nodes = {job.nodes}", "set ray = true: it is what joins nodes"


def _variables(job: Job) -> Iterator[tuple[str, str]]:
    odd = [name for name in (*job.environment, *job.secrets) if not VARIABLE.match(name)]
    if odd:
        yield f"{odd[0]!r} is no name of a variable", "letters, digits and '_', not beginning with a digit"
    both = sorted(set(job.secrets) & set(job.environment))
    if both:
        yield f"{both[0]} is in environment and in secrets", "a secret has no value in a file: remove one"
