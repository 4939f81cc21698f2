"""interfaces, proxy, ports, rdma and clock: what the network of a node can have wrong."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from orbit.launch.preflight import interfaces
from orbit.launch.preflight.clock import Skew, judge_clock, skew
from orbit.launch.preflight.interfaces import Name, Network, judge_network, matches, read_interfaces, read_network
from orbit.launch.preflight.model import Demand, State
from orbit.launch.preflight.ports import Ports, judge_ports, read_ports
from orbit.launch.preflight.proxy import judge_proxy, spared
from orbit.launch.preflight.rdma import judge_rdma, read_rdma
from tests.launch.preflight.made import RULES, Machine, only

CARDS = {"lo": ("127.0.0.1",), "eth0": ("10.0.0.7",), "docker0": ("172.17.0.1",), "ib0": ("192.168.5.7",), "eth1": ()}
OWN = Name(name="n7", addresses=("10.0.0.7",))
HEAD = Name(name="n0", addresses=("10.0.0.1",))


def network(**values: object) -> Network:
    usual: dict[str, object] = {"interfaces": CARDS, "own": OWN, "head": HEAD, "route_interface": "eth0",
                                "route_address": "10.0.0.7", "servers": ("10.0.0.2",)}  # fmt: skip
    return Network(**(usual | values))  # type: ignore[arg-type]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "several", "state"),
    [
        (OWN, True, State.PASSED),
        (Name(name="n7", problem="Name or service not known"), True, State.FAILED),
        (Name(name="n7", problem="Name or service not known"), False, State.WARNING),
        (Name(name="n7", addresses=("127.0.1.1",)), True, State.WARNING),
        (Name(name="n7", addresses=("127.0.1.1",)), False, State.PASSED),
        (Name(name="n7", addresses=("fe80::1%eth0",)), True, State.PASSED),
    ],
)
def test_own_name(own: Name, several: bool, state: State) -> None:
    assert only(judge_network(network(own=own), {}, several=several), "own-name").state is state


def test_a_head_that_is_not_there_yet_is_waited_for_and_a_broken_resolver_is_not() -> None:
    unknown = only(judge_network(network(head=Name(name="h", problem="unknown")), {}, several=True), "head-name")
    assert unknown.state is State.WARNING
    assert "publishNotReadyAddresses" in unknown.fix
    broken = network(head=Name(name="h", problem="no answer within 4 s", late=True))
    check = only(judge_network(broken, {}, several=True), "head-name")
    assert check.state is State.FAILED
    assert "name servers: 10.0.0.2" in check.message


def test_a_resolver_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "resolve", lambda _name, _patience: time.sleep(600))
    began = time.monotonic()
    found = read_network(Path("/"), "head.example", 0.3)
    assert time.monotonic() - began < 30
    assert found.own.late
    assert found.head is not None
    assert found.head.late


def test_a_resolver_that_fails_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [True, False]

    def ask(name: str, *_args: object, **_more: object) -> list[tuple[object, ...]]:
        if left.pop(0):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(0, 0, 0, "", ("10.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(interfaces, "AGAIN_S", 0.01)
    assert interfaces.resolve("n0", 5.0).addresses == ("10.0.0.1",)
    left[:] = [True] * 3
    assert interfaces.resolve("n0").late


def test_a_name_that_is_none() -> None:
    assert interfaces.resolve("a" * 300).problem


def test_the_way_to_a_real_place() -> None:
    found = read_network(Path("/"), "127.0.0.1", 10.0)
    assert (found.route_interface, found.route_address) == ("lo", "127.0.0.1")
    assert "127.0.0.1" in read_interfaces(Path("/"))["lo"]


# --- the interface ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "interface", "hit"),
    [("eth", "eth0", True), ("=eth", "eth0", False), ("=eth0", "eth0", True), ("^docker,lo", "eth0", True),
     ("^docker,lo", "docker0", False), ("^=lo", "lo", False), ("ib0,eth0", "eth0", True)],
)  # fmt: skip
def test_names_as_nccl_reads_them(pattern: str, interface: str, hit: bool) -> None:
    assert matches(pattern, interface) is hit


@pytest.mark.parametrize(
    ("value", "state", "word"),
    [
        ("eth0", State.PASSED, "leads to the first node"),
        ("", State.PASSED, "leads to the first node"),
        ("bond0", State.FAILED, "names no interface"),
        ("eth1", State.FAILED, "without an address"),
        ("docker0", State.FAILED, "nobody outside"),
        ("=lo", State.FAILED, "nobody outside"),
        ("ib0", State.WARNING, "the way to the first node is eth0"),
        ("^lo,docker", State.PASSED, "leads"),
    ],
)
def test_a_users_interface(value: str, state: State, word: str) -> None:
    check = only(judge_network(network(), {"NCCL_SOCKET_IFNAME": value}, several=True), "interface")
    assert check.state is state
    assert word in check.message
    if state is State.FAILED:
        assert "eth0 10.0.0.7; " in check.fix, "interfaces are listed with their addresses"


def test_no_way_to_the_head() -> None:
    check = only(judge_network(network(route_address="", route_interface=""), {}, several=True), "interface")
    assert check.state is State.FAILED


# --- proxy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "no_proxy", "how"),
    [("localhost", "localhost,127.0.0.1", "yes"), ("n1.corp.test", ".corp.test", "yes"),
     ("n1.corp.test", "corp.test", "yes"),
     ("xcorp.test", "corp.test", ""), ("10.0.0.7", "10.0.0.0/8", "network"), ("10.0.0.7", "10.0.0", ""),
     ("a", "*", "yes"),
     ("n1.corp.test", "*.corp.test", "yes"), ("a", "", "")],
)  # fmt: skip
def test_what_no_proxy_spares(host: str, no_proxy: str, how: str) -> None:
    assert spared(host, no_proxy) == how


def test_a_proxy_that_gets_what_is_for_us() -> None:
    env = {"http_proxy": "http://p:3128", "no_proxy": "localhost"}
    check = only(judge_proxy(env, ["n7", "10.0.0.1"]), "proxy")
    assert check.state is State.FAILED
    assert "does not spare 127.0.0.1, n7, 10.0.0.1" in check.message
    assert "export no_proxy=localhost,127.0.0.1,n7,10.0.0.1" in check.fix
    good = {**env, "no_proxy": "localhost,127.0.0.1,n7,10.0.0.1"}
    assert only(judge_proxy(good, ["n7", "10.0.0.1"]), "proxy").state is State.PASSED
    net = {**env, "no_proxy": "localhost,127.0.0.1,n7,10.0.0.0/8"}
    assert only(judge_proxy(net, ["n7", "10.0.0.1"]), "proxy").state is State.WARNING
    assert only(judge_proxy({}, ["n7"]), "proxy").state is State.PASSED
    two = {**good, "NO_PROXY": "localhost"}
    assert only(judge_proxy(two, ["n7"]), "proxy").state is State.FAILED, "programs read either spelling"


# --- ports ------------------------------------------------------------------------------------------------------------


def test_one_free_port_is_enough() -> None:
    with closing(socket.socket()) as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen(1)
        taken = squatter.getsockname()[1]
        with closing(socket.socket()) as other:
            other.bind(("127.0.0.1", 0))
            free = other.getsockname()[1]
        found = read_ports(Path("/"), [taken, free])
        assert set(found.busy) == {taken}
        assert only(judge_ports(found), "ports").state is not State.FAILED
        none = only(judge_ports(read_ports(Path("/"), [taken])), "ports")
        assert none.state is State.FAILED
        assert f"{taken} (in use)" in none.message


def test_ports_that_the_kernel_gives_away(tmp_path: Path) -> None:
    Machine(tmp_path).write("/proc/sys/net/ipv4/ip_local_port_range", "10000\t60999\n")
    found = read_ports(tmp_path, [21000])
    check = only(judge_ports(Ports(named=found.named, busy={}, given_out=found.given_out)), "ports")
    assert check.state is State.WARNING
    assert "10000-60999" in check.message
    assert only(judge_ports(Ports(named=(), busy={})), "ports").state is State.SKIPPED
    assert only(judge_ports(Ports(named=(21000,), busy={})), "ports").state is State.PASSED


# --- RDMA -------------------------------------------------------------------------------------------------------------


def adapter(machine: Machine, *, node: bool = True, state: str = "4: ACTIVE", gid: str = "fe80::1") -> Machine:
    at = "/sys/class/infiniband/mlx5_0"
    machine.write(f"{at}/device/infiniband_verbs/uverbs0/dev", "231:192\n").write(f"{at}/ports/1/state", f"{state}\n")
    machine.write(f"{at}/ports/1/gids/0", f"{gid}\n")
    return machine.write("/dev/infiniband/uverbs0", "") if node else machine


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"node": False}, "not in this container"),
        ({"state": "1: DOWN"}, "no port of mlx5_0 is active"),
        ({"gid": "0000:0000:0000:0000:0000:0000:0000:0000"}, "has an address"),
    ],
)
def test_rdma_that_cannot_be_used(tmp_path: Path, values: dict[str, str], word: str) -> None:
    found = read_rdma(adapter(Machine(tmp_path), **values).root)  # type: ignore[arg-type]
    for wanted, state in (("none", State.SKIPPED), ("wanted", State.WARNING), ("required", State.FAILED)):
        check = only(judge_rdma(found, msgspec.convert({"rdma": wanted}, Demand)), "rdma")
        assert check.state is state
        assert wanted == "none" or word in check.message


def test_rdma_that_can_be_used_and_none(tmp_path: Path) -> None:
    found = read_rdma(adapter(Machine(tmp_path)).root)
    assert only(judge_rdma(found, Demand(rdma="required")), "rdma").state is State.PASSED
    assert only(judge_rdma((), Demand(rdma="required")), "rdma").state is State.FAILED
    assert only(judge_rdma((), Demand(rdma="wanted")), "rdma").state is State.WARNING


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_skew_is_measured_against_the_middle() -> None:
    assert skew(100.0, 163.0, 102.0) == Skew(62.0, 1.0)


@pytest.mark.parametrize(
    ("seconds", "error", "state"),
    [(0.1, 0.01, State.PASSED), (600.0, 0.1, State.WARNING), (3600.0, 0.1, State.FAILED), (-3600.0, 0.1, State.FAILED),
     (6.0, 3.0, State.PASSED)],
)  # fmt: skip
def test_clocks(seconds: float, error: float, state: State) -> None:
    check = judge_clock(Skew(seconds, error), RULES.limits, whose="n7")
    assert check.state is state
    if state is State.FAILED:
        assert "1 h 00 min" in check.message
        assert ("ahead of" if seconds > 0 else "behind") in check.message
