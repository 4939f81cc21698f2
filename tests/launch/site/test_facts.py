"""Reading a node: made-up /proc and /sys trees, and the machine the tests run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.launch.preflight.gpu_facts import Driver
from orbit.launch.site.facts import count_cards, data_mounts, find_container, find_pyxis, read_facts
from orbit.launch.site.probe import probe
from tests.launch.site.nodes import mount

NO_DRIVER = Driver(missing="libcuda.so.1: no such file")
MOUNTS = """\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
23 21 0:6 / /dev/shm rw - tmpfs shm rw,size=8388608k
24 21 8:2 / {local} rw,noexec - xfs /dev/sdb1 rw
25 21 0:7 / /lustre/projects rw - lustre mds@tcp:/x rw,flock
26 21 8:1 /etc/hosts /etc/hosts rw - ext4 /dev/sda1 rw
27 21 0:8 / /var/lib/kubelet/pods/x rw - tmpfs tmpfs rw
"""
STATUS = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7\n"
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 4096                 files
Max locked memory         65536                65536                bytes
"""


def put(root: Path, path: str, content: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node of Slurm with cgroup 2, seen from inside a job."""
    root = tmp_path / "root"
    (tmp_path / "local").mkdir()
    put(root, "proc/self/mountinfo", MOUNTS.format(local=tmp_path / "local"))
    put(root, "proc/self/status", STATUS)
    put(root, "proc/self/limits", LIMITS)
    put(root, "proc/self/cgroup", "0::/job_7\n")
    put(root, "proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\n")
    put(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
    put(root, "sys/fs/cgroup/job_7/cpu.max", "250000 100000\n")
    put(root, "sys/fs/cgroup/job_7/memory.max", str(16 << 30))
    put(root, "sys/fs/cgroup/job_7/pids.max", "4096\n")
    put(root, "sys/class/net/eth0/device/vendor", "0x15b3")
    (root / "sys/class/net/lo").mkdir()
    put(root, "etc/passwd", "root:x:0:0::/root:/bin/sh\n")
    return root


def test_a_made_up_node_is_read_through(root: Path, tmp_path: Path) -> None:
    facts = read_facts({"SLURM_JOB_ID": "7", "PATH": ""}, root=root, driver=NO_DRIVER)
    local = str(tmp_path / "local")
    assert (facts.processors.whole, facts.memory.usable, facts.bounds.pids) == (2, 16 << 30, 4096)
    assert (facts.bounds.nofile, facts.bounds.locked_bytes) == ((1024, 4096), 65536)
    places = [local, "/lustre/projects"]
    assert [each.point for each in facts.mounts] == [each for each in places if not each.startswith("/tmp/")]
    assert (facts.physical, facts.container, facts.programs) == (("eth0",), "", ())
    site = probe(facts).site
    assert (site.nodes.cpus, site.nodes.memory_gib, site.limits.memlock) == (2, 16, "limited")
    assert (site.limits.nofile, site.limits.pids) == (4096, 4096)


def test_version_1_of_cgroups_is_read_as_well(root: Path) -> None:
    put(root, "proc/self/cgroup", "5:cpu,cpuacct:/job_7\n4:memory:/job_7\n3:cpuset:/\n")
    (root / "sys/fs/cgroup/cgroup.controllers").unlink()
    put(root, "sys/fs/cgroup/cpu/job_7/cpu.cfs_quota_us", "300000\n")
    put(root, "sys/fs/cgroup/cpu/job_7/cpu.cfs_period_us", "100000\n")
    put(root, "sys/fs/cgroup/memory/job_7/memory.limit_in_bytes", str(8 << 30))
    facts = read_facts({"SLURM_JOB_ID": "7"}, root=root, driver=NO_DRIVER)
    assert (facts.processors.whole, facts.memory.usable) == (3, 8 << 30)


def test_mounts_of_the_system_hold_no_data() -> None:
    system = (
        "/",
        "/proc",
        "/dev/shm",
        "/etc/hosts",
        "/usr/lib/libcuda.so",
        "/run/x",
        "/opt/orbit",
        "/tmp",
        "/var/tmp/x",
    )
    assert data_mounts([mount(point) for point in system]) == ()
    assert data_mounts([mount("/data", "tmpfs"), mount("/x", "overlay"), mount("/y", "squashfs")]) == ()
    kept = [mount("/data"), mount("/optional"), mount("/library2", "nfs4"), mount("/home", "nfs4")]
    assert data_mounts(kept) == tuple(kept)
    assert data_mounts([mount("/data", "ext4"), mount("/data", "nfs4")]) == (mount("/data", "nfs4"),)


@pytest.mark.parametrize(
    ("files", "env", "top", "said"),
    [
        ((), {}, "ext4", ""),
        ((".dockerenv",), {}, "overlay", "docker"),
        (("run/.containerenv",), {}, "overlay", "podman"),
        (("run/.containerenv", ".dockerenv"), {}, "overlay", "podman"),
        ((".singularity.d/runscript",), {}, "overlay", "apptainer"),
        ((), {"APPTAINER_CONTAINER": "/x.sif"}, "overlay", "apptainer"),
        ((), {}, "enroot", "enroot"),
    ],
)
def test_the_signs_of_a_container(
    tmp_path: Path, files: tuple[str, ...], env: dict[str, str], top: str, said: str
) -> None:
    for name in files:
        put(tmp_path, name)
    options = ("rw", "lowerdir=/run/enroot/x") if top == "enroot" else ("rw",)
    assert find_container(tmp_path, env, [mount("/", "overlay", *options)]) == said


def test_pyxis_is_found_where_slurm_loads_it(tmp_path: Path) -> None:
    assert find_pyxis(tmp_path) == ""
    put(
        tmp_path,
        "etc/slurm/plugstack.conf",
        "# optional /usr/lib/spank_pyxis.so\ninclude /etc/slurm/plugstack.conf.d/*\n",
    )
    assert find_pyxis(tmp_path) == ""
    put(tmp_path, "etc/slurm/plugstack.conf.d/pyxis.conf", "required /usr/local/lib/slurm/spank_pyxis.so\n")
    assert find_pyxis(tmp_path) == "/etc/slurm/plugstack.conf.d/pyxis.conf"


def test_cards_on_the_bus_are_counted_whether_there_is_a_driver_or_not(tmp_path: Path) -> None:
    for number, (vendor, kind) in enumerate((("0x10de", "0x030200"), ("0x10de", "0x040300"), ("0x8086", "0x030000"))):
        put(tmp_path, f"sys/bus/pci/devices/{number}/vendor", f"{vendor}\n")
        put(tmp_path, f"sys/bus/pci/devices/{number}/class", f"{kind}\n")
    assert count_cards(tmp_path) == 1


def test_this_machine_is_read_and_gives_a_sound_site() -> None:
    facts = read_facts(dict(os.environ), devices=False)
    found = probe(facts, scheduler="docker")
    assert found.contradictions == ()
    assert found.site.nodes.cpus >= 1
    assert facts.taken.problem == ""
    assert facts.temporary is not None
    assert facts.temporary.flock == "works"
    assert "not tried (--no-devices)" in found.notes["limits.cuda_ipc"] or not found.site.limits.pidfd_getfd
