"""What contradicts itself in a site file, beyond wrong keys and types: each with the two keys, and what to do.

What a scheduler's own table says is judged in :mod:`orbit.launch.site.schedulers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from orbit.launch.site import schedulers

if TYPE_CHECKING:
    from orbit.launch.site.model import Mount, Site

type Problem = tuple[str, str]
"""What is wrong and where; what to do."""

NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
REPOSITORY = re.compile(r"^[a-z0-9]+(?:[._:/-][a-zA-Z0-9_.-]+)*$")
PROXY = re.compile(r"^https?://[^/@:\s]+:[0-9]+/?$")
SECRET = re.compile(r"(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|PRIVATE_KEY)", re.IGNORECASE)
UNSPEAKABLE = re.compile(r"""[,:"'\\\x00-\x1f\x7f]""")
"""No way to quote these in the mounts of docker, pyxis and Apptainer."""
USER = "${USER}"
PERSONAL = ("home", "Users", "root")
"""First part of paths that are one person's: below them only ``${USER}``'s own folder is the same for everybody."""
TAKEN = ("/proc", "/sys", "/dev", "/opt/orbit", "/run/orbit")
"""Container paths that hold the system, the image's environment or the job's own token."""
FREE = "/tmp"  # noqa: S108 - every container has one, with or without a mount
REMOTE = ("nfs", "lustre", "gpfs", "beegfs", "ceph")
GIVEN = ("CUDA_VISIBLE_DEVICES", "ORBIT_IMAGE_DIGEST", "ORBIT_OWNER_FILE")
"""Variables that the scheduler or the launcher sets for each job."""
PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def problems(site: Site) -> tuple[Problem, ...]:
    """Everything that contradicts itself in ``site``, in the order of the file; empty for a sound one."""
    found: list[Problem] = []
    for part in (_numbers, _nodes, schedulers.runtimes, schedulers.own_tables, _image, _mounts, _storage, _network,
                 _limits, _user, _environment):  # fmt: skip
        found += part(site)
    return tuple(found)


def _numbers(site: Site) -> Iterator[Problem]:
    if not NAME.match(site.name):
        yield f"name = {site.name!r}", "a-z, 0-9 and '-', at most 63, beginning and ending with none of '-'"
    for key, value, least in (
        ("nodes.gpus", site.nodes.gpus, 0),
        ("nodes.cpus", site.nodes.cpus, 1),
        ("nodes.memory_gib", site.nodes.memory_gib, 1),
        ("nodes.most", site.nodes.most, 1),
        ("storage.scratch_gib", site.storage.scratch_gib, 0),
        ("limits.shm_gib", site.limits.shm_gib, 0),
        ("limits.nofile", site.limits.nofile, 1),
        ("limits.pids", site.limits.pids, 0),
        ("user.uid", site.user.uid, 0),
        ("user.gid", site.user.gid, 0),
    ):
        if value < least:
            yield f"{key} = {value}", f"at least {least}"


def _nodes(site: Site) -> Iterator[Problem]:
    nodes, limits = site.nodes, site.limits
    if nodes.gpus > 0 and not nodes.gpu:
        yield f"nodes.gpus = {nodes.gpus} without nodes.gpu", "name the device as nvidia-smi -L does: gpu = 'H100'"
    if nodes.gpus == 0 and nodes.gpu:
        yield f"nodes.gpu = {nodes.gpu!r} with nodes.gpus = 0", "remove nodes.gpu, or say how many there are"
    if limits.shm_gib > nodes.memory_gib:
        what = f"limits.shm_gib = {limits.shm_gib} is more than nodes.memory_gib = {nodes.memory_gib}"
        yield what, "it is main memory, too: at most nodes.memory_gib"


def _image(site: Site) -> Iterator[Problem]:
    image = site.image
    form = f"image.form = {image.form!r}"
    if image.form == "registry" and image.path:
        yield f"image.path = {image.path!r} with {form}", "remove image.path, or name the form of the file"
    if image.form != "registry":
        if not image.path:
            yield f"{form} without image.path", "name the folder on the node that holds it"
        else:
            yield from _host_path("image.path", image.path)
    if "/" in image.orbit:
        yield from _host_path("image.orbit", image.orbit)
    if image.repository and not REPOSITORY.match(image.repository):
        fix = "registry.example.org/team/orbit: no docker://, no tag and no digest, those are the recipe's"
        yield f"image.repository = {image.repository!r} is no repository", fix
    last = image.repository.rpartition("/")[2]
    if REPOSITORY.match(image.repository) and "/" in image.repository and ":" in last:
        yield f"image.repository = {image.repository!r} has a tag", f"remove :{last.partition(':')[2]}"


