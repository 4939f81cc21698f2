"""Shell scripts: docker lines in them, and Slurm's batch scripts with what they start."""

from __future__ import annotations

import re
from dataclasses import replace

from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import SOME, Container, Env, Flaw, Mount, Pod, Shm, Volume, Word, Workload
from orbit.launch.lint.read.docker import docker_workload
from orbit.launch.lint.read.words import Command, Flags, commands, parse_flags

SHORT = {
    "-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task", "-G": "gpus", "-t": "time", "-p": "partition",
    "-J": "job-name", "-o": "output", "-e": "error", "-w": "nodelist", "-x": "exclude", "-A": "account",
    "-q": "qos", "-C": "constraint", "-D": "chdir", "-a": "array", "-d": "dependency",
}  # fmt: skip
SRUN_SWITCHES = frozenset(
    f"--{name}"
    for name in [
        "exclusive",
        "overlap",
        "label",
        "unbuffered",
        "pty",
        "no-kill",
        "container-mount-home",
        "exact",
        "no-container-mount-home",
        "container-writable",
        "container-readonly",
        "container-remap-root",
        "quiet",
        "no-container-remap-root",
        "container-entrypoint",
        "no-container-entrypoint",
        "spread-job",
        "verbose",
        "kill-on-bad-exit",
        "wait-all-nodes",
        "oversubscribe",
        "contiguous",
        "use-min-nodes",
        "whole",
    ]
)
SRUN_LETTERS = "lukvQOsHIKZXW"
APPTAINER = ("apptainer", "singularity")
APPTAINER_SWITCHES = frozenset(
    f"--{name}"
    for name in [
        "nv",
        "nvccli",
        "rocm",
        "containall",
        "contain",
        "cleanenv",
        "writable",
        "writable-tmpfs",
        "fakeroot",
        "no-home",
        "ipc",
        "pid",
        "net",
        "userns",
        "compat",
        "no-init",
        "no-privs",
        "keep-privs",
        "uts",
        "allow-setuid",
        "disable-cache",
        "no-eval",
        "no-umask",
        "sharens",
        "no-compat",
    ]
)
APPTAINER_LETTERS = "Ccefipnu"
DIRECTIVE = re.compile(r"^#SBATCH[ \t]+(.*)$")
GRES = re.compile(r"gpu(?::[A-Za-z][\w.-]*)?(?::(\d+))?")


def read_shell(text: str) -> tuple[tuple[Workload, ...], list[Flaw]]:
    """The docker lines of a script."""
    found = [workload for command in commands(text) if (workload := docker_workload(command)) is not None]
    return tuple(found), []


def read_slurm(text: str, name: str) -> tuple[tuple[Workload, ...], list[Flaw]]:
    """One workload for the batch script (its body and each ``srun`` line a container), and its docker lines."""
    settings = _directives(text)
    found = list(commands(text))
    env = tuple(
        Env(key, value if not value.startswith("$") else None, command.line)
        for command in found
        if not command.words
        for key, value in command.env
    )
    gpus, gpu_line = _gpus(settings)
    body = _plain("batch", Word("", 1), (), env, gpus, gpu_line, {}, settings)
    containers = [body]
    for command in found:
        containers += _started(command, env, gpus, gpu_line, settings)
    nodes = whole(settings["nodes"].text.partition("-")[2] or settings["nodes"].text) if "nodes" in settings else 1
    pod = Pod(
        name="node",
        line=1,
        count=nodes or 1,
        containers=tuple(containers),
        volumes={},
        host_network=None,
        params={},
    )
    job = settings.get("job-name")
    workload = Workload(
        kind="sbatch",
        name=job.text if job else name,
        line=1,
        pods=(pod,),
        settings=settings,
        script=(Word(text, 1),),
    )
    docker, flaws = read_shell(text)
    return (workload, *docker), flaws


def _directives(text: str) -> dict[str, Word]:
    """``#SBATCH`` lines, up to the first command: what Slurm reads."""
    found: dict[str, Word] = {}
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        if line and not line.startswith("#"):
            break
        match = DIRECTIVE.match(line)
        if match is None:
            continue
        words = [word for command in commands(match[1], number) for word in command.words]
        place = 0
        while place < len(words):
            name, equals, value = words[place].text.partition("=")
            if not name.startswith("-"):
                place += 1
                continue
            if (not equals and name in SHORT) or (
                not equals and place + 1 < len(words) and words[place + 1].text[:1] != "-"
            ):
                place += 1
                value = words[place].text if place < len(words) else ""
            elif name[:2] != "--" and len(name) > 2 and name[:2] in SHORT:
                name, value = name[:2], name[2:]
            found[SHORT.get(name, name.lstrip("-"))] = Word(value, number)
            place += 1
    return found


