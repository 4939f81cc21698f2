"""Preflight, meeting and verdict of many nodes, as one machine can show them.

    python tests/bench/bench_crowd.py [--nodes N] [--libraries L] [--gpus G] [--connections C]

Made-up reports with what real ones hold (this machine's own checks, a fingerprint with L libraries), then, with the
code that runs in a job: size of a message, encoding on a node, decoding, decision and table on the first node. Then C
real connections to this process from another one through the loopback: the whole handshake and a report each, and the
processor time of the first node. Prints a table; nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import secrets
import time
from collections.abc import Callable

import msgspec

from orbit.launch.fingerprint.model import Fingerprint, Library
from orbit.launch.node.meeting.guest import Guest
from orbit.launch.node.meeting.host import Host
from orbit.launch.node.meeting.messages import Report, encode
from orbit.launch.preflight.crowd import JobRules, decide
from orbit.launch.preflight.model import Demand, NodeReport
from orbit.launch.preflight.run import check_node
from orbit.launch.preflight.say import failed
from orbit.launch.preflight.table import render


def make_reports(nodes: int, libraries: int, gpus: int) -> list[NodeReport]:
    """Every tenth node is unfit, every fiftieth runs another image."""
    real = check_node(Demand(), rank=0, host="gpu-0000")
    mapped = tuple(
        Library(name=f"libpart{number}.so.1", path=f"/opt/orbit/lib/python3.12/site-packages/part/libpart{number}.so.1",
                sha256=f"{number:064x}", inside=True)
        for number in range(libraries)
    )  # fmt: skip
    usual = Fingerprint(
        image="sha256:" + "a" * 64, environment="b" * 64, lock="c" * 64, kernels="d" * 64, orbit="e" * 64,
        interpreter="3.12.12 sha256:" + "f" * 64, glibc="2.36", libraries=mapped, driver="580.65.06, CUDA 13.0",
        versions={"torch": "2.11.0", "nccl": "2.28.9", "cudnn": "9.22.0", "cuda-runtime": "13.0", "ray": "2.55.1"},
        devices=("NVIDIA H200 9.0",) * gpus,
    )  # fmt: skip
    other = msgspec.structs.replace(usual, image="sha256:" + "0" * 64)
    small = failed("shared-memory", "/dev/shm holds 64 MiB, 16 GiB are needed", "docker: --shm-size=16g")
    found = []
    for rank in range(nodes):
        checks = tuple(check for check in real.checks if not check.fix)
        checks = (*checks, small) if rank % 10 == 7 else checks
        print_ = other if rank % 50 == 49 else usual
        found.append(msgspec.structs.replace(real, rank=rank, host=f"gpu-{rank:04}", checks=checks, fingerprint=print_))
    return found


def clocked[T](name: str, work: Callable[[], T], count: int = 1) -> T:
    """Run it and print its processor time, for all and for one."""
    began = time.process_time()
    value = work()
    spent = time.process_time() - began
    each = f", {1e6 * spent / count:.0f} us each" if count > 1 else ""
    print(f"{name:48} {1e3 * spent:9.1f} ms{each}")
    return value


def on_paper(nodes: int, libraries: int, gpus: int) -> None:
    """Messages and the first node's work, without a network."""
    reports = make_reports(nodes, libraries, gpus)
    messages = clocked(f"encoding {nodes} reports (each node its own)", lambda: [
        encode(Report(report=report)) for report in reports], nodes)  # fmt: skip
    bare = encode(Report(report=msgspec.structs.replace(reports[0], fingerprint=None)))
    sizes = [len(message) for message in messages]
    print(f"{'size of one report':48} {max(sizes):9} bytes, {len(bare)} without its fingerprint")
    print(f"{'all reports':48} {sum(sizes) / 1e6:9.2f} MB")
    decoder = msgspec.json.Decoder(Report)
    came = clocked("decoding them", lambda: [decoder.decode(message[4:]) for message in messages], nodes)
    rules = JobRules(nodes=nodes, unfit="leave-out", least=1)
    verdict = clocked("deciding", lambda: decide([message.report for message in came], rules), nodes)
    text = clocked("the table", lambda: render([message.report for message in came], verdict), nodes)
    print(f"{'lines of the table':48} {len(text.splitlines()):9}")
    print(f"{'decision':48} {verdict.reason[:60]}")


def guests(port: int, token: bytes, ranks: range, libraries: int, gpus: int) -> None:
    """Nodes in a process of their own: meet, send a report, wait for the end."""
    reports = make_reports(len(ranks), libraries, gpus)

    async def one(rank: int, report: NodeReport) -> None:
        guest = Guest(token, rank, lambda: [("127.0.0.1", port)])
        await guest.meet(120)
        guest.say(Report(report=msgspec.structs.replace(report, rank=rank)))
        await guest.events.get()
        await guest.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(one(rank, report) for rank, report in zip(ranks, reports, strict=True)))

    asyncio.run(all_of_them())


async def first_node(connections: int, libraries: int, gpus: int) -> None:
    """The first node's side with real connections."""
    from orbit.launch.node.meeting.messages import End

    token = secrets.token_bytes(32)
    host = Host(token, connections + 1)
    await host.open([])
    port = host.port
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=guests, args=(port, token, range(1, connections + 1), libraries, gpus))
    process.start()
    began, used, came = 0.0, 0.0, 0
    while came < connections:
        _rank, message = await host.events.get()
        if isinstance(message, Report):
            if not came:
                began, used = time.monotonic(), time.process_time()
            came += 1
    wall, cpu = time.monotonic() - began, time.process_time() - used
    show(f"{connections} handshakes and reports, first to last", f"{1e3 * wall:9.1f} ms")
    each = f"{1e6 * cpu / connections:.0f} us each"
    show("processor time of the first node in that time", f"{1e3 * cpu:9.1f} ms, {each}")
    for rank in range(1, connections + 1):
        host.say(rank, End(status=0, reason="done"))
    await asyncio.to_thread(process.join, 120)
    await host.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    show("memory of the first node at most", f"{memory:9.0f} MiB")


def show(name: str, value: str) -> None:
    """One line."""
    print(f"{name:48} {value}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--libraries", type=int, default=150)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--connections", type=int, default=1000)
    args = parser.parse_args()
    on_paper(args.nodes, args.libraries, args.gpus)
    if args.connections:
        asyncio.run(first_node(args.connections, args.libraries, args.gpus))


if __name__ == "__main__":
    main()
