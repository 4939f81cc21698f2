"""Compose YAML: every service is a workload of one pod with one container."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import SOME, Container, Env, Flaw, Mount, Pod, Port, Volume, Word, Workload
from orbit.launch.lint.read.docker import mount_of, ports_of, shm_of, user_of
from orbit.launch.lint.read.tree import Node
from orbit.launch.lint.read.words import commands

OPTIONS = (
    "init",
    "stdin_open",
    "tty",
    "runtime",
    "read_only",
    "working_dir",
    "build",
    "network_mode",
    "pid",
    "cap_add",
)


def read_compose(documents: list[Node]) -> tuple[tuple[Workload, ...], list[Flaw]]:
    """The services of all documents."""
    found = []
    for document in documents:
        for name, service in document.at("services").entries.items():
            found.append(_workload(name, service))
    return tuple(found), []


def _workload(name: str, service: Node) -> Workload:
    container = _container(name, service)
    network = service.word("network_mode")
    count = whole(service.says("deploy", "replicas") or service.says("scale") or "1")
    pod = Pod(
        name=name,
        line=service.line,
        count=1 if count is None else count,
        containers=(container,),
        volumes={},
        host_network=network if network and network.text == "host" else None,
        host_ipc=service.word("ipc") if service.says("ipc") == "host" else None,
        restart=service.word("restart") or service.word("deploy", "restart_policy", "condition"),
        grace=service.word("stop_grace_period"),
        params={},
    )
    return Workload(kind="service", name=name, line=service.line, pods=(pod,), settings={})


def _container(name: str, service: Node) -> Container:
    limits = {}
    limit = service.word("mem_limit") or service.word("deploy", "resources", "limits", "memory")
    if limit:
        limits["memory"] = limit
    gpus, gpu_line = _gpus(service)
    options = {key: Word(service.at(key).text or "", service.at(key).line) for key in OPTIONS if service.at(key)}
    if service.at("ulimits", "memlock"):
        options["memlock"] = Word("memlock", service.at("ulimits", "memlock").line)
    if service.at("ulimits", "nofile"):
        options["nofile"] = Word("nofile", service.at("ulimits", "nofile").line)
    return Container(
        name=name,
        role="main",
        line=service.line,
        image=service.word("image"),
        command=_argv(service.at("entrypoint")),
        args=_argv(service.at("command")),
        env=tuple(_env(service.at("environment"))),
        requests={},
        limits=limits,
        mounts=tuple(_mounts(service.at("volumes"))),
        ports=tuple(_ports(service.at("ports"))),
        pull_policy=service.word("pull_policy"),
        uid=user_of(service.word("user")),
        privileged=service.word("privileged") if service.is_true("privileged") else None,
        added=service.at("cap_add").words(),
        shm=shm_of(service.word("shm_size"), service.word("ipc"), service.line),
        gpus=gpus,
        gpu_line=gpu_line,
        options=options,
    )


def _argv(node: Node) -> tuple[Word, ...]:
    """A list is words as they are; a string is split like a shell does."""
    if node.text is None:
        return node.words()
    return tuple(word for command in commands(node.text, node.line) for word in command.words)


def _env(node: Node) -> Iterator[Env]:
    for key, item in node.entries.items():
        text = item.text
        yield Env(key, None if text is None or text.startswith("$") else text, item.line)
    for item in node.items:
        name, equals, value = (item.text or "").partition("=")
        yield Env(name, value if equals and not value.startswith("$") else None, item.line)


def _mounts(node: Node) -> Iterator[Mount]:
    for item in node.items:
        if item.text is not None:
            mount = mount_of(Word(item.text, item.line))
            if mount:
                yield mount
            continue
        source = item.says("source")
        kind = {"bind": "hostPath", "tmpfs": "emptyDir"}.get(item.says("type"), "volume")
        volume = Volume(source, kind, source, "", "", item.line)
        yield Mount(item.says("target"), volume, source, item.is_true("read_only"), item.line)


def _ports(node: Node) -> Iterator[Port]:
    for item in node.items:
        if item.text is not None:
            yield from ports_of(Word(item.text, item.line))
            continue
        number, host = whole(item.says("target")), whole(item.says("published") or "0")
        if number is not None:
            yield Port(number, host or 0, "", (item.says("protocol") or "tcp").upper(), item.line)


def _gpus(service: Node) -> tuple[int, int]:
    """``deploy.resources.reservations.devices``, ``gpus``, or the NVIDIA runtime."""
    found, line = 0, 0
    for device in service.at("deploy", "resources", "reservations", "devices").items + service.at("gpus").items:
        words = {word.text for word in device.at("capabilities").words()}
        if "gpu" not in words and device.says("driver") != "nvidia" and not service.at("gpus"):
            continue
        line = device.line
        ids = device.at("device_ids").items
        count = whole(device.says("count")) if device.says("count") else None
        found = len(ids) if ids else SOME if count is None else count
    if service.says("gpus"):
        found, line = whole(service.says("gpus")) or SOME, service.at("gpus").line
    if not found and service.says("runtime") == "nvidia":
        found, line = SOME, service.at("runtime").line
    return found, line