def _gpus(settings: dict[str, Word]) -> tuple[int, int]:
    """GPUs of one node, as the options say."""
    for name in ("gpus-per-node", "gres"):
        if name in settings:
            word = settings[name]
            count = whole(word.text.rpartition(":")[2]) if name == "gpus-per-node" else None
            if count is None and (match := GRES.search(word.text)):
                count = int(match[1][:9]) if match[1] else 1
            return (count if count is not None else SOME if name == "gpus-per-node" else 0), word.line
    if "gpus-per-task" in settings:
        each = whole(settings["gpus-per-task"].text.rpartition(":")[2])
        tasks = whole(settings["ntasks-per-node"].text) if "ntasks-per-node" in settings else None
        return (each * tasks if each is not None and tasks is not None else SOME), settings["gpus-per-task"].line
    if "gpus" in settings:
        total = whole(settings["gpus"].text.rpartition(":")[2])
        nodes = whole(settings["nodes"].text) if "nodes" in settings else 1
        even = total is not None and nodes and total % nodes == 0
        return (total // nodes if even and total is not None and nodes else SOME), settings["gpus"].line
    return 0, 0


def _started(
    command: Command, env: tuple[Env, ...], gpus: int, gpu_line: int, settings: dict[str, Word]
) -> list[Container]:
    """The container that a line starts: with pyxis, with Apptainer, or none around it."""
    words = command.words
    mine = (*env, *(Env(name, value, command.line) for name, value in command.env))
    flags = None
    if command.program == "srun":
        flags = parse_flags(words[1:], SRUN_SWITCHES, SRUN_LETTERS)
        words = flags.rest
    image: Word | None = None
    options: dict[str, Word] = {}
    if flags is not None:
        image = flags.word("--container-image")
        options = {f"srun {key.lstrip('-')}": found[-1] for key, found in flags.values.items()}
    program = words[0].text.rpartition("/")[2] if words else ""
    if program in APPTAINER and len(words) > 1 and words[1].text in ("exec", "run"):
        inner = parse_flags(words[2:], APPTAINER_SWITCHES, APPTAINER_LETTERS)
        image = inner.rest[0] if inner.rest else None
        options |= {f"{program} {key.lstrip('-')}": found[-1] for key, found in inner.values.items()}
        options["apptainer"] = words[0]
        words = inner.rest[1:]
        mine = (*mine, *_apptainer_env(inner))
    elif flags is None:
        return []
    container = _plain(f"line {command.line}", Word("", command.line), words, mine, gpus, gpu_line, options, settings)
    return [_with(container, image, _mounts(flags))]


def _apptainer_env(flags: Flags) -> list[Env]:
    pairs = [word for value in flags.all("--env") for word in _split(value)]
    return [
        Env(name, value, line) for (name, _, value), line in ((word.text.partition("="), word.line) for word in pairs)
    ]


def _split(word: Word) -> list[Word]:
    return [Word(part, word.line) for part in word.text.split(",") if part]


def _mounts(flags: Flags | None) -> tuple[Mount, ...]:
    found = []
    for word in flags.all("--container-mounts") if flags else ():
        for part in _split(word):
            source, _, rest = part.text.partition(":")
            target, _, how = rest.partition(":")
            volume = Volume(source, "hostPath", source, "", "", word.line)
            found.append(Mount(target or source, volume, source, "ro" in how.split("+"), word.line))
    return tuple(found)


def _with(container: Container, image: Word | None, mounts: tuple[Mount, ...]) -> Container:
    return replace(container, image=image, mounts=mounts)


def _plain(  # noqa: PLR0917 - what the steps of a script have in common
    name: str,
    line: Word,
    words: tuple[Word, ...],
    env: tuple[Env, ...],
    gpus: int,
    gpu_line: int,
    options: dict[str, Word],
    settings: dict[str, Word],
) -> Container:
    limits = {"cpu": settings["cpus-per-task"]} if "cpus-per-task" in settings else {}
    return Container(
        name=name,
        role="main",
        line=line.line,
        args=words,
        env=env,
        requests={},
        limits=limits,
        shm=Shm("host", 0, line.line),
        gpus=gpus,
        gpu_line=gpu_line,
        options=options,
    )
