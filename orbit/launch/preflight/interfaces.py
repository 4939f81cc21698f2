"""Names of hosts, and the network interface on the way to the first node."""

from __future__ import annotations

import fcntl
import functools
import ipaddress
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.aside import Answer, LateError, aside
from orbit.launch.preflight.below import text
from orbit.launch.preflight.model import Check, State
from orbit.launch.preflight.say import failed, passed, skipped, warned

SIOCGIFADDR = 0x8915
NAMED_BY = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
BRIDGES = ("docker", "br-", "veth", "virbr", "cni", "flannel", "podman", "lxc")
DNS_PORT = 53
AGAIN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What became of asking for a name."""

    name: str
    addresses: tuple[str, ...] = ()
    problem: str = ""
    late: bool = False
    """No answer at all: that is a broken resolver, and no unknown name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Interfaces with their addresses, and the way to the first node."""

    interfaces: dict[str, tuple[str, ...]]
    own: Name
    head: Name | None = None
    route_interface: str = ""
    route_address: str = ""
    servers: tuple[str, ...] = ()
    """Name servers of /etc/resolv.conf."""


def read_network(root: Path, head: str, limit_s: float) -> Network:
    """Ask for this host's name and the first node's, both at once, and for the way to it; at most ``limit_s``."""
    own = socket.gethostname()
    asked = [
        (name, aside(functools.partial(resolve, name, limit_s - AGAIN_S)))
        for name in dict.fromkeys([own, *([head] if head else [])])
    ]
    names = [_value(answer, name, limit_s) for name, answer in asked]
    first = next((name for name in names if name.name == head), None) if head else None
    interfaces = read_interfaces(root)
    address = route_address(first.addresses[0]) if first is not None and first.addresses else ""
    return Network(
        interfaces=interfaces,
        own=names[0],
        head=first,
        route_address=address,
        route_interface=interface_of(address, interfaces),
        servers=tuple(w[1] for line in text(root, "etc/resolv.conf").splitlines()
                      if len(w := line.split()) > 1 and w[0] == "nameserver"),
    )  # fmt: skip


def resolve(name: str, patience_s: float = 0.0) -> Name:
    """Addresses of a name. Blocks as long as the resolver likes; one that fails for now is asked again meanwhile."""
    until = time.monotonic() + patience_s
    while True:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            break
        except (OSError, UnicodeError) as error:
            again = getattr(error, "errno", None) == socket.EAI_AGAIN
            if not again or time.monotonic() + AGAIN_S > until:
                return Name(name=name, problem=getattr(error, "strerror", None) or str(error), late=again)
            time.sleep(AGAIN_S)
    return Name(name=name, addresses=tuple(dict.fromkeys(str(each[4][0]) for each in found)))


def read_interfaces(root: Path) -> dict[str, tuple[str, ...]]:
    """Interface to its addresses: IPv4 by ioctl, IPv6 from /proc/net/if_inet6 (no link-local ones)."""
    found: dict[str, list[str]] = {}
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asking:
        for _, name in socket.if_nameindex():
            found[name] = []
            try:
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[name].append(socket.inet_ntoa(answer[20:24]))
            except OSError:
                continue
    for line in text(root, "proc/net/if_inet6").splitlines():
        words = line.split()
        if len(words) == 6 and not words[0].startswith("fe80"):
            found.setdefault(words[5], []).append(str(ipaddress.IPv6Address(int(words[0], 16))))
    return {name: tuple(addresses) for name, addresses in sorted(found.items())}


def route_address(to: str) -> str:
    """This host's address on the way to ``to``, as the kernel chooses; nothing is sent. Empty where there is no way."""
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as asking:
        try:
            asking.connect((to, DNS_PORT))
            return str(asking.getsockname()[0])
        except OSError:
            return ""


def interface_of(address: str, interfaces: Mapping[str, tuple[str, ...]]) -> str:
    """The interface that has ``address``; empty when none has."""
    return next((name for name, addresses in interfaces.items() if address and address in addresses), "")