def _mounts(site: Site) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for number, mount in enumerate(site.storage.mounts):
        where = f"storage.mounts[{number}]"
        yield from _host_path(f"{where}.host", mount.host)
        yield from _container_path(f"{where}.container", mount.container)
        target = mount.container.rstrip("/")
        if target in seen:
            yield f"{where}.container and storage.mounts[{seen[target]}].container are both {target}", "remove one"
        seen[target] = number
        yield from _kind(where, mount)
        if site.image.runtime == "none" and mount.host.rstrip("/") != target:
            what = f"{where}.host = {mount.host!r} is not its container path, and image.runtime = 'none'"
            yield what, "without containers nothing is moved: write the same path twice, or remove the mount"


def _kind(where: str, mount: Mount) -> Iterator[Problem]:
    if mount.shared and mount.file_system == "local":
        fix = "name the file system (nfs, lustre, ..., other), or remove shared"
        yield f"{where}.shared = true with {where}.file_system = 'local'", fix


def _host_path(key: str, path: str) -> Iterator[Problem]:
    """``path`` is the same folder for every user of the site, absolute and without other variables."""
    if not path.startswith("/"):
        fix = f"an absolute path on the node ({USER} may be a part of it)"
        yield f"{key} = {path!r} is not absolute", fix
        return
    if "$" in path.replace(USER, ""):
        yield f"{key} = {path!r} has a variable", f"only {USER} is replaced there"
    if ".." in PurePosixPath(path).parts:
        yield f"{key} = {path!r} has a part '..'", "write the path without it"
    if found := UNSPEAKABLE.search(path):
        yield f"{key} = {path!r} has {found[0]!r}", "no mount can name it: use a link without that character"
    parts = path.replace(USER, "\0").split("/")[1:]
    if parts[0] == "root" or (parts[0] in PERSONAL and len(parts) > 1 and parts[1] and "\0" not in parts[1]):
        yield f"{key} = {path!r} is one person's", f"write {USER} for the name, or name a folder of the project"


def _container_path(key: str, path: str) -> Iterator[Problem]:
    if not path.startswith("/") or ".." in PurePosixPath(path).parts:
        yield f"{key} = {path!r} is not absolute", "an absolute path in the container, without '..'"
    elif path.rstrip("/") == "":
        yield f"{key} = '/' hides the image", "mount the folders that are needed, each at a path of its own"
    elif found := UNSPEAKABLE.search(path):
        yield f"{key} = {path!r} has {found[0]!r}", "no mount can name it: choose another path"
    elif "$" in path:
        yield f"{key} = {path!r} has a variable", f"{USER} is replaced in host paths only"
    elif taken := next((place for place in TAKEN if f"{path.rstrip('/')}/".startswith(f"{place}/")), ""):
        yield f"{key} = {path!r} hides {taken}", "another path: /data, /scratch, /shared"


def _storage(site: Site) -> Iterator[Problem]:
    storage = site.storage
    bare = site.image.runtime == "none"
    for key, path in (("storage.scratch", storage.scratch), ("storage.shared", storage.shared)):
        if not path:
            continue
        if bare:
            yield from _host_path(key, path)
        else:
            yield from _container_path(key, path)
        mount = mount_of(path, storage.mounts)
        made = key.endswith("scratch") and (_is_below(path, FREE) or schedulers.makes_scratch(site))
        if mount is None and path.startswith("/") and not bare and not made:
            yield f"{key} = {path!r} is in none of storage.mounts", f"add a mount whose container path is {path}"
        if mount is None:
            continue
        where = f"storage.mounts[{storage.mounts.index(mount)}]"
        if mount.read_only:
            yield f"{key} = {path!r} lies in {where}, which has read_only = true", "jobs write there: remove read_only"
        yield from (_scratch_on if key.endswith("scratch") else _shared_on)(path, where, mount)
    if storage.scratch and storage.scratch.rstrip("/") == storage.shared.rstrip("/"):
        what = f"storage.scratch and storage.shared are both {storage.scratch!r}"
        yield what, "scratch is a disk of one node, shared is seen by all: name two folders"


