"""``docker run`` and ``podman run`` lines of a shell script."""

from __future__ import annotations

from orbit.launch.lint.amounts import docker_bytes, kubernetes_amount, whole
from orbit.launch.lint.facts import (
    DEFAULT_SHM_BYTES,
    SOME,
    Container,
    Env,
    Mount,
    Pod,
    Port,
    Shm,
    Volume,
    Word,
    Workload,
)
from orbit.launch.lint.read.words import Command, Flags, parse_flags

ENGINES = ("docker", "podman", "nerdctl")
SWITCHES = frozenset(
    f"--{name}"
    for name in [
        "detach",
        "rm",
        "interactive",
        "tty",
        "init",
        "privileged",
        "read-only",
        "no-healthcheck",
        "oom-kill-disable",
        "sig-proxy",
        "disable-content-trust",
        "publish-all",
        "quiet",
        "help",
        "replace",
        "rmi",
        "no-hosts",
        "no-hostname",
        "read-only-tmpfs",
        "env-host",
        "http-proxy",
        "tls-verify",
        "passwd",
        "unsetenv-all",
        "use-api-socket",
    ]
)
LETTERS = "ditPqD"
GLOBAL_SWITCHES = frozenset(("--debug", "--tls", "--tlsverify", "--remote"))


def docker_workload(command: Command) -> Workload | None:
    """The container that a command starts; None when it starts none."""
    flags = run_flags(command)
    if flags is None:
        return None
    image = flags.rest[0] if flags.rest else None
    name = flags.word("--name")
    container = _container(command, flags, image, name.text if name else "container")
    network = flags.word("--network", "--net")
    ipc = flags.word("--ipc")
    pod = Pod(
        name="container",
        line=command.line,
        containers=(container,),
        volumes={mount.name: mount.volume for mount in container.mounts if mount.volume},
        host_network=network if network and network.text == "host" else None,
        host_ipc=ipc if ipc and ipc.text == "host" else None,
        restart=flags.word("--restart"),
        grace=flags.word("--stop-timeout"),
        params={},
    )
    engine = command.program
    return Workload(kind=f"{engine} run", name=container.name, line=command.line, pods=(pod,), settings={}, script=())


def run_flags(command: Command) -> Flags | None:
    """The flags behind ``run``; None for another command."""
    if command.program not in ENGINES:
        return None
    outer = parse_flags(command.words[1:], GLOBAL_SWITCHES, "D")
    rest = outer.rest
    if rest and rest[0].text == "container":
        rest = rest[1:]
    if not rest or rest[0].text != "run":
        return None
    return parse_flags(rest[1:], SWITCHES, LETTERS)


def _container(command: Command, flags: Flags, image: Word | None, name: str) -> Container:
    entry = flags.word("--entrypoint")
    memory = flags.word("--memory", "-m")
    limits = {"memory": memory} if memory else {}
    cpus = flags.word("--cpus")
    if cpus:
        limits["cpu"] = cpus
    user = flags.word("--user", "-u")
    gpus = flags.word("--gpus")
    devices = [word for word in flags.all("--device") if word.text.startswith(("nvidia.com/gpu", "/dev/nvidia"))]
    count = gpu_count(gpus.text) if gpus else (SOME if devices or _runtime(flags) else 0)
    options = {key.lstrip("-"): words[-1] for key, words in flags.values.items() if words}
    options["engine"] = Word(command.program, command.line)
    if any(word.text.startswith("memlock") for word in flags.all("--ulimit")):
        options["memlock"] = next(word for word in flags.all("--ulimit") if word.text.startswith("memlock"))
    if any(word.text.startswith("nofile") for word in flags.all("--ulimit")):
        options["nofile"] = next(word for word in flags.all("--ulimit") if word.text.startswith("nofile"))
    return Container(
        name=name,
        role="main",
        line=command.line,
        image=image,
        command=(entry,) if entry and entry.text else (),
        args=flags.rest[1:],
        env=tuple(env_of(word) for word in flags.all("--env", "-e")),
        requests={},
        limits=limits,
        mounts=tuple(mount for word in flags.all("--volume", "-v", "--mount") if (mount := mount_of(word))),
        ports=tuple(port for word in flags.all("--publish", "-p") for port in ports_of(word)),
        pull_policy=flags.word("--pull"),
        uid=user_of(user),
        non_root=False,
        privileged=flags.word("--privileged"),
        added=flags.all("--cap-add"),
        shm=shm_of(flags.word("--shm-size"), flags.word("--ipc"), command.line),
        gpus=count,
        gpu_line=gpus.line if gpus else devices[0].line if devices else command.line,
        options=options,
    )


