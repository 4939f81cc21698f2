"""The kernel's files below a made-up root; answers of ports that are really there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from orbit.doctor.look import system
from orbit.errors import MissingError


def put(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def process(
    root: Path, pid: int, *, name: str, state: str, parent: int = 1, command: str = "", switches: int = 5
) -> None:
    after = " ".join([state, str(parent), *["0"] * 17, "100"])
    put(
        root,
        **{
            f"proc/{pid}/stat": f"{pid} ({name}) {after} 0 0",
            f"proc/{pid}/cmdline": command,
            f"proc/{pid}/status": f"voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t1\n",
        },
    )


def test_processes_have_the_name_they_give_themselves(tmp_path: Path) -> None:
    put(tmp_path, **{"proc/uptime": "3600.5 100.0", "proc/self/x": ""})
    process(tmp_path, 7, name="ray::IDLE) x", state="S", command="ray::Trainer.step\0\0")
    process(tmp_path, 8, name="python3.12", state="Z")
    found = system.read_processes(tmp_path, os.getuid())
    assert [(one.pid, one.name, one.state, one.parent) for one in found] == [
        (7, "ray::Trainer.step", "S", 1), (8, "python3.12", "Z", 1),
    ]  # fmt: skip
    assert found[0].age_s == int(3600.5 - 100 / system.TICKS)
    assert system.read_processes(tmp_path, os.getuid() + 1) == ()


def test_a_process_that_is_not_run_while_it_is_watched_hangs(tmp_path: Path) -> None:
    put(tmp_path, **{"proc/uptime": "3600 1"})
    process(tmp_path, 7, name="python3.12", state="D")
    assert [one.waits_s for one in system.read_processes(tmp_path, os.getuid(), 0.01)] == [0.01]


def test_a_process_that_goes_on_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, **{"proc/uptime": "3600 1"})
    process(tmp_path, 7, name="python3.12", state="D")
    monkeypatch.setattr("time.sleep", lambda _s: process(tmp_path, 7, name="python3.12", state="D", switches=6))
    assert [one.waits_s for one in system.read_processes(tmp_path, os.getuid())] == [0.0]


def test_listening_ports_of_both_protocols(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st\n"
    put(
        tmp_path,
        **{
            "proc/net/tcp": f"{head}   0: 0100007F:18EB 00000000:0000 0A 0\n   1: 0100007F:0050 0100007F:1 01 0\n",
            "proc/net/tcp6": f"{head}   0: 00000000000000000000000000000000:2049 0:0 0A 0\n",
        },
    )
    assert system.read_listening(tmp_path) == (6379, 8265)


def test_gpus_on_the_bus_in_the_driver_and_as_nodes(tmp_path: Path) -> None:
    put(
        tmp_path,
        **{
            "sys/bus/pci/devices/a/vendor": "0x10de\n", "sys/bus/pci/devices/a/class": "0x030200\n",
            "sys/bus/pci/devices/b/vendor": "0x10de\n", "sys/bus/pci/devices/b/class": "0x068000\n",
            "sys/bus/pci/devices/c/vendor": "0x8086\n", "sys/bus/pci/devices/c/class": "0x030000\n",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "", "dev/nvidia0": "", "dev/nvidiactl": "",
            "dev/nvidia-uvm": "", "sys/module/nvidia/version": "580.95.05\n",
            "usr/lib64/libnvidia-ml.so.580.65.06": "", "usr/lib64/libnvidia-ml.so.1": "",
        },
    )  # fmt: skip
    found = system.read_devices(tmp_path)
    assert (found.on_bus, found.in_driver, found.nodes, found.control) == (1, 1, 1, True)
    assert (found.module, found.libraries) == ("580.95.05", ("580.65.06",))


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({"proc/self/cgroup": "0::/job7\n", "sys/fs/cgroup/job7/memory.events": "low 0\noom 2\noom_kill 3\n"}, 3),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom_kill 1\n"}, 1),
        ({"proc/self/cgroup": "5:memory:/x\n", "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 4\n"}, 4),
        ({"proc/self/cgroup": "odd\n"}, 0),
        ({}, 0),
    ],
)  # fmt: skip
def test_oom_kills_of_both_kinds_of_control_group(tmp_path: Path, files: dict[str, str], kills: int) -> None:
    assert system.read_oom_kills(put(tmp_path, **files)) == kills


def test_the_first_process_counts_in_a_container_only(tmp_path: Path) -> None:
    put(tmp_path, **{"proc/1/cmdline": "bash\0-c\0sleep 1\0"})
    assert system.read_first_process(tmp_path) == ()
    put(tmp_path, **{".dockerenv": ""})
    assert system.read_first_process(tmp_path) == ("bash", "-c", "sleep 1")


def test_an_address_where_nobody_answers_and_one_where_somebody_does(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else takes it
        open_port, closed_port = server.getsockname()[1], gone.getsockname()[1]
        put(tmp_path, **{"tmp/ray/ray_current_cluster": f"127.0.0.1:{closed_port}"})
        found = system.read_ray(tmp_path, {"RAY_ADDRESS": f"ray://127.0.0.1:{open_port}"})
    assert [(one.source, one.answer) for one in found] == [
        ("RAY_ADDRESS", "open"), ("/tmp/ray/ray_current_cluster", "refused"),
    ]  # fmt: skip
    assert system.read_ray(tmp_path / "none", {"RAY_ADDRESS": "auto"}) == ()


def test_docker_that_does_not_answer_is_quoted(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho noise >&2\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    client.chmod(0o755)
    env = {"PATH": str(tmp_path)}
    assert system.ask_docker(env) == "Cannot connect to the Docker daemon"
    client.write_text("#!/bin/sh\necho 29.0\n")
    assert system.ask_docker(env) == ""
    with pytest.raises(MissingError, match="no docker client"):
        system.ask_docker({"PATH": str(tmp_path / "none")})
