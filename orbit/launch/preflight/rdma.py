"""RDMA: what the host has, and what of it can be used in this container."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import names, text
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.say import failed, passed, skipped, warned

ADD = "docker, podman: --device /dev/infiniband --ulimit memlock=-1; Kubernetes: request the rdma resource of the site"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One device of /sys/class/infiniband."""

    name: str
    node: str
    """Its device file, ``uverbs0``; empty when the system does not say."""
    present: bool
    """Whether that file is in this container."""
    active: bool
    """Whether one of its ports is up."""
    addressed: bool
    """Whether one of its ports has an address (GID) other than zero."""

    @property
    def usable(self) -> bool:
        """All of it."""
        return self.present and self.active and self.addressed


def read_rdma(root: Path) -> tuple[Adapter, ...]:
    """Adapters of /sys and device files of /dev below ``root``."""
    files = names(root, "dev/infiniband")
    found = []
    for name in names(root, "sys/class/infiniband"):
        at = f"sys/class/infiniband/{name}"
        node = next(iter(names(root, f"{at}/device/infiniband_verbs")), "")
        ports = [f"{at}/ports/{port}" for port in names(root, f"{at}/ports")]
        gids = [text(root, f"{port}/gids/{each}").strip() for port in ports for each in names(root, f"{port}/gids")]
        found.append(
            Adapter(
                name=name,
                node=node,
                present=node in files if node else any(file.startswith("uverbs") for file in files),
                active=any("ACTIVE" in text(root, f"{port}/state") for port in ports),
                addressed=any(gid.replace("0", "").strip(":") for gid in gids),
            )
        )
    return tuple(found)


def judge_rdma(adapters: tuple[Adapter, ...], demand: Demand) -> Iterator[Check]:
    """``rdma``: an error where it is required, else told."""
    name = "rdma"
    usable = [adapter.name for adapter in adapters if adapter.usable]
    found = {"usable": ",".join(usable), "all": ",".join(adapter.name for adapter in adapters)}
    if demand.rdma == "none":
        yield skipped(name, "RDMA is not asked for", **found)
        return
    if usable:
        rest = len(adapters) - len(usable)
        more = f", {rest} more cannot be used" if rest else ""
        yield passed(name, f"{len(usable)} RDMA devices can be used ({', '.join(usable)}){more}", **found)
        return
    problem, fix = _problem(adapters)
    if demand.rdma == "required":
        yield failed(name, f"{problem}, and RDMA is required", fix, **found)
    else:
        yield warned(name, f"{problem}: NCCL falls back to TCP, which is slow", fix, **found)


def _problem(adapters: tuple[Adapter, ...]) -> tuple[str, str]:
    if not adapters:
        return "this node shows no RDMA device", "take nodes with RDMA, or set rdma = 'none'"
    all_names = ", ".join(adapter.name for adapter in adapters)
    here = [adapter for adapter in adapters if adapter.present]
    if not here:
        return f"the host has RDMA ({all_names}), but its device files are not in this container", ADD
    if not any(adapter.active for adapter in here):
        return f"no port of {all_names} is active", "look at the cable and the subnet manager: ibstat on the node"
    return (
        f"no active port of {all_names} has an address (GID) in this container",
        "use the host's network, or give the container the interface of the device (macvlan, SR-IOV)",
    )
