"""Orders: flags and values are each other's inverse, and what contradicts itself is said."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.launch.node.flags import RDMA, UNFIT
from orbit.launch.node.options import Order, folder_of, host_of, parse, problems, rank_of, words
from orbit.launch.plan import meeting_ports
from orbit.launch.site.model import Wanted

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
NUMBERS = st.integers(0, 4096)
TIMES = st.one_of(NUMBERS.map(float), st.floats(0, 1e6, allow_subnormal=False))


@st.composite
def orders(draw: st.DrawFn) -> Order:
    nodes = draw(st.integers(1, 2000))
    leave_out = draw(st.booleans())
    ray = nodes > 1 or draw(st.booleans())
    return Order(
        name=draw(TEXT),
        nodes=nodes,
        rank=draw(st.one_of(st.integers(0, nodes - 1).map(str), st.just("env:SLURM_PROCID"))),
        gpus=draw(NUMBERS),
        cpus=draw(NUMBERS),
        memory_gib=draw(NUMBERS),
        shm_gib=draw(NUMBERS),
        scratch_gib=draw(NUMBERS),
        nofile=draw(NUMBERS),
        image=draw(st.sampled_from(["", "sha256:" + "a" * 64])),
        meet=draw(st.sampled_from(["tcp:head.example", "tcp:fe80::1%eth0", "tcp:env:HEAD", "dir:/shared/a b"])),
        ports=meeting_ports(str(nodes)),
        shared=draw(TEXT),
        late_minutes=draw(TIMES),
        grace_seconds=draw(TIMES),
        lost_seconds=draw(TIMES),
        unfit="leave-out" if leave_out else "stop",
        least=draw(st.integers(0, nodes)) if leave_out else 0,
        rdma=draw(st.sampled_from(RDMA)),
        burn_in=draw(st.booleans()),
        ray=ray,
        join=draw(TEXT) if ray else "",
        dashboard=draw(st.booleans()),
        command=tuple(draw(st.lists(TEXT, min_size=1, max_size=4))),
    )


@given(orders())
def test_what_is_written_is_what_is_read(order: Order) -> None:
    assume(not any(problems(order)))
    assert parse(words(order)) == order


@pytest.mark.parametrize(
    "command",
    [
        ("bash", "-c", "exit 7"),
        ("a", "--", "b"),
        ("--", "x"),
        ("--nodes", "4"),
        ("a", "--name", "z"),
        ("x", ""),
        ("-",),
    ],
)
def test_a_command_is_never_read_as_flags(command: tuple[str, ...]) -> None:
    order = Order(nodes=2, meet="dir:/s", command=command)
    assert parse(words(order)) == order


def test_the_defaults_are_the_same_in_both_places() -> None:
    assert parse(["--", "true"]) == Order(command=("true",))
    assert words(Order(command=("true",))) == ("--", "true")
    assert get_args(Wanted.__value__) == RDMA
    assert get_args(get_type_hints(Order)["unfit"]) == UNFIT


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("", "no command"),
        ("--nodes 0 -- x", "--nodes 0"),
        ("--nodes two -- x", "invalid int value"),
        ("--nodes 2 -- x", "without --meet"),
        ("--nodes 2 --meet tcp:h -- x", "without --ports"),
        ("--nodes 2 --meet h --ports 21000 -- x", "--meet 'h'"),
        ("--nodes 2 --meet tcp:a/b --ports 21000 -- x", "--meet"),
        ("--nodes 2 --meet dir:here -- x", "absolute"),
        ("--nodes 2 --meet dir:/s --rank 2 -- x", "--rank 2"),
        ("--rank first -- x", "--rank 'first'"),
        ("--ports 80 -- x", "--ports 80"),
        ("--ports 2000,x -- x", "--ports '2000,x'"),
        ("--ports 2000,2000 -- x", "twice"),
        ("--least 2 --unfit leave-out -- x", "--least 2"),
        ("--least 1 -- x", "--least 1 without"),
        ("--no-ray --nodes 2 --meet dir:/s -- x", "--no-ray"),
        ("--no-ray --join h:1 -- x", "--join"),
        ("--late-minutes nan -- x", "--late-minutes"),
        ("--grace-seconds -5 -- x", "--grace-seconds"),
        ("--gpus -1 -- x", "--gpus"),
        ("--unfit maybe -- x", "invalid choice"),
        ("--unknown -- x", "unrecognized"),
    ],
)
def test_what_contradicts_itself_is_said(argv: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(argv.split())
    assert said in str(caught.value)
    assert caught.value.fix


def test_rank_and_host_come_from_the_environment() -> None:
    order = Order(nodes=4, rank="env:SLURM_PROCID", meet="tcp:env:HEAD", ports=(21000,), command=("x",))
    assert rank_of(order, {"SLURM_PROCID": "3"}) == 3
    assert host_of(order, {"HEAD": "node-1.example"}) == "node-1.example"
    assert folder_of(order) == ""
    assert folder_of(Order(meet="dir:/s/x")) == "/s/x"
    for env in ({}, {"SLURM_PROCID": "4"}, {"SLURM_PROCID": "-1"}, {"SLURM_PROCID": "one"}, {"SLURM_PROCID": ""}):
        with pytest.raises(InputError, match="--rank"):
            rank_of(order, env)
    for env in ({}, {"HEAD": "a b"}, {"HEAD": "-x"}):
        with pytest.raises(InputError, match="--meet"):
            host_of(order, env)
