"""Of a node: the mounts that hold data, what works there, which of them is scratch and which is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orbit.launch.preflight.mounts import Mounted
from orbit.launch.preflight.rules import load_rules
from orbit.launch.preflight.say import GIB, size
from orbit.launch.preflight.storage import Tried
from orbit.launch.site.check import paths_at_fault
from orbit.launch.site.facts import NodeFacts

if TYPE_CHECKING:
    from orbit.launch.site.probe import Draft

MARK = "NOT FOUND:"
KINDS = {
    "nfs": "nfs", "nfs4": "nfs", "lustre": "lustre", "gpfs": "gpfs", "beegfs": "beegfs", "beegfs_nodev": "beegfs",
    "ceph": "ceph", "fuse.ceph": "ceph", "fuse.ceph-fuse": "ceph", "ext2": "local", "ext3": "local", "ext4": "local",
    "xfs": "local", "btrfs": "local", "zfs": "local", "f2fs": "local", "bcachefs": "local", "reiserfs": "local",
}  # fmt: skip
"""Type of a file system (/proc/filesystems) -> what a site file calls it; all others are ``other``."""
GIVEN = {"slurm": ("SLURM_TMPDIR",), "htcondor": ("_CONDOR_SCRATCH_DIR",)}
"""Folders that a scheduler gives each job."""


def storage(facts: NodeFacts, scheduler: str, draft: Draft) -> None:
    """``[storage]`` and its mounts."""
    kept: list[tuple[Mounted, Tried]] = []
    draft.values.setdefault("storage", {})["mounts"] = []
    for mount in facts.mounts:
        tried = facts.tried.get(mount.point, Tried(folder=mount.point, problem="not tried"))
        if fault := paths_at_fault(mount.point):
            draft.left_out.append(f"{mount.point} ({mount.kind}): {fault}")
        elif tried.error == "ENOTDIR":
            draft.left_out.append(f"{mount.point} ({mount.kind}): a file, not a folder")
        elif tried.error == "ETIMEDOUT":
            draft.left_out.append(f"{mount.point} ({mount.kind}): {tried.problem}")
        else:
            kept.append((mount, tried))
            _mount(facts, mount, tried, draft)
    _scratch(facts, scheduler, kept, draft)
    _shared(facts, kept, draft)


def _mount(facts: NodeFacts, mount: Mounted, tried: Tried, draft: Draft) -> None:
    mounts = draft.values["storage"]["mounts"]
    at = f"storage.mounts.{len(mounts)}"
    inside = bool(facts.container)
    host = f"{MARK} the path on the node; a container does not see it" if inside else "mounted there"
    remote = _remote(mount)
    kind = KINDS.get(mount.kind, "other")
    read_only = "ro" in mount.options or tried.error == "EROFS"
    locks, how = _locks(mount, tried)
    noexec = "noexec" in mount.options or (not tried.problem and not tried.executes)
    why = "mounted noexec" if "noexec" in mount.options else "tried: code cannot be mapped from there"
    mounts.append({
        "host": mount.point, "container": mount.point, "read_only": read_only, "file_system": kind, "shared": remote,
        "locks": locks, "noexec": noexec,
    })  # fmt: skip
    other = "served by or for other machines; that all nodes see the same was not tried"
    draft.notes |= {
        at: f"{mount.kind}, {size(tried.free)} free" if tried.total else mount.kind,
        f"{at}.host": host,
        f"{at}.container": "the same place; choose another one where a recipe wants it",
        f"{at}.read_only": "mounted ro" if read_only else _written(tried),
        f"{at}.file_system": f"type {mount.kind}",
        f"{at}.shared": other if remote else "a disk of this node",
        f"{at}.locks": how,
        f"{at}.noexec": why if noexec else ("tried: code can be mapped" if not tried.problem else "not in the options"),
    }


def _remote(mount: Mounted) -> bool:
    return mount.is_remote(load_rules().files) or KINDS.get(mount.kind, "local") not in ("local", "other")


def _written(tried: Tried) -> str:
    return f"not written to: {tried.problem}" if tried.problem else f"tried: a file was written in {tried.at}"


def _locks(mount: Mounted, tried: Tried) -> tuple[bool, str]:
    local = mount.local_locks(load_rules().files)
    if tried.problem:
        return False, f"{MARK} flock could not be tried ({tried.problem}); taken for none"
    if tried.flock != "works":
        return False, f"tried: flock {tried.flock or 'gave no answer'}"
    if local:
        return False, f"mounted {local}: flock holds on this node only"
    return True, f"tried in {tried.at}: a second holder was kept out"


def _scratch(facts: NodeFacts, scheduler: str, kept: list[tuple[Mounted, Tried]], draft: Draft) -> None:
    free = facts.temporary.free // GIB if facts.temporary and not facts.temporary.problem else 0
    for variable in GIVEN.get(scheduler, ()):
        if facts.env.get(variable):
            draft.put("storage.scratch", "", f"{variable} is set: each job gets a folder of its own")
            draft.put("storage.scratch_gib", 0, f"{MARK} what a job may count on there")
            return
    fit = [
        (mount, tried) for mount, tried in kept
        if KINDS.get(mount.kind) == "local" and not tried.problem and tried.executes and tried.flock == "works"
        and "ro" not in mount.options and "noexec" not in mount.options
    ]  # fmt: skip
    best = max(fit, key=lambda pair: pair[1].free, default=None)
    if best is not None and best[1].free // GIB > free:
        others = f"; of {len(fit)} disks the one with the most room" if len(fit) > 1 else ""
        draft.put("storage.scratch", best[0].point, f"a disk of the node where all was tried{others}")
        draft.put("storage.scratch_gib", best[1].free // GIB, "free now")
        return
    draft.put("storage.scratch", "", "no disk of the node has more room than the folder for temporary files, or /tmp")
    known = f"free there now (tried in {facts.temporary.at})" if free and facts.temporary else f"{MARK} room there"
    draft.put("storage.scratch_gib", free, known)


def _shared(facts: NodeFacts, kept: list[tuple[Mounted, Tried]], draft: Draft) -> None:
    del facts
    fit = [(m, t) for m, t in kept if _remote(m) and not t.problem and "ro" not in m.options]
    best = max(fit, key=lambda pair: (_locks(*pair)[0], pair[1].free), default=None)
    if best is None:
        draft.put("storage.shared", "", "no network file system here can be written to")
        return
    others = f"; of {len(fit)} the one with locks and the most room" if len(fit) > 1 else ""
    draft.put("storage.shared", best[0].point, f"a network file system that can be written to{others}")
