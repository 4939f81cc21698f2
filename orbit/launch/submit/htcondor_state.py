"""What the ads of a cluster's processes say of a job. Pure.

Attributes and their values are those of the HTCondor manual ("Job ClassAd Attributes"); one process is one node.
"""

from __future__ import annotations

from typing import Any

from orbit.launch.submit.model import CANCELLED_AT, JobRef, JobStatus, Phase

IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING, SUSPENDED = range(1, 8)
NAMES = {
    IDLE: "idle",
    RUNNING: "running",
    REMOVED: "removed",
    COMPLETED: "completed",
    HELD: "held",
    TRANSFERRING: "transferring output",
    SUSPENDED: "suspended",
}
ATTRIBUTES = ",".join(
    ("ProcId", "JobStatus", "ExitCode", "ExitBySignal", "ExitSignal", "HoldReason", "RemoveReason", "RemoteHost",
     "LastRemoteHost", "NumJobStarts")
)  # fmt: skip


def read_state(ref: JobRef, queued: list[dict[str, Any]], ended: list[dict[str, Any]]) -> JobStatus:
    """The status of the job: ``queued`` are the ads of condor_q, ``ended`` those of condor_history."""
    ads = {ad["ProcId"]: ad for ad in (*ended, *queued) if "ProcId" in ad}
    in_queue = {ad["ProcId"] for ad in queued if "ProcId" in ad}
    if not ads:
        host, folder = ref.details.get("host", "this machine"), ref.details.get("folder", "")
        return JobStatus(
            phase=Phase.CANCELLED if CANCELLED_AT in ref.details else Phase.GONE,
            state="not found",
            message=f"neither condor_q nor condor_history of {host} knows it; {folder}/{ref.name}.log may tell more",
        )
    hosts = (str(ad.get("RemoteHost") or ad.get("LastRemoteHost") or "") for _, ad in sorted(ads.items()))
    nodes = tuple(dict.fromkeys(host.rpartition("@")[2] for host in hosts if host))
    if in_queue:
        phase, state, message = _alive(ref, ads, in_queue)
        return JobStatus(phase=phase, state=state, message=message, nodes=nodes)
    phase, state, message, code = _over(ref, ads)
    return JobStatus(phase=phase, state=state, message=message, exit_code=code, nodes=nodes)


def all_run(ref: JobRef, queued: list[dict[str, Any]], ended: list[dict[str, Any]]) -> bool:
    """Whether every node has begun, so that no file has to be transferred to one any more."""
    begun = [ad for ad in queued if ad.get("JobStatus") in (RUNNING, TRANSFERRING, REMOVED)]
    return len(begun) == len(queued) and len(queued) + len(ended) >= ref.nodes


def _alive(ref: JobRef, ads: dict[int, dict[str, Any]], in_queue: set[int]) -> tuple[Phase, str, str]:
    said = {rank: int(ads[rank].get("JobStatus", IDLE)) for rank in in_queue}
    held = [rank for rank, status in sorted(said.items()) if status == HELD]
    if held:
        reason = str(ads[held[0]].get("HoldReason", ""))
        return Phase.WAITING, "held", f"node {held[0]}: {reason}; it is removed an hour after it was held"
    if REMOVED in said.values() or 0 not in in_queue:
        return Phase.STOPPING, "removed" if REMOVED in said.values() else "its first node has ended", ""
    waiting = sum(status == IDLE for status in said.values())
    message = f"{waiting} of {ref.nodes} nodes wait for a machine: condor_q -better-analyze {ref.id}" if waiting else ""
    phase = Phase.WAITING if said[0] == IDLE else Phase.RUNNING
    return phase, NAMES.get(said[0], str(said[0])), message


def _over(ref: JobRef, ads: dict[int, dict[str, Any]]) -> tuple[Phase, str, str, int | None]:
    """All nodes have left the queue: the first node's status is the job's, unless it is 0 and another's is not."""
    codes = {rank: _code(ad) for rank, ad in sorted(ads.items())}
    removed = next((ad for _, ad in sorted(ads.items()) if ad.get("JobStatus") == REMOVED), None)
    if removed is not None:
        reason = str(removed.get("RemoveReason", ""))
        by_hand = "condor_rm" in reason or CANCELLED_AT in ref.details
        return Phase.CANCELLED if by_hand else Phase.FAILED, "removed", reason, codes.get(0)
    bad = next(((rank, code) for rank, code in codes.items() if code), None)
    if bad:
        return Phase.FAILED, "completed", f"node {bad[0]} ended with status {bad[1]}", bad[1]
    if len(codes) < ref.nodes or None in codes.values():
        return Phase.GONE, "completed", "the history does not have all of its nodes any more", None
    return Phase.SUCCEEDED, "completed", "", 0


def _code(ad: dict[str, Any]) -> int | None:
    """Status of a node; one that a signal ended has 128 and its number, as a shell says."""
    if ad.get("ExitBySignal"):
        return 128 + int(ad.get("ExitSignal", 0))
    code = ad.get("ExitCode")
    return int(code) if isinstance(code, int) else None