def _scratch_on(path: str, where: str, mount: Mount) -> Iterator[Problem]:
    if mount.shared or mount.file_system in REMOTE:
        kind = "shared = true" if mount.shared else f"file_system = {mount.file_system!r}"
        fix = "name a disk of the node, or leave storage.scratch out: /tmp or the scheduler's own folder is used then"
        yield f"storage.scratch = {path!r} lies in {where}, which has {kind}", fix
    elif not mount.locks:
        fix = "caches of compiled kernels take locks: name a disk where flock works"
        yield f"storage.scratch = {path!r} lies in {where}, which has locks = false", fix
    if mount.noexec:
        fix = "compiled kernels are loaded from there: name a disk that is mounted exec"
        yield f"storage.scratch = {path!r} lies in {where}, which has noexec = true", fix


def _shared_on(path: str, where: str, mount: Mount) -> Iterator[Problem]:
    if not mount.shared:
        what = f"storage.shared = {path!r} lies in {where}, which has shared = false"
        yield what, f"set {where}.shared = true if all nodes see the same files there"


def _network(site: Site) -> Iterator[Problem]:
    network = site.network
    if network.proxy and not PROXY.match(network.proxy):
        told = "holds a password" if "@" in network.proxy else f"= {network.proxy!r} is no proxy"
        yield f"network.proxy {told}", "write http://host:port; a user and password are secrets of the recipe"
    if network.no_proxy and not network.proxy:
        yield "network.no_proxy without network.proxy", "name the proxy, or remove no_proxy"
    if network.rdma == "required" and site.limits.memlock == "limited":
        what = "network.rdma = 'required' with limits.memlock = 'limited'"
        yield what, "RDMA locks gigabytes: set limits.memlock = 'unlimited' once the node allows it, or rdma = 'wanted'"


def _limits(site: Site) -> Iterator[Problem]:
    if site.limits.cuda_ipc and not site.limits.pidfd_getfd:
        what = "limits.cuda_ipc = true with limits.pidfd_getfd = false"
        yield what, "set limits.cuda_ipc = false: torch takes memory of another process by pidfd_getfd"


def _user(site: Site) -> Iterator[Problem]:
    user, policy = site.user, f"user.policy = {site.user.policy!r}"
    if user.policy != "fixed" and (user.uid, user.gid) != (65534, 65534):
        yield f"user.uid or user.gid with {policy}", "set user.policy = 'fixed', or remove them"
    if user.policy == "caller" and site.scheduler == "kubernetes":
        what = f"{policy} with scheduler = 'kubernetes'"
        yield what, "a cluster does not know the caller's uid there: 'fixed' with uid and gid, 'image' or 'any'"
    if user.policy == "fixed" and site.image.runtime in ("apptainer", "pyxis", "none"):
        what = f"{policy} with image.runtime = {site.image.runtime!r}"
        yield what, "it runs everything as the caller: user.policy = 'caller'"


def _environment(site: Site) -> Iterator[Problem]:
    for name, value in site.environment.items():
        key = f"environment.{name}"
        if not VARIABLE.match(name) or "\0" in value:
            yield f"{key} is no variable of a process", "letters, digits and '_', and no NUL in the value"
        if SECRET.search(name) and value:
            yield f"{key} looks like a secret in clear text", "name it in launch.secrets of the recipe instead"
        if name in GIVEN:
            yield f"{key} is set for each job", "remove it: the scheduler and the launcher know the value"
        if name.lower() in PROXIES:
            yield f"{key} and network.proxy are two places for one thing", "use network.proxy and network.no_proxy"
        if name == "ORBIT_STATE" and site.storage.scratch:
            yield f"{key} and storage.scratch are two places for one thing", "remove the variable"


def paths_at_fault(path: str) -> str:
    """Why ``path`` can be no mount of a site, neither on the node nor in a container; empty when it can."""
    found = [*_host_path("host", path), *_container_path("container", path)]
    return found[0][0].partition(" = ")[2] if found else ""


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount that the container path ``path`` lies in; the innermost of several, None when there is none."""
    inside = [mount for mount in mounts if _is_below(path, mount.container)]
    return max(inside, key=lambda mount: len(mount.container.rstrip("/")), default=None)


def _is_below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