def matches(pattern: str, interface: str) -> bool:
    """Whether NCCL takes ``interface`` for its variable: prefixes, ``=`` exact names, ``^`` none of them
    (NCCL, "Environment Variables")."""
    none = pattern.startswith("^")
    exact = pattern.lstrip("^").startswith("=")
    words = [word for word in pattern.lstrip("^=").split(",") if word]
    hit = any(interface == word if exact else interface.startswith(word) for word in words)
    return hit != none


def judge_network(network: Network, env: Mapping[str, str], *, several: bool) -> Iterator[Check]:
    """``own-name``, ``head-name`` and ``interface``; ``several``: whether the job has other nodes."""
    yield _own(network, several=several)
    yield _head(network)
    yield _interface(network, env)


def _own(network: Network, *, several: bool) -> Check:
    own, name = network.own, "own-name"
    if own.problem:
        text = f"this host's own name {own.name} has no address ({own.problem})"
        fix = f"add it to /etc/hosts ({network.route_address or 'ADDRESS'} {own.name}); docker: --hostname, --add-host"
        return failed(name, text, fix) if several else warned(name, text, fix)
    if several and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in own.addresses):
        text = f"this host's own name {own.name} means {own.addresses[0]}, which other nodes cannot reach"
        fix = f"give programs that announce their name the address {network.route_address or 'of an interface'}"
        return warned(name, text, fix, addresses=",".join(own.addresses))
    return passed(name, f"{own.name} is {own.addresses[0]}", addresses=",".join(own.addresses))


def _head(network: Network) -> Check:
    head, name = network.head, "head-name"
    if head is None:
        return skipped(name, "no first node is named: this is it, or nodes meet in a folder")
    servers = ", ".join(network.servers) or "none"
    if head.late:
        text = f"asking for {head.name}: {head.problem} (name servers: {servers})"
        return failed(name, text, "mend /etc/resolv.conf; Kubernetes, host network: dnsPolicy ClusterFirstWithHostNet")
    if head.problem:
        text = f"{head.name} has no address yet ({head.problem}; name servers: {servers}); the meeting goes on asking"
        fix = "Kubernetes: publishNotReadyAddresses in the headless service, the right cluster_domain in the site file"
        return warned(name, text, fix)
    return passed(name, f"{head.name} is {head.addresses[0]}", addresses=",".join(head.addresses))


def _interface(network: Network, env: Mapping[str, str]) -> Check:
    name = "interface"
    told = "; ".join(f"{each} {','.join(found)}" for each, found in network.interfaces.items() if found) or "none"
    named = [check for each in NAMED_BY if env.get(each) and (check := _named(network, each, env[each], told))]
    if named:
        return min(named, key=lambda check: check.state is not State.FAILED)
    found = {"interface": network.route_interface, "address": network.route_address, "all": told}
    if network.head is None or not network.head.addresses:
        return passed(name, f"interfaces: {told}", **found)
    if not network.route_address:
        text = f"there is no way to the first node ({network.head.addresses[0]}); interfaces: {told}"
        return failed(name, text, "no route leads to its network: ip route; docker: one network for all", **found)
    text = f"{network.route_interface or 'an interface'} ({network.route_address}) leads to the first node"
    return passed(name, text, **found)


def _named(network: Network, variable: str, pattern: str, told: str) -> Check | None:
    """What is wrong with the interfaces that a variable names."""
    chosen = [each for each in network.interfaces if matches(pattern, each)]
    usable = [each for each in chosen if network.interfaces[each]]
    fix = f"unset {variable}, or name one of these: {told}"
    if not chosen:
        return failed("interface", f"{variable}={pattern} names no interface of this node", fix)
    if not usable:
        return failed("interface", f"{variable}={pattern} means {', '.join(chosen)}, without an address", fix)
    route = network.route_interface
    if not route or route in usable:
        return None
    text = f"{variable}={pattern} means {', '.join(usable)}, the way to the first node is {route}"
    if all(each == "lo" or each.startswith(BRIDGES) for each in usable):
        return failed("interface", f"{text}; those reach nobody outside this node", fix)
    return warned("interface", text, f"right for a network of its own; else {fix}")


def _value(answer: Answer[Name], name: str, limit_s: float) -> Name:
    try:
        return answer.value(limit_s)
    except LateError as late:
        return Name(name=name, problem=str(late), late=True)