def _runtime(flags: Flags) -> bool:
    runtime = flags.word("--runtime")
    return runtime is not None and runtime.text == "nvidia"


def gpu_count(text: str) -> int:
    """How many GPUs a value of ``--gpus`` asks for; :data:`SOME` for all of them."""
    text = text.strip("'\"")
    number = whole(text)
    if number is not None:
        return number
    for part in text.split(",") if "device" not in text else [text.replace('"', "")]:
        key, _, value = part.partition("=")
        if key == "count":
            return whole(value) or SOME
        if key == "device":
            return len([item for item in value.split(",") if item and "=" not in item])
    return SOME


def env_of(word: Word) -> Env:
    """``NAME=value``, or ``NAME`` for the caller's."""
    name, equals, value = word.text.partition("=")
    return Env(name, value if equals and not value.startswith("$") else None, word.line)


def user_of(word: Word | None) -> int | None:
    """The number in ``--user 1000:1000``; ``root`` is 0; a name or a variable is not known."""
    if word is None:
        return None
    name = word.text.partition(":")[0]
    return 0 if name == "root" else whole(name)


def mount_of(word: Word) -> Mount | None:
    """A value of ``-v`` or ``--mount``."""
    if "=" in word.text.partition(",")[0] and (
        "target=" in word.text or "dst=" in word.text or "destination=" in word.text
    ):
        pairs = dict(part.partition("=")[::2] for part in word.text.split(","))
        source = pairs.get("source", pairs.get("src", ""))
        target = pairs.get("target", pairs.get("dst", pairs.get("destination", "")))
        kind = {"bind": "hostPath", "tmpfs": "emptyDir"}.get(pairs.get("type", ""), "volume")
        read_only = "readonly" in pairs or "ro" in pairs
    else:
        parts = word.text.split(":")
        if len(parts) < 2:
            return None
        source, target = parts[0], parts[1]
        kind = "hostPath" if source.startswith(("/", ".", "~", "$")) else "volume"
        read_only = "ro" in parts[2].split(",") if len(parts) > 2 else False
    volume = Volume(source, kind, source, "", "", word.line)
    return Mount(target, volume, source, read_only, word.line)


def ports_of(word: Word) -> list[Port]:
    """A value of ``-p``: ``[ip:][host:]container[/protocol]``; ranges give nothing."""
    text, _, protocol = word.text.partition("/")
    parts = text.rsplit(":", 2)
    number = whole(parts[-1])
    if number is None:
        return []
    host = whole(parts[-2]) or 0 if len(parts) > 1 else 0
    return [Port(number, host, "", (protocol or "tcp").upper(), word.line)]


def shm_of(size: Word | None, ipc: Word | None, line: int) -> Shm:
    """``--shm-size`` and ``--ipc``."""
    if ipc is not None and (ipc.text == "host" or ipc.text.startswith(("container:", "service:"))):
        return Shm("host", 0, ipc.line)
    if size is None:
        return Shm("default", DEFAULT_SHM_BYTES, line)
    found = docker_bytes(size.text)
    return Shm("sized", found, size.line) if found is not None else Shm("other", 0, size.line)


def memory_of(container: Container, kubernetes: bool) -> float | None:
    """Bytes of the memory limit; None where there is none, or none that can be read."""
    word = container.limits.get("memory")
    if word is None:
        return None
    return kubernetes_amount(word.text) if kubernetes else docker_bytes(word.text)
