"""Whether a proxy would get what is meant for this node or another one of the job."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence

from orbit.launch.preflight.model import Check
from orbit.launch.preflight.say import failed, passed, warned

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
OWN = ("localhost", "127.0.0.1")


def spared(host: str, no_proxy: str) -> str:
    """How ``no_proxy`` covers ``host``: ``yes``, ``network`` (only by a network such as 10.0.0.0/8), or empty."""
    entries = [entry.strip().lower() for entry in no_proxy.replace(" ", ",").split(",") if entry.strip()]
    name = host.lower()
    for entry in entries:
        bare = entry.lstrip("*").lstrip(".")
        if entry == "*" or name == bare or (bare and name.endswith(f".{bare}")):
            return "yes"
    try:
        address = ipaddress.ip_address(name)
        if any(address in ipaddress.ip_network(entry, strict=False) for entry in entries if "/" in entry):
            return "network"
    except ValueError:
        pass
    return ""


def judge_proxy(env: Mapping[str, str], nodes: Sequence[str]) -> Iterator[Check]:
    """``proxy``: this node by its usual names, and ``nodes`` (names and addresses of the job's, as far as known)."""
    name = "proxy"
    used = sorted({key for key in (*PROXIES, *map(str.upper, PROXIES)) if env.get(key)})
    if not used:
        yield passed(name, "no proxy is set")
        return
    hosts = tuple(dict.fromkeys([*OWN, *(node for node in nodes if node)]))
    for variable in ("no_proxy", "NO_PROXY"):
        past = env.get(variable, "")
        if variable == "NO_PROXY" and not past and env.get("no_proxy"):
            continue  # programs that know one spelling only mostly know this one
        missing = [host for host in hosts if not spared(host, past)]
        whole = ",".join([*([past] if past else []), *missing])
        fix = f"export no_proxy={whole} NO_PROXY={whole}; orbit-entrypoint adds this host's own names"
        if missing:
            text = f"{used[0]} is set, and {variable} does not spare {', '.join(missing)}: it would go to the proxy"
            yield failed(name, text, fix, no_proxy=past)
            return
        networks = [host for host in hosts if spared(host, past) == "network"]
        if networks:
            text = f"{variable} spares {networks[0]} by a network only, which not every program understands"
            whole = ",".join([past, *networks])
            yield warned(name, text, f"export no_proxy={whole} NO_PROXY={whole}", no_proxy=past)
            return
    yield passed(name, f"{used[0]} is set, and {', '.join(hosts)} are spared", no_proxy=env.get("no_proxy", ""))
