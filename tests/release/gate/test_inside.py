"""The first process of the room: what it becomes, and that its way out dies with it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from orbit.core import proc
from orbit.release.gate.fence import fence
from orbit.release.gate.inside import FAILED, NOT_FOUND, Order
from tests.release.gate.rooms import namespaces

SAY = "import os, sys, json; print(json.dumps([dict(os.environ), os.getcwd(), sys.stdin.read()]))"


def start(order: Order) -> tuple[int, bytes, bytes]:
    done = proc.run(
        proc.own_python("orbit.release.gate.inside"), doing="a test", stdin=msgspec.json.encode(order), check=False
    )
    return done.returncode, done.stdout, done.stderr


def order(tmp_path: Path, *argv: str, **changes: object) -> Order:
    values = {"argv": argv, "cwd": str(tmp_path), "environment": {"A": "1"}, "socket": "", "namespace": False}
    return msgspec.convert(values | changes, Order)


def test_the_environment_is_the_orders_word_for_word(tmp_path: Path) -> None:
    status, out, _ = start(order(tmp_path, sys.executable, "-c", SAY))
    environment, cwd, stdin = msgspec.json.decode(out)
    environment.pop("LC_CTYPE", None)  # Python's own, where no locale is set (PEP 538)
    assert (status, environment, cwd, stdin) == (0, {"A": "1"}, str(tmp_path), "")


def test_the_status_is_the_commands(tmp_path: Path) -> None:
    assert start(order(tmp_path, sys.executable, "-c", "raise SystemExit(7)"))[0] == 7


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    status, _, err = start(order(tmp_path, "/no/such/program"))
    assert status == NOT_FOUND
    assert b"/no/such/program" in err


@pytest.mark.parametrize("namespace", [False, True])
def test_proxy_variables_lead_to_the_fence(tmp_path: Path, namespace: bool) -> None:
    if namespace:
        namespaces()
    program = (
        "import os, urllib.request, urllib.error\n"
        "try:\n    urllib.request.urlopen('http://undeclared.example/x', timeout=20)\n"
        "except urllib.error.HTTPError as error:\n    print(error.code)\n"
    )
    with fence(tmp_path, frozenset(), None) as wall:
        made = order(tmp_path, sys.executable, "-c", program, socket=str(wall.path), namespace=namespace)
        assert start(made)[:2] == (0, b"403\n")
        assert wall.seen().refused == {"undeclared.example": 1}


def test_in_the_namespace_there_is_no_other_way(tmp_path: Path) -> None:
    namespaces()
    program = (
        "import socket\n"
        "print(sorted(name for _, name in socket.if_nameindex()))\n"
        "try:\n    socket.create_connection(('192.0.2.1', 80), 5)\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    status, out, _ = start(order(tmp_path, sys.executable, "-c", program, namespace=True))
    assert status == 0
    lines = out.decode().splitlines()
    assert "lo" in lines[0]
    assert lines[1] == "101"  # ENETUNREACH


def test_a_room_that_cannot_be_closed_says_so(tmp_path: Path) -> None:
    """Root without CAP_SYS_ADMIN, as in most containers."""
    namespaces()
    words = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"]
    inside = proc.own_python("orbit.release.gate.inside")
    closed = msgspec.json.encode(order(tmp_path, "true", namespace=True))
    done = proc.run([*words, *inside], doing="a test", stdin=closed, check=False)
    assert done.returncode == FAILED
    assert b"cannot be closed: Operation not permitted" in done.stderr
