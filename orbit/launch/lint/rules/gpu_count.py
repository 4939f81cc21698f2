"""gpu-count: ranks, parallelism and what Ray is told fit the GPUs that are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding, Severity
from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import Container, Manifest, Pod, Word, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, WARNING, finding_at, who
from orbit.launch.lint.programs import Program, programs, script_programs
from orbit.launch.lint.read.pods import is_gpu

ID = "gpu-count"
TITLE = "ranks, parallelism and what Ray is told fit the GPUs that are asked for"
RANKS = ("nproc-per-node", "num-gpus", "gpus-per-node", "nproc")
TENSOR = ("tensor-parallel-size", "tp-size", "tp", "tensor-parallel")
PIPELINE = ("pipeline-parallel-size", "pp-size", "pp")
DATA = ("data-parallel-size", "dp-size", "dp")
NODES = ("nnodes", "num-machines")

type Seat = tuple[Workload, Pod, Container]


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """What contradicts itself, for each container and each workload."""
    for workload in manifest.workloads:
        for pod in workload.pods:
            for container in pod.containers:
                seat = workload, pod, container
                if manifest.form == "kubernetes":
                    yield from _resources(manifest, seat)
                if container.role == "init":
                    continue
                yield from _ray_params(manifest, seat)
                for program in programs(container):
                    yield from _program(manifest, seat, program)
        for program in script_programs(workload.script if workload.kind == "RayJob" else ()):
            yield from _parallel(manifest, workload, workload.pods, who(workload), program)
        yield from _operator(manifest, workload)


def _resources(manifest: Manifest, seat: Seat) -> Iterator[Finding]:
    """GPUs cannot be overcommitted: Kubernetes refuses requests without equal limits."""
    container = seat[2]
    for key, word in container.requests.items():
        limit = container.limits.get(key)
        if is_gpu(key) and word.text != "0" and (limit is None or limit.text != word.text):
            have = "no limit" if limit is None else f"a limit of {limit.text}"
            message = f"{word.text} {key} are requested with {have}: Kubernetes refuses it"
            yield finding_at(ID, ERROR, manifest, word.line, who(*seat), message, "write the number under limits")


def _ray_params(manifest: Manifest, seat: Seat) -> Iterator[Finding]:
    """``num-gpus`` of a group against the GPUs of its first container."""
    _workload, pod, container = seat
    word = pod.params.get("num-gpus")
    told = whole(word.text) if word is not None else None
    if word is None or told is None or container.role not in ("head", "worker") or told == container.gpus:
        return
    fix = "remove num-gpus: KubeRay takes the limit"
    name, there = who(*seat), container.gpus
    if told > there >= 0:
        severity: Severity = ERROR if there else WARNING  # none at all is done on purpose, for trying
        message = f"Ray is told of {told} GPUs, the container has {there}: tasks get devices that are not there"
        yield finding_at(ID, severity, manifest, word.line, name, message, fix)
    elif told and there > 0:
        message = f"Ray is told of {told} of the container's {there} GPUs: the others stay idle"
        yield finding_at(ID, WARNING, manifest, word.line, name, message, fix)


def _program(manifest: Manifest, seat: Seat, program: Program) -> Iterator[Finding]:
    workload, pod, container = seat
    name = who(*seat)
    if program.kind in ("torchrun", "deepspeed"):
        yield from _ranks(manifest, container, name, program.number(*RANKS), "ranks")
        yield from _nodes(manifest, workload, pod, name, program)
    elif program.kind == "mpirun":
        yield from _slots(manifest, workload, name, program)
    elif program.kind == "accelerate":
        yield from _accelerate(manifest, container, name, program)
    elif program.kind == "ray start":
        yield from _ranks(manifest, container, name, program.number("num-gpus"), "GPUs told to Ray")
    elif program.kind in ("vllm", "sglang"):
        yield from _parallel(manifest, workload, (pod,), name, program)


def _ranks(
    manifest: Manifest, container: Container, name: str, found: tuple[int, Word] | None, what: str
) -> Iterator[Finding]:
    if found is None or container.gpus < 0 or (manifest.form == "slurm" and not container.gpus):
        return
    number, word = found
    if number > container.gpus and (container.gpus or number > 1):
        severity, effect = ERROR, "the first rank without one fails"
        if not container.gpus:
            severity, effect = WARNING, "they run on the CPU, or fail"
        message = f"{number} {what} for {container.gpus} GPUs: {effect}"
    elif 0 < number < container.gpus:
        severity, message = WARNING, f"{number} {what} for {container.gpus} GPUs: the others stay idle"
    else:
        return
    yield finding_at(ID, severity, manifest, word.line, name, message, "make the two numbers one", said=word.text)


def _nodes(manifest: Manifest, workload: Workload, pod: Pod, name: str, program: Program) -> Iterator[Finding]:
    """``--nnodes`` against the pods there are."""
    found = program.number(*NODES)
    if found is None or manifest.form not in ("kubernetes", "slurm") or workload.is_ray or pod.role == "submitter":
        return
    number, word = found
    there = sum(item.count for item in workload.pods if item.role != "submitter")
    if number != there and _is_one(workload):
        message = f"--nnodes {number}, and {workload.kind} has {there} of them: " + (
            "the job waits for ever" if number > there else "some are not part of the job"
        )
        yield finding_at(ID, ERROR, manifest, word.line, name, message, "make the two numbers one")


def _is_one(workload: Workload) -> bool:
    """Whether the pods of a workload are the nodes of one training."""
    if workload.kind == "JobSet":
        return len(workload.pods) == 1
    return workload.kind in ("Job", "PyTorchJob", "StatefulSet", "sbatch")


def _slots(manifest: Manifest, workload: Workload, name: str, program: Program) -> Iterator[Finding]:
    """``mpirun -np`` of a launcher against the slots of its workers."""
    found = program.number("np", "n")
    each = workload.settings.get("slotsPerWorker")
    slots = whole(each.text) if each is not None else 1
    workers = sum(pod.count for pod in workload.pods if pod.role != "submitter")
    if workload.kind != "MPIJob" or found is None or slots is None or not workers:
        return
    if found[0] > workers * slots:
        message = f"mpirun -np {found[0]}, and {workers} workers have {slots} slots each: it does not start"
        fix = "at most workers x slotsPerWorker"
        yield finding_at(ID, ERROR, manifest, found[1].line, name, message, fix)


def _accelerate(manifest: Manifest, container: Container, name: str, program: Program) -> Iterator[Finding]:
    found, machines = program.number("num-processes"), program.number("num-machines")
    if found is None:
        return
    nodes = max(machines[0], 1) if machines else 1
    if found[0] % nodes:
        message = f"--num_processes {found[0]} is no multiple of --num_machines {nodes}"
        yield finding_at(
            ID, ERROR, manifest, found[1].line, name, message, "it counts the ranks of all machines together"
        )
        return
    yield from _ranks(manifest, container, name, (found[0] // nodes, found[1]), "ranks of a node")


def _parallel(
    manifest: Manifest, workload: Workload, pods: tuple[Pod, ...], name: str, program: Program
) -> Iterator[Finding]:
    """Product of the parallel sizes of an engine against the GPUs it can have."""
    if program.kind not in ("vllm", "sglang"):
        return
    sizes = [found for names in (TENSOR, PIPELINE, DATA) if (found := program.number(*names)) is not None]
    product = 1
    for number, _word in sizes:
        product *= max(number, 1)
    counts = [(pod.count, container.gpus) for pod in pods for container in pod.containers if container.role != "init"]
    if not sizes or any(gpus < 0 for _count, gpus in counts):
        return
    wide = workload.is_ray or program.number("nnodes") or manifest.form == "slurm"
    if workload.is_ray:
        counts = [(p.count, c.gpus) for p in workload.pods for c in p.containers if c.role != "init"]
    there = sum(count * gpus for count, gpus in counts) if wide else max((gpus for _count, gpus in counts), default=0)
    if manifest.form == "slurm":
        there = max((gpus for _count, gpus in counts), default=0) * pods[0].count
    if product > there and (there or product > 1):
        severity: Severity = ERROR if there else WARNING
        message = f"the engine is laid over {product} GPUs, and {there} are asked for: it does not start"
        fix = "ask for as many GPUs as tensor x pipeline x data parallel size"
        yield finding_at(ID, severity, manifest, sizes[0][1].line, name, message, fix)


def _operator(manifest: Manifest, workload: Workload) -> Iterator[Finding]:
    """``nprocPerNode`` and ``slotsPerWorker`` of Kubeflow's jobs."""
    for key in ("nprocPerNode", "slotsPerWorker"):
        word = workload.settings.get(key)
        number = whole(word.text) if word is not None else None
        if word is None or number is None:
            continue
        for pod in workload.pods:
            gpus = max((item.gpus for item in pod.containers), default=0)
            if pod.role != "submitter" and gpus > 0 and number != gpus:
                severity = ERROR if number > gpus else WARNING
                message = f"{key} is {number}, and a pod has {gpus} GPUs"
                yield finding_at(
                    ID, severity, manifest, word.line, who(workload, pod), message, "make the two numbers one"
                )
                break
