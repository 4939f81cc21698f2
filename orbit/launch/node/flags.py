"""The flags of ``orbit launch node``: what a renderer writes and a node reads. Defaults are those of :class:`Order`."""

from __future__ import annotations

import argparse

UNFIT = ("stop", "leave-out")
RDMA = ("none", "wanted", "required")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Every flag of the node program, and the command behind ``--``."""
    job = parser.add_argument_group("the job")
    job.add_argument("--name", default="job", help="of the job, as the scheduler shows it")
    job.add_argument("--nodes", type=int, default=1, metavar="N", help="nodes of the job (default: 1)")
    job.add_argument("--rank", default="0", metavar="R", help="which of them this is: a number, or env:NAME")
    job.add_argument("--image", default="", metavar="DIGEST", help="sha256:... of the image that must run here")
    job.add_argument("--no-ray", dest="ray", action="store_false", help="no Ray: the command of a job of one node")
    job.add_argument("--join", default="", metavar="ADDRESS", help="a Ray cluster somebody else starts (KubeRay)")
    job.add_argument("--dashboard", action="store_true", help="start Ray's dashboard on the first node, on localhost")
    node = parser.add_argument_group("what a node must have (0: nothing is demanded)")
    node.add_argument("--gpus", type=int, default=0, metavar="G", help="GPUs")
    node.add_argument("--cpus", type=int, default=0, metavar="C", help="hardware threads")
    node.add_argument("--memory-gib", type=int, default=0, metavar="M", help="main memory, in GiB")
    node.add_argument("--shm-gib", type=int, default=0, metavar="S", help="size of /dev/shm, in GiB")
    node.add_argument("--scratch-gib", type=int, default=0, metavar="X", help="free room in the state folder, in GiB")
    node.add_argument("--nofile", type=int, default=65536, metavar="F", help="open files of a process (default: 65536)")
    node.add_argument("--rdma", choices=RDMA, default="none", help="whether RDMA is used (default: none)")
    node.add_argument("--burn-in", action="store_true", help="load the GPUs for a minute first")
    meeting = parser.add_argument_group("how nodes meet")
    meeting.add_argument("--meet", default="", metavar="WHERE", help="tcp:HOST of the first node, or dir:FOLDER")
    meeting.add_argument("--ports", default="", metavar="P,P", help="the first node takes the first that is free")
    meeting.add_argument(
        "--shared", default="", metavar="FOLDER", help="folder all nodes see; logs of failures go there"
    )
    meeting.add_argument(
        "--late-minutes", type=float, default=15, metavar="L", help="how long nodes wait for each other (default: 15)"
    )
    meeting.add_argument("--unfit", choices=UNFIT, default="stop", help="what becomes of an unfit node (default: stop)")
    meeting.add_argument(
        "--least", type=int, default=0, metavar="K", help="with leave-out: fit nodes that are enough (0: all)"
    )
    meeting.add_argument(
        "--grace-seconds",
        type=float,
        default=60,
        metavar="T",
        help="from the scheduler's SIGTERM to its SIGKILL (default: 60)",
    )
    meeting.add_argument(
        "--lost-seconds", type=float, default=30, metavar="T", help="silence after which a node is lost (default: 30)"
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="after --: what runs once, on the first node")
