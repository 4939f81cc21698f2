"""Meeting in a folder all nodes see: the first node writes where it listens, the others read it and go there.

One small file, made beside and renamed. No lock is asked of the file system, no clock is compared, and an old file does
no harm: its proof is another job's, or nobody of ours answers where it points, and then it is read again.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from orbit.core.files import from_os_error, write_atomic
from orbit.core.records import Record, compact_json
from orbit.errors import OrbitError, RefusedError
from orbit.launch.node.meeting.proof import holds, prove, public_name

SCHEMA = "orbit.meeting-place/1"
MAX_BYTES = 64 << 10
FIB = Path("/proc/net/fib_trie")


class Place(Record, frozen=True, kw_only=True):
    """Where the first node of an attempt listens."""

    schema: str = SCHEMA
    attempt: str
    addresses: tuple[str, ...]
    port: int
    proof: str


def place_file(folder: Path, token: bytes) -> Path:
    """The file of this job: other jobs that meet in the same folder have others."""
    return folder / f".orbit-meeting-{public_name(token)}.json"


@contextlib.contextmanager
def announced(folder: Path, token: bytes, *, attempt: str, addresses: Sequence[str], port: int) -> Iterator[Path]:
    """The file says where this node listens while the block runs; one of an earlier attempt is replaced.

    Raises :class:`RefusedError` when it cannot be written.
    """
    path = place_file(folder, token)
    proof = prove(token, "place", attempt, ",".join(addresses), str(port))
    place = Place(attempt=attempt, addresses=tuple(addresses), port=port, proof=proof)
    try:
        write_atomic(path, compact_json(place), mode=0o600)
    except OSError as error:
        said = from_os_error(error, "writing where nodes meet")
        raise RefusedError(said.what, fix="the folder of --meet dir:... must be writable on every node") from None
    try:
        yield path
    finally:
        with contextlib.suppress(OSError, OrbitError, msgspec.DecodeError):
            if _read(path, token) == place:  # a later attempt's stays
                path.unlink()


def announced_places(folder: Path, token: bytes) -> list[tuple[str, int]]:
    """Where the first node says it is: empty while it has said nothing, or nothing that proves itself."""
    path = place_file(folder, token)
    try:
        next(folder.iterdir(), None)  # a client of NFS looks again only when it is asked for the folder
        place = _read(path, token)
    except (OSError, msgspec.DecodeError):
        return []
    return [(address, place.port) for address in place.addresses] if place else []


def own_addresses(fib: Path = FIB) -> list[str]:
    """This machine's addresses, the one on the way out first, that of localhost last."""
    found = [*_outward(), *_local(fib)]
    reachable = [address for address in found if not address.startswith("127.")]
    return [*dict.fromkeys(reachable), "127.0.0.1"]


def reachable(address: str) -> str:
    """``address``, or where it is this machine's own for itself, the one it has for others: Ray takes no other."""
    return own_addresses()[0] if address.startswith("127.") or address == "::1" else address


def _read(path: Path, token: bytes) -> Place | None:
    with open(path, "rb") as file:
        place = msgspec.json.decode(file.read(MAX_BYTES), type=Place)
    words = ("place", place.attempt, ",".join(place.addresses), str(place.port))
    return place if place.schema == SCHEMA and holds(token, place.proof, *words) else None


def _outward() -> Iterator[str]:
    """The address that packets for the world would have; nothing is sent (udp(7): connect only sets the route)."""
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            yield str(probe.getsockname()[0])


def _local(fib: Path) -> Iterator[str]:
    """IPv4 addresses of this machine from the kernel's routing table: a leaf, then what it is."""
    address = ""
    with contextlib.suppress(OSError):
        for line in fib.read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[:1] == ["|--"]:
                address = words[1]
            elif words[:2] == ["/32", "host"] and words[2:] == ["LOCAL"]:
                yield address
